/* plugins.h - plug-ins in an op: which rows of PLUGINS are at hand, and the plans that plug-ins
 * made (attune_plan_plugins). */
#ifndef KERNELS_API_PLUGINS_H
#define KERNELS_API_PLUGINS_H

#include "kernels/attune_plugin.h"

struct plugin_plan;
struct ready;
struct selector_plugin;

/* Makes the rows of PLUGINS ready for which a plug-in is registered in the right version and takes
 * the shape. */
enum attune_status plugins_prepare(attune_op *);
void plugins_release(attune_op *);
struct ready *plugin_row(const attune_op *, int row);
/* Why a row can run nothing of this op, a constant text; NULL: it can. */
const char *plugin_unused(const attune_op *, const struct selector_plugin *);

/* What the rules say of plug-ins for a batch. Of two rows, one a part, the one that cannot run. */
struct plugin_leaf {
	const struct selector_plugin *row; /* NULL: they name none */
	const char *why; /* ours run in its place; NULL: it runs. Until the next call that fails */
};
/* attune_plan_plugins, which leaves that out. */
enum attune_status plan_plugins(const attune_op *, const attune_batch *, const attune_tensors *,
				unsigned promises, void *stream, attune_plan *,
				struct plugin_leaf *);

/* Lets the row's plug-in plan. `tensors` are those of the whole batch. Returns the plan's number;
 * 0: it failed. */
int plugin_plan_keep(const attune_op *, int row, const attune_plugin_batch *,
		     const attune_tensors *tensors, size_t *workspace);
/* The plug-in's plan of a part. NULL: it was freed, or is not of this op. */
struct plugin_plan *planned_by_plugin(const attune_op *, const attune_part *);
/* NULL, or why the tensors are not those that the plug-in's plans of these parts were made for. */
const char *plugin_tensors_error(const attune_op *, const attune_plan *, const attune_tensors *);

#endif
