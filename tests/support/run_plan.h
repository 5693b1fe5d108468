/* SPDX-License-Identifier: Apache-2.0 */
/* run_plan.h - runs a plan by the library on a device and compares it with the reference.
 * Include after cmocka.h. PLAN_ROWS: output rows that are compared. */
#ifndef TESTS_SUPPORT_RUN_PLAN_H
#define TESTS_SUPPORT_RUN_PLAN_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include "gpu_here.h"
#include "tests/library/rules_header.h"

#ifndef PLAN_ROWS
#define PLAN_ROWS 60
#endif

static const attune_shape shape = { .size = sizeof(attune_shape),
				    .num_query_heads = 8,
				    .num_kv_heads = 2,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1 };

static struct device dev;
static struct pool *pool;

static void run_right(const attune_op *op, const attune_plan *plan, struct workload *w)
{
	const char *text = w->scenario->batch_text;
	void *workspace = NULL;
	struct verdict v;
	struct graph *graph;
	double ns;
	if (workload_poison(w) || dev.ops->alloc(&dev, &workspace, plan->workspace + 16) ||
	    dev.ops->graph_begin(&dev) ||
	    attune_run(op, plan, &w->tensors, workspace, plan->workspace, dev.ops->stream(&dev)) ||
	    dev.ops->graph_end(&dev, &graph) || dev.ops->graph_play(&dev, graph, &ns))
		fail_msg("%s: %s", text, attune_last_error());
	check_output(&v, w, PHASE_ALL, PLAN_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s: %s", text, outcome_name(v.outcome), v.text);
	dev.ops->graph_free(&dev, graph);
	dev.ops->release(&dev, workspace);
}

/* The library's own plan of a batch, on the device as `adopted` describes it. */
static inline void run_planned(const struct device *adopted, const char *text)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)(uintptr_t)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = shape,
			      .seed = 5 };
	attune_context *ctx = NULL;
	attune_op *op = NULL;
	attune_plan plan = { .size = sizeof plan };
	struct workload w;
	assert_non_null(s.batch);
	if (attune_adopt(&ctx, adopted) || attune_prepare(ctx, &shape, &op) ||
	    workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0) ||
	    attune_plan_batch(op, &s.batch->view, &plan))
		fail_msg("%s: %s", text, attune_last_error());
	run_right(op, &plan, &w);
	workload_free(&w);
	batch_free(s.batch);
	attune_release(op);
	attune_close(ctx);
}

static inline enum attune_status open_device(const char *which)
{
	return strcmp(which, "cpu") ? gpu_open(&dev) : device_open(&dev, which);
}

/* Opens "cpu" or "gpu" and calls `what` with the library's own plan of a batch. */
static inline void with_plan(const char *device, const attune_shape *of, const char *text,
			     void (*what)(const attune_op *, attune_plan *, struct workload *,
					  const void *arg),
			     const void *arg)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)(uintptr_t)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = *of,
			      .seed = 5 };
	attune_context *ctx;
	attune_op *op;
	attune_plan plan = { .size = sizeof plan };
	struct workload w;
	assert_non_null(s.batch);
	if (open_device(device) || attune_adopt(&ctx, &dev) || attune_prepare(ctx, of, &op) ||
	    workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0) ||
	    attune_plan_batch(op, &s.batch->view, &plan))
		fail_msg("%s: %s", text, attune_last_error());
	what(op, &plan, &w, arg);
	workload_free(&w);
	batch_free(s.batch);
	attune_release(op);
	attune_close(ctx);
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
}

/* The context of a library that goes by these rules. */
static inline attune_context *open_by_rules(const struct rules *rules)
{
	char path[40];
	attune_context *ctx = NULL;
	const int file = memfd_create("rules", 0);
	assert_true(file >= 0);
	dprintf(file, "%s", rules_header(dev.info.gpu, rules));
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	setenv("ATTUNE_HEURISTICS", path, 1);
	if (attune_adopt(&ctx, &dev))
		fail_msg("%s", attune_last_error());
	assert_string_equal(attune_heuristic(ctx), path);
	unsetenv("ATTUNE_HEURISTICS");
	close(file);
	return ctx;
}

/* One of each pair of batches: of a GPU that is here the first, of an emulated one the second. */
static inline void each_batch(attune_context *ctx, const char *const (*batches)[2], size_t n,
			      void (*run)(const attune_op *, struct workload *,
					  const attune_batch *))
{
	attune_op *op;
	if (attune_prepare(ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	for (size_t i = 0; i < n; i++) {
		const char *text = batches[i][is_emulated(&dev)];
		char error[160];
		struct scenario s = { .batch_text = (char *)(uintptr_t)text,
				      .batch = batch_parse(text, error, sizeof error),
				      .shape = shape,
				      .seed = 5 };
		struct workload w;
		assert_non_null(s.batch);
		assert_int_equal(workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0), ATTUNE_OK);
		run(op, &w, &s.batch->view);
		workload_free(&w);
		batch_free(s.batch);
	}
	attune_release(op);
	attune_close(ctx);
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
}

/* The test once on the CPU, and once on a GPU. */
static inline int run_on_devices(const char *name, CMUnitTestFunction on_device)
{
	struct CMUnitTest tests[] = { { "cpu", on_device, NULL, NULL, "cpu" },
				      { "gpu", on_device, NULL, NULL, "gpu" } };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(name, tests, COUNT(tests), NULL, NULL);
}

/* Runs each row on the CPU and on the GPU. A row is a struct that begins with its name. */
static inline int run_on_both(const char *group, const void *rows, size_t size, size_t n,
			      CMUnitTestFunction on_cpu, CMUnitTestFunction on_gpu)
{
	struct CMUnitTest *tests = calloc(2 * n, sizeof *tests);
	char(*names)[80] = calloc(2 * n, sizeof *names);
	int failed = -1;
	for (size_t i = 0; tests && names && i < 2 * n; i++) {
		const char *row = (const char *)rows + i / 2 * size;
		snprintf(names[i], sizeof *names, "%s: %s", i % 2 ? "gpu" : "cpu",
			 *(const char *const *)(const void *)row);
		tests[i] = (struct CMUnitTest){ names[i], i % 2 ? on_gpu : on_cpu, NULL, NULL,
						(void *)(uintptr_t)row };
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (tests && names)
		failed = _cmocka_run_group_tests(group, tests, 2 * n, NULL, NULL);
	free(names);
	free(tests);
	return failed;
}

#endif
