/* SPDX-License-Identifier: Apache-2.0 */
/* t_write_then_run.c - attune_write_kv, then attune_run, in one graph over a cache of NaN: the
 * output is right, also where the second launch begins before the first is over. */
#define PLAN_ROWS 200
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

enum { REPLAYS = 10 };

/* All keys are new: nothing of the cache is right before it is written. */
static const struct row {
	const char *name, *batch;
	enum attune_start start;
} rows[] = {
	{ "queries of a few tokens", "3q8s8_q1s1_q4s4", ATTUNE_START_IN_TURN },
	{ "a prefill and decodes", "q40s40_2q7s7", ATTUNE_START_IN_TURN },
	{ "queries of a few tokens, early", "3q8s8_q1s1_q4s4", ATTUNE_START_EARLY },
	{ "a prefill and decodes, early", "q40s40_2q7s7", ATTUNE_START_EARLY },
};

/* NaN to K and V, and to the output. */
static void spoil(struct workload *w)
{
	const attune_tensors *t = &w->tensors;
	const size_t bytes =
	    (size_t)((w->pages_per_set + w->spare_pages) * t->k_page_stride) * sizeof(uint16_t);
	if (workload_poison(w) || dev.ops->fill(&dev, (void *)(uintptr_t)t->k_cache, 0xff, bytes) ||
	    dev.ops->fill(&dev, (void *)(uintptr_t)t->v_cache, 0xff, bytes))
		fail_msg("%s", attune_last_error());
}

static void write_then_run(const attune_op *op, attune_plan *plan, struct workload *w,
			   const void *row)
{
	const struct row *r = row;
	void *workspace = NULL, *stream = dev.ops->stream(&dev);
	struct graph *graph;
	struct verdict v;
	double ns;
	plan->start = r->start;
	if (dev.ops->alloc(&dev, &workspace, plan->workspace + 16))
		fail_msg("%s", attune_last_error());
	for (int i = 0; i < (is_emulated(&dev) ? 1 : REPLAYS); i++) {
		spoil(w);
		if (dev.ops->graph_begin(&dev) ||
		    attune_write_kv(op, plan->num_seqs, plan->num_tokens, &w->tensors, NULL,
				    stream) ||
		    attune_run(op, plan, &w->tensors, workspace, plan->workspace, stream) ||
		    dev.ops->graph_end(&dev, &graph) || dev.ops->graph_play(&dev, graph, &ns))
			fail_msg("%s", attune_last_error());
		dev.ops->graph_free(&dev, graph);
		check_output(&v, w, PHASE_ALL, PLAN_ROWS, 0);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s", outcome_name(v.outcome), v.text);
	}
	dev.ops->release(&dev, workspace);
}

static void on_device(const char *device, const struct row *r)
{
	attune_shape of = shape;
	of.has_new_kv = 1;
	with_plan(device, &of, r->batch, write_then_run, r);
}

static void on_cpu(void **state)
{
	on_device("cpu", *state);
}

static void on_gpu(void **state)
{
	on_device("gpu", *state);
}

int main(void)
{
	return run_on_both("write then run", rows, sizeof rows[0], COUNT(rows), on_cpu, on_gpu);
}
