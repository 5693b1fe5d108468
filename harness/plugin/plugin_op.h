/* plugin_op.h - runs a plug-in (attune_plugin.h): a plug-in that is prepared for a shape, its plans
 * and their launches. Not for several threads at a time. The caller's GPU context stays as it was. */
#ifndef HARNESS_PLUGIN_PLUGIN_OP_H
#define HARNESS_PLUGIN_PLUGIN_OP_H

#include "kernels/attune_plugin.h"

struct choice;
struct device;
struct plugin_op;
struct plugin_plan;

enum attune_status plugin_op_open(struct plugin_op **, struct device *, const struct choice *,
				  const attune_shape *);
/* After its plans. */
void plugin_op_close(struct plugin_op *);
const attune_plugin *plugin_of(const struct plugin_op *);

/* *workspace: bytes that a launch needs, aligned to 256. */
enum attune_status plugin_plan_open(struct plugin_plan **, struct plugin_op *,
				    const attune_plugin_batch *, size_t *workspace);
/* Fills a cache that the plug-in holds in a layout of its own; most hold none. */
enum attune_status plugin_plan_store(struct plugin_plan *, const attune_tensors *, void *stream);
enum attune_status plugin_plan_launch(struct plugin_plan *, const attune_tensors *, void *workspace,
				      void *stream);
void plugin_plan_close(struct plugin_plan *);

#endif
