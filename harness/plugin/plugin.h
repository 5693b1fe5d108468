/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - kernels of plug-ins (kernels/attune_plugin.h) in the tool: loads shared objects, enters
 * their kernels in the table attune_kernels, and keeps and launches their plans. Not for several
 * threads at a time. The caller's GPU context stays as it was.
 *
 * A plan belongs to an owner, a phase and a page set: the owner is what the caller keeps alive, a
 * workload. Plans are made before a graph is captured, since planning may allocate. */
#ifndef HARNESS_PLUGIN_PLUGIN_H
#define HARNESS_PLUGIN_PLUGIN_H

#include "kernels/attune_plugin.h"
#include "kernels/segments.h"

struct choice;
struct device;
struct device_info;
struct plugin_op;

/* Registers the kernels of a shared object: "FILE", or some of them, "FILE:one,two".
 * 0 + complain. */
int plugin_load(const char *file);

/* ---- plugin_kernel.c --------------------------------------------------------------- */
/* Adds the plug-in to attune_kernels, for the rest of the process. The struct and what it points to
 * are not copied. ATTUNE_INVALID: it is NULL, of another ABI or has no name or version, its name is
 * taken, an axis is not sound, a function is missing, or there are MOST_PLUGINS already. */
enum attune_status plugin_register(const attune_plugin *);

/* The places of plug-ins in that table, MOST_PLUGINS of them. */
#define EACH_PLUGIN_PLACE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

enum { MOST_VERSION = 48 };
/* Begins the flags of a plug-in's "binary": -DPLUGIN=617264c1 ... */
#define PLUGIN_FLAG "-DPLUGIN="
/* The flag of a plug-in that rounds q and weights to E4M3, over an E4M3 cache. */
#define PLUGIN_E4M3_MATH "-DE4M3_MATH=1"

/* The device as a plug-in is told of it. */
attune_plugin_device plugin_device(const struct device_info *);

/* ---- plugin_op.c ----------------------------------------------------------------- */
/* A plug-in that is prepared for a shape; its plans. */
enum attune_status plugin_op_open(struct plugin_op **, struct device *, const struct choice *,
				  const attune_shape *);
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
