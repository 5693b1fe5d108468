/* SPDX-License-Identifier: Apache-2.0 */
/* worker_call.c - launches one call of a contender, counts its least bytes and operations, and checks its output: on the corner batches before it is first timed, and on some rows
 * of the workload that is timed. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <stdio.h>

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
	if (r->contender->is_library) {
		attune_tensors t = l->workload.tensors;
		t.block_table = l->workload.block_tables[set];
		return attune_run(l->library.op, &r->plan, &t, l->workspace, l->workspace_bytes,
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

/* ---- checks ------------------------------------------------------------------------ */
enum { CHECK_ROWS = 64, WORKLOAD_ROWS = 8 };
/* A binary runs the corner batches once, and again for one in GATE_ODDS of its other choices of
 * launch arguments. */
enum { GATE_ODDS = 8 };

/* Replaces the scenario's batch by a corner batch. 0: the choice has no work there or does not
 * support it. */
static int corner_scenario(const struct worker_state *l, struct scenario *s,
			   const struct contender *c, const char *text)
{
	char error[128];
	struct part part;
	*s = *l->scenario;
	s->batch_text = (char *)(uintptr_t)text;
	s->batch = batch_parse(text, error, sizeof error);
	if (s->batch && part_make(&part, c->phase, &s->shape, &s->batch->view, &l->dev.info) &&
	    !c->choice.kernel->space->why_illegal(&c->choice.config, &s->shape, &part,
						  &l->dev.info))
		return 1;
	batch_free(s->batch);
	return 0;
}

int report_verdict(struct worker_state *l, int index, const struct verdict *v, const char *batch)
{
	char text[sizeof v->text + 80];
	snprintf(text, sizeof text, "%.70s: %s", batch, v->text);
	if (v->outcome == OUTCOME_CRASH)
		report_crash(l, index, text);
	if (v->outcome != OUTCOME_OK)
		report_failure(l, index, v->outcome, text);
	return v->outcome == OUTCOME_OK;
}

int check_corner_batches(struct worker_state *l, const struct launcher *r)
{
	const struct contender *c = r->contender;
	struct message message = { .kind = MESSAGE_PASSED, .index = c->index };
	const struct problems *all = l->setup->problems;
	const struct built_choice *e = contender_built(all, c, 0);
	char *passed = &l->passed[e->built * 3 + (int)c->phase];
	if (c->passed)
		return *passed = 1;
	const int excused =
	    *passed && scramble((unsigned)(e - all->built_choice) * 0x9e3779b9ull) % GATE_ODDS;
	for (int i = 0; corner_batches[i] && !excused; i++) {
		struct scenario s;
		struct verdict v;
		if (!corner_scenario(l, &s, c, corner_batches[i]))
			continue;
		report_stage(l, c->index, l->setup->gate_s);
		check_choice(&v, &l->dev, &l->check_pool, &c->choice, r->loaded[0], &s, c->phase,
			     CHECK_ROWS);
		batch_free(s.batch);
		if (!report_verdict(l, c->index, &v, corner_batches[i]))
			return 0;
	}
	*passed = 1;
	report_message(l, &message);
	return 1;
}

/* The output of a whole plan, or of the library. */
static void check_plan(struct verdict *v, struct worker_state *l, struct launcher *r)
{
	unsigned needs = 0;
	for (int i = 0; i < r->parts; i++)
		needs |= choice_needs(contender_choice(r->contender, i));
	enum attune_status status = workload_poison(&l->workload);
	if (!status)
		status = launcher_call(r, 0);
	if (!status)
		status = l->dev.ops->wait(&l->dev, l->dev.ops->stream(&l->dev));
	if (!status) {
		check_output(v, &l->workload, PHASE_ALL, WORKLOAD_ROWS, needs);
		return;
	}
	v->outcome = status == ATTUNE_DEVICE_ERROR ? OUTCOME_CRASH : OUTCOME_RESOURCES;
	snprintf(v->text, sizeof v->text, "%.190s", attune_last_error());
}

int check_timed_workload(struct worker_state *l, struct launcher *r, struct verdict *v)
{
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	report_stage(l, r->contender->index, l->setup->gate_s + launcher_slow_s(l));
	if (r->parts != 1)
		check_plan(v, l, r);
	else
		check_workload(v, &l->workload, &r->contender->choice, r->loaded[0],
			       r->contender->phase, WORKLOAD_ROWS);
	return v->outcome == OUTCOME_OK;
}
