/* worker_call.c - launches one call of a contender, plans by the library, and counts its least bytes and operations. */
#include "harness/scenario/scenario.h"
#include "records.h"
#include "harness/check/check.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"

static enum attune_status launch_part(void *arg, int i, int steps, void *stream)
{
	const struct launcher *r = arg;
	struct worker_state *l = r->state;
	return choice_launch(&l->dev, contender_choice(r->contender, i), r->loaded[i], &l->workload,
			     r->set, contender_phase(r->contender, i),
			     (char *)l->workspace + r->at[i], l->workspace_bytes - r->at[i], steps,
			     stream);
}

enum attune_status launcher_call(void *arg, int set)
{
	struct launcher *r = arg;
	struct worker_state *l = r->state;
	struct device *dev = &l->dev;
	if (r->op) {
		attune_tensors t = l->workload.tensors;
		t.block_table = l->workload.block_tables[set];
		return attune_run(r->op, &r->plan, &t, l->workspace, l->workspace_bytes,
				  dev->ops->stream(dev));
	}
	r->set = set;
	return run_parts(dev, r->contender->how, r->parts, launch_part, r, dev->ops->stream(dev));
}

enum attune_status launcher_room(struct worker_state *l, size_t bytes)
{
	if (bytes <= l->workspace_bytes)
		return ATTUNE_OK;
	if (l->workspace)
		l->dev.ops->release(&l->dev, l->workspace);
	l->workspace = NULL;
	l->workspace_bytes = 0;
	const enum attune_status status = l->dev.ops->alloc(&l->dev, &l->workspace, bytes);
	if (!status)
		l->workspace_bytes = bytes;
	return status;
}

static enum attune_status plan_bounds(struct launcher *r, const attune_batch *v, int times)
{
	int query = 0, keys = 0;
	for (int i = 0; i < v->num_seqs; i++) {
		const int n = v->query_start[i + 1] - v->query_start[i];
		query = n > query ? n : query;
		keys = v->seq_lens[i] > keys ? v->seq_lens[i] : keys;
	}
	return attune_plan_bounds(r->op, v->num_seqs, v->query_start[v->num_seqs], query,
				  times * keys, &r->plan);
}

enum attune_status launcher_plan(struct launcher *r)
{
	struct worker_state *l = r->state;
	struct message message = { .kind = MESSAGE_PLANNED, .index = r->contender->index };
	const int bounds = r->contender->bounds;
	const attune_batch *v = &l->scenario->batch->view;
	enum attune_status status = l->ctx ? ATTUNE_OK : attune_adopt(&l->ctx, &l->dev);
	r->plan = (attune_plan){ .size = sizeof r->plan };
	if (!status)
		status = attune_prepare(l->ctx, &l->scenario->shape, &r->op);
	if (!status)
		status = bounds ? plan_bounds(r, v, bounds) : attune_plan_batch(r->op, v, &r->plan);
	if (!status)
		status = attune_plan_text(r->op, &r->plan, message.text, sizeof message.text);
	if (!status)
		status = launcher_room(l, r->plan.workspace);
	if (!status)
		report_message(l, &message);
	return status;
}

double launcher_bytes(const struct worker_state *l, enum phase phase)
{
	const attune_shape *s = &l->scenario->shape;
	return 2.0 * (double)part_live_keys(s, &l->scenario->batch->view, phase) * s->num_kv_heads *
	       s->head_size * dtype_bytes(s->kv_dtype);
}

double launcher_flops(const struct worker_state *l, enum phase phase)
{
	const attune_shape *s = &l->scenario->shape;
	return 4.0 * (double)part_pairs(s, &l->scenario->batch->view, phase) * s->head_size *
	       s->num_query_heads;
}

double launcher_slow_s(const struct worker_state *l)
{
	const int cpu = l->dev.info.backend == BACKEND_CPU;
	return launcher_flops(l, PHASE_ALL) / (cpu ? 5e8 : 5e10) +
	       launcher_bytes(l, PHASE_ALL) / (cpu ? 1e8 : 1e10);
}
