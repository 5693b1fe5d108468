/* plugin.h - kernels of plug-ins (kernels/attune_plugin.h) in the tool: loads shared objects, and
 * keeps the plans of plug-ins. harness/plugin/plugin_op.h calls them.
 *
 * A plan belongs to an owner, a phase and a page set: the owner is what the caller keeps alive, a
 * workload. Plans are made before a graph is captured, since planning may allocate. */
#ifndef HARNESS_PLUGIN_PLUGIN_H
#define HARNESS_PLUGIN_PLUGIN_H

#include "kernels/attune_plugin.h"
#include "kernels/segments.h"

struct plugin_op;

/* ---- plugin_load.c ----------------------------------------------------------------- */
/* Registers the kernels of a shared object: "FILE", or some of them, "FILE:one,two".
 * 0 + complain. */
int plugin_load(const char *file);

/* ---- plugin_op.c ----------------------------------------------------------------- */
struct plugin_key {
	const void *owner;
	enum phase phase;
	int set;
};
/* Makes the plan of this key, in place of an earlier one. *workspace: bytes that launches need.
 * *plan_us: the time of the call. */
enum attune_status plugin_plan(struct plugin_op *, struct plugin_key, const attune_plugin_batch *,
			       size_t *workspace, double *plan_us);
/* Fills a cache that the plug-in holds in a layout of its own; most hold none. */
enum attune_status plugin_store(struct plugin_op *, struct plugin_key, const attune_tensors *,
				void *stream);
enum attune_status plugin_launch(struct plugin_op *, struct plugin_key, const attune_tensors *,
				 void *workspace, void *stream);
/* Frees all plans of an owner, of all ops. */
void plugin_forget(const void *owner);
/* Frees the plans of an op, and the op. NULL: does nothing. */
void plugin_forget_op(struct plugin_op *);

#endif
