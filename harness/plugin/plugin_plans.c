/* plugin_plans.c - the plans of plug-ins that the harness keeps, found by their keys. */
#include "plugin.h"
#include "harness/base/base.h"
#include "harness/plugin/plugin_op.h"
#include "kernels/spec/status.h"
#include <stdlib.h>

struct kept {
	struct kept *next;
	struct plugin_key key;
	const struct plugin_op *op;
	struct plugin_plan *plan;
};

static struct kept *plans; /* of all ops of this process */

static int is_same(const struct plugin_key *a, const struct plugin_key *b)
{
	return a->owner == b->owner && a->phase == b->phase && a->set == b->set;
}

/* Frees the plans of an op (NULL: of all) and an owner (NULL: of all), or of one key alone. */
static void drop(const struct plugin_op *op, const void *owner, const struct plugin_key *key)
{
	for (struct kept **at = &plans; *at;) {
		struct kept *p = *at;
		if ((op && p->op != op) || (owner && p->key.owner != owner) ||
		    (key && !is_same(&p->key, key))) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		plugin_plan_close(p->plan);
		free(p);
	}
}

void plugin_forget(const void *owner)
{
	drop(NULL, owner, NULL);
}

void plugin_forget_op(struct plugin_op *op)
{
	if (op)
		drop(op, NULL, NULL);
	plugin_op_close(op);
}

enum attune_status plugin_plan(struct plugin_op *op, struct plugin_key key,
			       const attune_plugin_batch *batch, size_t *workspace, double *plan_us)
{
	drop(op, NULL, &key);
	struct kept *p = calloc(1, sizeof *p);
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	const double start = seconds_now();
	const enum attune_status status = plugin_plan_open(&p->plan, op, batch, workspace);
	if (status) {
		free(p);
		return status;
	}
	*plan_us = 1e6 * (seconds_now() - start);
	*p = (struct kept){ plans, key, op, p->plan };
	plans = p;
	return ATTUNE_OK;
}

/* NULL and a failure: this batch was not planned. */
static struct plugin_plan *find(const struct plugin_op *op, const struct plugin_key *key)
{
	const struct kept *p = plans;
	while (p && !(p->op == op && is_same(&p->key, key)))
		p = p->next;
	if (!p)
		fail(ATTUNE_INVALID, "plug-in %s: this batch was not planned", plugin_of(op)->name);
	return p ? p->plan : NULL;
}

enum attune_status plugin_store(struct plugin_op *op, struct plugin_key key,
				const attune_tensors *tensors, void *stream)
{
	struct plugin_plan *p = find(op, &key);
	return p ? plugin_plan_store(p, tensors, stream) : ATTUNE_INVALID;
}

enum attune_status plugin_launch(struct plugin_op *op, struct plugin_key key,
				 const attune_tensors *tensors, void *workspace, void *stream)
{
	struct plugin_plan *p = find(op, &key);
	return p ? plugin_plan_launch(p, tensors, workspace, stream) : ATTUNE_INVALID;
}
