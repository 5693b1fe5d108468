/* worker_call.c - launches one call of a contender, and counts its least bytes and operations. */
#include "harness/scenario/scenario.h"
#include "records.h"
#include "harness/check/check.h"
#include "kernels/launch/run.h"

static enum attune_status launch_part(void *arg, int i, int steps, void *stream)
{
	const struct launcher *r = arg;
	const struct part_of_call *p = &r->part[i];
	struct worker_state *l = r->state;
	return choice_launch(&l->dev, &p->choice, p->loaded, &l->workload, r->set, p->phase,
			     (char *)l->workspace + r->at[i], l->workspace_bytes - r->at[i], steps,
			     stream);
}

enum attune_status launcher_call(void *arg, int set)
{
	struct launcher *r = arg;
	struct device *dev = &r->state->dev;
	r->set = set;
	return run_parts(dev, r->how, r->parts, launch_part, r, dev->ops->stream(dev));
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
