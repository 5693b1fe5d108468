/* SPDX-License-Identifier: Apache-2.0 */
/* run_plan.c - launches a plan over one layer's tensors (attune_run). */
#include "plan.h"
#include "kernels/args_more.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <string.h>

struct running {
	const attune_op *op;
	const attune_plan *plan;
	const int32_t *schedule; /* the caller's lists of all parts, or NULL */
	struct attune_call call; /* args.schedule: the list of the part being launched */
	const int *table_last;
	int may_begin_early;
	char *workspace;
	size_t at[2]; /* offset of each part's workspace */
	const attune_tensors *tensors;
	int is_to_end[2]; /* kernel_to_end runs the part */
};

static enum attune_status run_one(void *arg, int i, int steps, void *stream)
{
	struct running *run = arg;
	const attune_op *op = run->op;
	const attune_part *p = &run->plan->part[i];
	struct config c;
	const struct ready *r = planned(op, run->plan, i, &c);
	const struct part part = bounds_of(p);
	struct launchable l = { r->kernel,       &c, r->code, { NULL }, run->may_begin_early,
				run->table_last, 0 };
	memcpy(l.helper, op->helper, sizeof op->helper);
	if (run->is_to_end[i]) {
		l.kernel = kernel_to_end(op, &part, run->tensors, &c);
		l.code = op->extra[EXTRA_RAGGED];
		l.num_slots = run->tensors->kv_slots;
	}
	if (run->schedule)
		run->call.args.schedule = run->schedule + schedule_at(op, run->plan, i);
	return run_part(&op->ctx->device, &l, &op->shape, &part, &run->call,
			run->workspace ? run->workspace + run->at[i] : NULL, p->workspace, steps,
			stream);
}

/* The parts, and what the op has in front of them or behind. Launches that read sinks which the one
 * in front makes floats do not begin early. */
static enum attune_status run_all(struct running *run, const attune_tensors *t, size_t sinks_at,
				  void *stream)
{
	const attune_op *op = run->op;
	enum attune_status status = ATTUNE_OK;
	if (sinks_are_widened(&op->shape)) {
		float *floats = (float *)(void *)(run->workspace + sinks_at);
		run->call.args.sinks = floats;
		run->may_begin_early = 0;
		status = sinks_widen(op, t->sinks, floats, stream);
	}
	if (!status)
		status = run_parts(&op->ctx->device, run->plan->how, run->plan->num_parts, run_one,
				   run, stream);
	if (!status && op->shape.has_sinks && op->shape.has_lse)
		status = sink_rows(op, &run->call, stream);
	if (!status && op->lse_apart)
		status = lse_apart(op, &run->call, t, run->plan->num_tokens);
	return status;
}

/* Whether what part i runs can read K and V of these strides. *slots: how many it reads behind the
 * last key of ragged ones, if their memory ends before. */
static int can_read(const struct running *run, int i, int *slots)
{
	const attune_op *op = run->op;
	const attune_tensors *t = run->tensors;
	struct device *dev = &op->ctx->device;
	struct geometry g = { .map_box = 0 };
	struct config c;
	const struct space *space = planned(op, run->plan, i, &c)->kernel->space;
	const struct part part = bounds_of(&run->plan->part[i]);
	*slots = 0;
	if (space->takes_maps)
		space->geometry(&c, &op->shape, &part, &dev->info, &g);
	if (g.map_box && !maps_take(&op->shape, t, g.map_box))
		return 0;
	if (!is_ragged(&op->shape, t))
		return 1;
	*slots = slots_behind(space, &op->shape, &dev->info, g.map_box);
	return memory_goes_on(dev, &op->shape, t, *slots);
}

/* Finds out which parts cannot read this K and V, and what runs them: warpgroup_ragged, or a stand-in in
 * *other, a copy of the plan. *is_other: whether one is there. */
static enum attune_status replace(attune_plan *other, int *is_other, struct running *run)
{
	const attune_op *op = run->op;
	const attune_plan *plan = run->plan;
	const attune_tensors *t = run->tensors;
	struct config c;
	int slots;
	*is_other = 0;
	if (op->ctx->device.info.backend == BACKEND_CPU ||
	    (!is_ragged(&op->shape, t) && maps_take(&op->shape, t, 0)))
		return ATTUNE_OK;
	for (int i = 0; i < plan->num_parts; i++) {
		if (can_read(run, i, &slots))
			continue;
		const struct part part = bounds_of(&plan->part[i]);
		run->is_to_end[i] = slots && kernel_to_end(op, &part, t, &c);
		if (run->is_to_end[i])
			continue;
		if (plan->stand_in[i] <= 0 && slots)
			return fail(ATTUNE_UNSUPPORTED,
				    "attune_run: the plan's kernel reads up to %d slots behind the "
				    "last key of ragged K and V: their memory must have these, and "
				    "tensors.kv_slots say where they end",
				    slots);
		if (plan->stand_in[i] <= 0) /* maps_make says why not */
			continue;
		if (!*is_other)
			*other = *plan;
		*is_other = 1;
		other->part[i].choice = plan->stand_in[i] - 1;
		other->part[i].resolved = plan->stand_in_resolved[i];
		other->early[i] = other->spared[i] = 0;
	}
	return ATTUNE_OK;
}

/* On the CPU, where lengths can be read. A launch passes over queries that it is not planned for. */
static const char *lengths_error(const attune_op *op, const attune_plan *plan,
				 const attune_tensors *t)
{
	const attune_batch b = { sizeof b, plan->num_seqs, t->query_start, t->seq_lens };
	if (op->ctx->device.info.backend != BACKEND_CPU || plan_takes(plan, &b, &op->shape))
		return NULL;
	return "the plan is not for these lengths: a query is longer than planned, or queries have "
	       "more tokens in all";
}

enum attune_status attune_run(const attune_op *op, const attune_plan *plan,
			      const attune_tensors *tensors, void *workspace,
			      size_t workspace_bytes, void *stream)
{
	static const char call[] = "attune_run";
	struct running run; /* filled below: it is large */
	attune_plan own_plan, other;
	attune_tensors own_tensors, plain;
	int is_other;
	if (!op || !plan || !tensors)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	plan = plan_read(plan, &own_plan, call);
	tensors = plan ? tensors_read(tensors, &own_tensors, call) : NULL;
	if (!tensors)
		return ATTUNE_INVALID;
	const char *error = why_not_of(op, plan);
	if (!error && !plan->num_parts)
		return ATTUNE_OK;
	tensors = tensors_plain(&plain, tensors, &op->shape, plan->num_tokens);
	if (!error)
		error = op->lse_apart && !tensors->lse
			    ? no_lse
			    : tensor_error(tensors, &op->shape, op->ctx->device.info.backend);
	if (!error)
		error = lengths_error(op, plan, tensors);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	run.op = op;
	run.plan = plan;
	run.tensors = tensors;
	memset(run.is_to_end, 0, sizeof run.is_to_end);
	const enum attune_status status = replace(&other, &is_other, &run);
	if (status)
		return status;
	error = is_other ? why_not_of(op, &other) : NULL;
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	plan = is_other ? &other : plan;
	const size_t part[] = { plan->part[0].workspace, plan->part[1].workspace };
	size_t sinks_at;
	const size_t need = op_workspace(op, plan->how, part, plan->num_parts, run.at, &sinks_at);
	if (need > workspace_bytes || (need && !workspace))
		return fail(ATTUNE_TOO_SMALL, "workspace has %zu bytes, %zu are needed",
			    workspace ? workspace_bytes : 0, need);
	run.plan = plan;
	run.schedule = is_other ? NULL : tensors->schedule; /* it is of the plan's own choices */
	run.workspace = workspace;
	call_from_tensors(&run.call, &op->shape, tensors, plan->num_seqs);
	run.call.args.schedule = run.schedule;
	run.table_last = table_last(tensors->block_table, tensors->block_table_stride,
				    plan->table_seq, plan->table_pages);
	run.may_begin_early = plan->start == ATTUNE_START_EARLY;
	return run_all(&run, tensors, sinks_at, stream);
}
