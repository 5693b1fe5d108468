/* plugins.c - the rows of PLUGINS of an op, and the list of the plans that plug-ins made for it. */
#include "plugins.h"
#include "kernels/launch/op.h"
#include "kernels/launch/plugin_op.h"
#include "kernels/spec/plugin.h"
#include "kernels/spec/sized.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	struct kept *next;
	int number, choice;
	struct plugin_plan *plan;
	attune_tensors tensors; /* of the whole batch */
};

struct plugin_plans {
	pthread_mutex_t lock; /* of what follows */
	struct kept *first;
	int last_number;
};

/* ---- the rows of an op -------------------------------------------------------------------- */

static const char not_registered[] = "no plug-in of this name is registered";
static const char other_version[] = "the plug-in is registered in another version";
static const char other_axes[] = "the plug-in has no such tunables";
static const char has_own_cache[] = "it holds the cache in a layout of its own";
static const char not_prepared[] = "the plug-in could not be prepared";

/* NULL, or why the row is not a choice of this process. */
static const char *find(struct choice *c, const struct selector_plugin *row, enum backend backend)
{
	char version[MOST_VERSION + 1];
	const char *where;
	c->kernel = kernel_find(backend, row->name);
	if (!c->kernel || !c->kernel->plugin)
		return not_registered;
	if (c->kernel->plugin->store)
		return has_own_cache;
	plugin_version(version, c->kernel->plugin->version);
	if (strcmp(version, row->version))
		return other_version;
	return config_parse(&c->config, c->kernel->space, row->text, &where) ? NULL : other_axes;
}

struct ready *plugin_row(const attune_op *op, int row)
{
	return &op->ready[op->num_ready + row];
}

const char *plugin_unused(const attune_op *op, const struct selector_plugin *row)
{
	const struct device_info *d = &op->ctx->device.info;
	struct choice c;
	const char *why = find(&c, row, d->backend);
	if (!why)
		why = c.kernel->space->why_illegal(&c.config, &op->shape, NULL, d);
	if (why || plugin_row(op, (int)(row - op->heuristic->plugins))->plugin)
		return why;
	return not_prepared;
}

static struct plugin_plans *plans_new(void)
{
	struct plugin_plans *all = calloc(1, sizeof *all);
	if (all)
		pthread_mutex_init(&all->lock, NULL);
	return all;
}

enum attune_status plugins_prepare(attune_op *op)
{
	const int n = op->heuristic ? op->heuristic->num_plugins : 0;
	for (int i = 0; i < n; i++) {
		const struct selector_plugin *row = &op->heuristic->plugins[i];
		struct ready *r = plugin_row(op, i);
		struct choice c;
		if (find(&c, row, op->ctx->device.info.backend) ||
		    c.kernel->space->why_illegal(&c.config, &op->shape, NULL,
						 &op->ctx->device.info))
			continue;
		r->kernel = c.kernel;
		r->config = c.config;
		if (!op->plugins && !(op->plugins = plans_new()))
			return fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
		if (plugin_op_open(&r->plugin, &op->ctx->device, &c, &op->shape))
			r->plugin = NULL; /* ours run in its place */
	}
	return ATTUNE_OK;
}

static void drop(struct kept **at)
{
	struct kept *k = *at;
	*at = k->next;
	plugin_plan_close(k->plan);
	free(k);
}

void plugins_release(attune_op *op)
{
	if (!op->plugins)
		return;
	while (op->plugins->first)
		drop(&op->plugins->first);
	for (int i = 0; i < op->heuristic->num_plugins; i++)
		plugin_op_close(plugin_row(op, i)->plugin);
	pthread_mutex_destroy(&op->plugins->lock);
	free(op->plugins);
}

/* ---- the plans of plug-ins ----------------------------------------------------------------- */

static struct kept *find_kept(const struct plugin_plans *all, int number)
{
	struct kept *k = all->first;
	while (k && k->number != number)
		k = k->next;
	return k;
}

static struct kept *kept_of(const attune_op *op, const attune_part *p)
{
	if (!op->plugins || p->choice < op->num_ready)
		return NULL;
	pthread_mutex_lock(&op->plugins->lock);
	struct kept *k = find_kept(op->plugins, p->resolved);
	pthread_mutex_unlock(&op->plugins->lock);
	return k && k->choice == p->choice ? k : NULL;
}

struct plugin_plan *planned_by_plugin(const attune_op *op, const attune_part *p)
{
	const struct kept *k = kept_of(op, p);
	return k ? k->plan : NULL;
}

/* What a plug-in may read when it plans is the same. */
static int same_tensors(const attune_tensors *a, const attune_tensors *b)
{
	return a->block_table == b->block_table && a->query_start == b->query_start &&
	       a->seq_lens == b->seq_lens && a->block_table_stride == b->block_table_stride &&
	       a->q_token_stride == b->q_token_stride && a->q_head_stride == b->q_head_stride &&
	       a->out_token_stride == b->out_token_stride &&
	       a->out_head_stride == b->out_head_stride && a->k_page_stride == b->k_page_stride &&
	       a->k_slot_stride == b->k_slot_stride && a->k_head_stride == b->k_head_stride &&
	       a->v_page_stride == b->v_page_stride && a->v_slot_stride == b->v_slot_stride &&
	       a->v_head_stride == b->v_head_stride && scale_needs_met(a) == scale_needs_met(b);
}

const char *plugin_tensors_error(const attune_op *op, const attune_plan *plan,
				 const attune_tensors *tensors)
{
	for (int i = 0; i < plan->num_parts; i++) {
		const struct kept *k = kept_of(op, &plan->part[i]);
		if (k && !same_tensors(&k->tensors, tensors))
			return "a plug-in planned for other strides, scales, block_table, "
			       "query_start or seq_lens";
	}
	return NULL;
}

/* Gives it a number that no other has, and puts it into the list. */
static void keep(struct plugin_plans *all, struct kept *k)
{
	pthread_mutex_lock(&all->lock);
	do
		all->last_number = all->last_number == INT_MAX ? 1 : all->last_number + 1;
	while (find_kept(all, all->last_number));
	k->number = all->last_number;
	k->next = all->first;
	all->first = k;
	pthread_mutex_unlock(&all->lock);
}

int plugin_plan_keep(const attune_op *op, int row, const attune_plugin_batch *batch,
		     const attune_tensors *tensors, size_t *workspace)
{
	struct kept *k = calloc(1, sizeof *k);
	if (!k || plugin_plan_open(&k->plan, plugin_row(op, row)->plugin, batch, workspace)) {
		free(k);
		return 0;
	}
	k->choice = op->num_ready + row;
	k->tensors = *tensors;
	keep(op->plugins, k);
	return k->number;
}

static void forget(const attune_op *op, const attune_part *p)
{
	struct plugin_plans *all = op->plugins;
	struct kept *found = NULL;
	if (!all || p->choice < op->num_ready)
		return;
	pthread_mutex_lock(&all->lock);
	for (struct kept **at = &all->first; *at; at = &(*at)->next)
		if ((*at)->number == p->resolved && (*at)->choice == p->choice) {
			found = *at;
			*at = found->next;
			break;
		}
	pthread_mutex_unlock(&all->lock);
	if (found)
		plugin_plan_close(found->plan);
	free(found);
}

void attune_free_plan(const attune_op *op, const attune_plan *plan)
{
	attune_plan own;
	plan = plan ? plan_read(plan, &own, "attune_free_plan") : NULL;
	if (!op || !plan || plan->op != op->id)
		return;
	for (int i = 0; i < plan->num_parts && i < (int)COUNT(plan->part); i++)
		forget(op, &plan->part[i]);
}
