/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_settle.c - settling on this machine's GPU, else on the emulated one: all alternatives give
 * right outputs, capture is refused, and a graph of before a commit still serves what it served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/attune_settle.h"
#include "harness/check/check.h"
#include "harness/check/workload.h"
#include "kernels/launch/run.h"
#include "tests/support/run_plan.h"

static attune_context *ctx;
static attune_op *op;
static struct scenario scenario;
static struct workload w;

/* Of a GPU that is here, and of an emulated one. */
static const char *const batches[][2] = { { "32q1s3k", "2q1s64" },
					  { "2q700s900", "q20s40" },
					  { "q600s2k_24q1s2k", "q20s40_2q1s64" } };

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static const attune_batch *batch_now(void)
{
	return &scenario.batch->view;
}

/* Without a GPU: *state is the one that is emulated. */
static const enum simt_gpu h200 = SIMT_H200, mi300x = SIMT_MI300X;

static int begin(void **state)
{
	ok(gpu_open(&dev));
	if (is_emulated(&dev)) {
		simt_pose(&dev, *(const enum simt_gpu *)*state);
		dev.info.l2_bytes = 1 << 20; /* it takes seconds to write twice a real one */
	}
	ok(attune_adopt(&ctx, &dev));
	ok(attune_prepare(ctx, &shape, &op));
	return 0;
}

static int end(void **state)
{
	(void)state;
	end_capture(&dev);
	attune_release(op);
	attune_close(ctx);
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
	return 0;
}

static void take(size_t i)
{
	char error[160];
	const char *text = batches[i][is_emulated(&dev)];
	scenario = (struct scenario){ .batch_text = (char *)(uintptr_t)text,
				      .batch = batch_parse(text, error, sizeof error),
				      .shape = shape,
				      .seed = 5 };
	assert_non_null(scenario.batch);
	ok(workload_make(&w, &dev, &pool, &scenario, WORKLOAD_CHECK, 0));
}

static void leave(void)
{
	workload_free(&w);
	batch_free(scenario.batch);
}

static int list(attune_plan plans[ATTUNE_MOST_ALTERNATIVES])
{
	int n = 0;
	plans[0].size = sizeof *plans;
	ok(attune_plan_alternatives(op, batch_now(), plans, ATTUNE_MOST_ALTERNATIVES, &n));
	assert_true(n > 1);
	return n;
}

static enum attune_status settle(int eager)
{
	const attune_settle_how how = { .size = sizeof how,
					.num_layers = 1,
					.num_pages = w.pages_per_set,
					.eager = eager,
					.most_ms = is_emulated(&dev) ? 500 : 0 };
	void *workspace = NULL;
	size_t bytes;
	ok(attune_settle_sizes(op, batch_now(), &how, &bytes));
	ok(dev.ops->alloc(&dev, &workspace, bytes));
	const enum attune_status status = attune_settle(
	    op, batch_now(), &w.tensors, &how, workspace, bytes, dev.ops->stream(&dev), NULL);
	dev.ops->release(&dev, workspace);
	return status;
}

static void all_alternatives_are_right(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
		size_t most;
		take(i);
		const int n = list(plans), seqs = batch_now()->num_seqs;
		ok(attune_max_workspace(op, seqs, batch_now()->query_start[seqs], &most));
		for (int k = 0; k < n; k++) {
			assert_true(plans[k].workspace <= most);
			run_right(op, &plans[k], &w);
		}
		leave();
	}
}

static void what_is_settled_is_right(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * COUNT(batches); i++) {
		attune_plan plan = { .size = sizeof plan };
		take(i / 2);
		ok(settle(i % 2));
		ok(attune_settled_commit(ctx));
		ok(attune_plan_batch(op, batch_now(), &plan));
		run_right(op, &plan, &w);
		leave();
	}
}

static void capture_is_refused(void **state)
{
	struct graph *graph;
	(void)state;
	take(0);
	ok(dev.ops->graph_begin(&dev));
	assert_int_equal(settle(0), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "captured"));
	ok(dev.ops->graph_end(&dev, &graph));
	dev.ops->graph_free(&dev, graph);
	ok(attune_settled_commit(ctx));
	assert_true(attune_settled_digest(ctx) == 0);
	leave();
}

static struct graph *capture(const attune_plan *plan, void *workspace)
{
	struct graph *graph;
	ok(dev.ops->graph_begin(&dev));
	ok(attune_run(op, plan, &w.tensors, workspace, plan->workspace, dev.ops->stream(&dev)));
	ok(dev.ops->graph_end(&dev, &graph));
	return graph;
}

static void replay_right(struct graph *graph)
{
	struct verdict v;
	double ns;
	ok(workload_poison(&w));
	ok(dev.ops->graph_play(&dev, graph, &ns));
	check_output(&v, &w, PHASE_ALL, PLAN_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s: %s", scenario.batch_text, outcome_name(v.outcome), v.text);
}

static void graphs_of_before_a_commit_still_serve(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now = { .size = sizeof now };
		double us[ATTUNE_MOST_ALTERNATIVES];
		struct graph *graph[2];
		void *workspace;
		size_t most;
		take(i);
		const int n = list(plans), seqs = batch_now()->num_seqs, fast = n - 1;
		ok(attune_max_workspace(op, seqs, batch_now()->query_start[seqs], &most));
		ok(dev.ops->alloc(&dev, &workspace, most + 16));
		graph[0] = capture(&plans[0], workspace);
		for (int k = 0; k < n; k++)
			us[k] = k == fast ? 50 : 100;
		for (int k = 0; k < 3; k++)
			ok(attune_report(op, batch_now(), plans, us, n));
		replay_right(graph[0]);
		ok(attune_settled_commit(ctx));
		ok(attune_plan_batch(op, batch_now(), &now));
		assert_int_equal(attune_plan_serves(&now, &plans[fast]), ATTUNE_SERVES_ALIKE);
		assert_int_not_equal(attune_plan_serves(&plans[0], &now), ATTUNE_SERVES_ALIKE);
		graph[1] = capture(&now, workspace);
		replay_right(graph[0]);
		replay_right(graph[1]);
		replay_right(graph[0]);
		for (int k = 0; k < 2; k++)
			dev.ops->graph_free(&dev, graph[k]);
		dev.ops->release(&dev, workspace);
		leave();
	}
}

int main(void)
{
// clang-format off
#define ROW(f, gpu) { #f ", " #gpu, f, begin, end, (void *)(uintptr_t)&(gpu) }
	// clang-format on
	const struct CMUnitTest tests[] = {
		ROW(all_alternatives_are_right, h200),
		ROW(what_is_settled_is_right, h200),
		ROW(capture_is_refused, h200),
		ROW(graphs_of_before_a_commit_still_serve, h200),
		ROW(all_alternatives_are_right, mi300x),
		ROW(what_is_settled_is_right, mi300x),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
