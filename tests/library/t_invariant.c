/* SPDX-License-Identifier: Apache-2.0 */
/* t_invariant.c - batch-invariant mode, ATTUNE_INVARIANT=1: a sequence's rows have the same bits
 * alone and within random batches, with any number of threads. Without the mode some rows differ,
 * so the comparison can fail. Rows run on the CPU and on a GPU or the emulated one, which gets
 * fewer and shorter sequences, another number of units and another order of turns each time. */
#include "kernels/launch/run.h"
#include "kernels/segments.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/lone_sequences.h"

enum { BATCHES = 25, EMULATED_BATCHES = 8, MANY = 700 };

/* Query and context lengths, decodes first. The long decodes have several tiles in each segment; of
 * the others each tile is a segment, and a batch of these alone has fewer segments. */
static const int lens[][2] = { { 1, 0 },    { 1, 37 },   { 1, 300 }, { 1, 450 }, { 1, 900 },
			       { 2, 1500 }, { 3, 200 },  { 8, 90 },  { 8, 0 },   { 9, 0 },
			       { 40, 0 },   { 30, 130 }, { 70, 64 }, { 5, 1 },   { 20, 250 } };
static const int short_lens[][2] = { { 1, 5 }, { 1, 300 }, { 4, 150 }, { 2, 620 },
				     { 8, 0 }, { 9, 40 },  { 33, 0 },  { 20, 170 } };

#define SIZE sizeof(attune_shape)
// clang-format off
static const struct row cpu_rows[] = {
	{ "F32, group 4, head 64", { SIZE, 8, 2, 64, 16, ATTUNE_F32, ATTUNE_F32, .causal = 1 }, 0 },
	{ "F16, group 1, head 128", { SIZE, 4, 4, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, 0 },
	{ "BF16, group 8, head 128", { SIZE, 8, 1, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "F32, group 6, head 80, window, pages of 12", { SIZE, 6, 1, 80, 12, ATTUNE_F32, ATTUNE_F32, .causal = 1, .window = 100 }, 0 },
	{ "BF16, group 2, head 96, window, sinks", { SIZE, 4, 2, 96, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 33, .has_sinks = 1 }, 0 },
	{ "F16, group 3, head 256, softcap", { SIZE, 6, 2, 256, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .softcap = 20 }, 0 },
	{ "BF16, group 4, head 192, not causal", { SIZE, 4, 1, 192, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 0 }, 0 },
	{ "F32, group 71, head 64, ALiBi, sinks", { SIZE, 71, 1, 64, 16, ATTUNE_F32, ATTUNE_F32, .causal = 1, .has_alibi = 1, .has_sinks = 1 }, 0 },
};
static const struct row gpu_rows[] = {
	{ "BF16, group 4, head 128", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "F16, group 2, head 64, window, sinks", { SIZE, 4, 2, 64, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 64, .has_sinks = 1 }, 0 },
	{ "BF16, group 4, head 80, pages of 12", { SIZE, 4, 1, 80, 12, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "BF16, LSE", { SIZE, 4, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_lse = 1 }, 0 },
	{ "E4M3 cache", { SIZE, 4, 2, 128, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, 0 },
	{ "classic layout", { SIZE, 4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .kv_layout = ATTUNE_KV_CLASSIC }, 1 },
};
// clang-format on

/* ---- the tests ------------------------------------------------------------------------------ */

static void invariant(struct stage *t, const struct row *r, int batches)
{
	stage_make(t, r);
	stage_open(t, "1");
	run_alone(t);
	assert_int_equal(run_batches(t, batches), 0);
	stage_close(t);
	stage_free(t);
}

/* The normal rules: in some batch other bits than alone. All are near to those of the mode. */
static void variant(struct stage *t, const struct row *r, int batches)
{
	stage_make(t, r);
	stage_open(t, "1");
	run_alone(t);
	stage_close(t);
	stage_open(t, "0");
	run_batches(t, batches);
	assert_true(t->largest < 0.02f);
	forget(t);
	run_alone(t);
	assert_true(run_batches(t, batches) > 0);
	stage_close(t);
	stage_free(t);
}

static void open_cpus(struct stage *t)
{
	static const char *const threads[] = { "1", "2", "5" };
	*t = (struct stage){ .lens = lens, .num = COUNT(lens), .ops = COUNT(threads) };
	for (int i = 0; i < t->ops; i++) {
		setenv("ATTUNE_THREADS", threads[i], 1);
		ok(device_open(&t->dev[i], "cpu"));
	}
	unsetenv("ATTUNE_THREADS");
}

static void cpu_is_invariant(void **state)
{
	struct stage t;
	open_cpus(&t);
	invariant(&t, *state, BATCHES);
}

static void cpu_varies_without_the_mode(void **state)
{
	struct stage t;
	open_cpus(&t);
	variant(&t, *state, BATCHES);
}

/* Returns the batches to run. */
static int open_gpu(struct stage *t, const struct row *r)
{
	*t = (struct stage){ .ops = 1 };
	ok(gpu_open(&t->dev[0]));
	const int emulated = is_emulated(&t->dev[0]);
	t->lens = emulated ? short_lens : lens;
	t->num = r->decodes_only ? emulated ? 5 : 9
		 : emulated      ? (int)COUNT(short_lens)
				 : (int)COUNT(lens);
	return emulated ? EMULATED_BATCHES : BATCHES;
}

static void gpu_is_invariant(void **state)
{
	struct stage t;
	const int batches = open_gpu(&t, *state);
	invariant(&t, *state, batches);
}

static void gpu_varies_without_the_mode(void **state)
{
	struct stage t;
	const int batches = open_gpu(&t, *state);
	variant(&t, *state, batches);
}

/* An op on an open device, in the mode. */
static attune_op *op_in_mode(struct device *dev, const attune_shape *s, attune_context **ctx)
{
	attune_op *op;
	setenv("ATTUNE_INVARIANT", "1", 1);
	ok(attune_adopt(ctx, dev));
	unsetenv("ATTUNE_INVARIANT");
	ok(attune_prepare(*ctx, s, &op));
	return op;
}

static void close_all(struct device *dev, attune_context *ctx, attune_op *op)
{
	attune_release(op);
	attune_close(ctx);
	device_close(dev);
}

/* Plans n decodes of `query` tokens and `seq` keys; returns the segments. */
static int planned_segments(const attune_op *op, attune_plan *plan, int n, int query, int seq)
{
	int32_t starts[MANY + 1], seq_lens[MANY];
	const attune_batch batch = { sizeof(attune_batch), n, starts, seq_lens };
	char text[512];
	for (int i = 0; i <= n; i++)
		starts[i] = i * query;
	for (int i = 0; i < n; i++)
		seq_lens[i] = seq;
	ok(attune_plan_batch(op, &batch, plan));
	ok(attune_plan_text(op, plan, text, sizeof text));
	const char *at = strstr(text, "SEGMENTS=");
	assert_non_null(at);
	return atoi(at + strlen("SEGMENTS="));
}

/* One choice for each phase, whatever the batch. */
static void gpu_plans_by_shape_alone(void **state)
{
	const struct row *r = *state;
	struct device dev;
	attune_context *ctx;
	attune_plan plan = { .size = sizeof plan };
	static const int32_t starts[] = { 0, 1, 301, 302 }, seq_lens[] = { 90000, 4000, 3 };
	static const int32_t one[] = { 0, 1 };
	const attune_batch mixed = { sizeof(attune_batch), 3, starts, seq_lens },
			   alone = { sizeof(attune_batch), 1, one, seq_lens };
	char text[512], decode[512];
	ok(gpu_open(&dev));
	attune_op *op = op_in_mode(&dev, &r->s, &ctx);
	ok(attune_plan_batch(op, &alone, &plan));
	ok(attune_plan_text(op, &plan, decode, sizeof decode));
	ok(attune_plan_batch(op, &mixed, &plan));
	assert_int_equal(plan.how, ATTUNE_SERIAL);
	ok(attune_plan_text(op, &plan, text, sizeof text));
	assert_non_null(strstr(text, " | decode: "));
	assert_string_equal(strstr(text, " | decode: ") + strlen(" | decode: "), decode);
	close_all(&dev, ctx, op);
}

/* Segments follow from the shape, however many sequences there are, and partials may take more than
 * the 256 MiB of the normal rules. Short sequences need fewer segments. */
static void gpu_cuts_long_decodes(void **state)
{
	const struct row *r = *state;
	struct device dev;
	attune_context *ctx;
	attune_plan plan = { .size = sizeof plan };
	ok(gpu_open(&dev));
	attune_op *op = op_in_mode(&dev, &r->s, &ctx);
	assert_int_equal(planned_segments(op, &plan, 1, 1, 90000), 8);
	assert_int_equal(planned_segments(op, &plan, MANY, 8, 90000), 8);
	assert_true(planned_segments(op, &plan, MANY, 1, 60) < 8);
	close_all(&dev, ctx, op);
}

static void cpu_cuts_few_heads(void **state)
{
	static const struct {
		int kv_heads, segments;
	} rows[] = { { 1, 4 }, { 2, 2 }, { 3, 1 }, { 4, 1 }, { 8, 1 }, { 24, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const attune_shape s = {
			sizeof(attune_shape), 24,          rows[i].kv_heads, 128, 16,
			ATTUNE_BF16,          ATTUNE_BF16, .causal = 1
		};
		struct device dev;
		attune_context *ctx;
		attune_plan plan = { .size = sizeof plan };
		size_t most;
		ok(device_open(&dev, "cpu"));
		attune_op *op = op_in_mode(&dev, &s, &ctx);
		assert_int_equal(planned_segments(op, &plan, 1, 1, 90000), rows[i].segments);
		assert_int_equal(planned_segments(op, &plan, MANY, 8, 90000), rows[i].segments);
		ok(attune_max_workspace(op, MANY, MANY * 8, &most));
		assert_int_equal(plan.workspace, most);
		assert_true(rows[i].kv_heads > 1 || most > MAX_PARTIAL_BYTES);
		assert_int_equal(planned_segments(op, &plan, MANY, 1, 60),
				 rows[i].segments > 1 ? 2 : 1);
		close_all(&dev, ctx, op);
	}
}

static void environments(void **state)
{
	static const struct {
		const char *invariant, *heuristics;
		enum attune_status status;
		const char *text; /* of the error, or of attune_heuristic */
	} rows[] = {
		{ "", "", ATTUNE_OK, "cpu" },
		{ "0", "", ATTUNE_OK, "cpu" },
		{ "1", "", ATTUNE_OK, "invariant" },
		{ "2", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"2\": 0 or 1 is expected" },
		{ "yes", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"yes\": 0 or 1 is expected" },
		{ "01", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"01\": 0 or 1 is expected" },
		{ "1", "rules.txt", ATTUNE_INVALID,
		  "ATTUNE_HEURISTICS and ATTUNE_INVARIANT=1 are both set: the mode has rules of "
		  "its own" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = NULL;
		setenv("ATTUNE_INVARIANT", rows[i].invariant, 1);
		setenv("ATTUNE_HEURISTICS", rows[i].heuristics, 1);
		const enum attune_status status = attune_open(&ctx, "cpu");
		assert_int_equal(status, rows[i].status);
		assert_int_equal(ctx != NULL, !status);
		assert_string_equal(status ? attune_last_error() : attune_heuristic(ctx),
				    rows[i].text);
		attune_close(ctx);
	}
	unsetenv("ATTUNE_INVARIANT");
	unsetenv("ATTUNE_HEURISTICS");
}

/* What the choice cannot run is refused, not given to another kernel. */
static void no_other_kernel_steps_in(void **state)
{
	static const attune_shape s = {
		sizeof(attune_shape),          4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1,
		.kv_layout = ATTUNE_KV_CLASSIC
	};
	static const int32_t starts[] = { 0, 1 }, seq_lens[] = { 200000 };
	const attune_batch batch = { sizeof(attune_batch), 1, starts, seq_lens };
	struct device dev;
	attune_context *ctx;
	attune_plan plan = { .size = sizeof plan };
	(void)state;
	ok(gpu_open(&dev));
	attune_op *op = op_in_mode(&dev, &s, &ctx);
	assert_int_equal(attune_plan_batch(op, &batch, &plan), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), " with ATTUNE_INVARIANT=1"));
	close_all(&dev, ctx, op);
}

static struct CMUnitTest tests[COUNT(cpu_rows) + COUNT(gpu_rows) + 10];
static char names[COUNT(tests)][120];
static size_t num_tests;

static void add(const char *what, CMUnitTestFunction test, const struct row *r)
{
	snprintf(names[num_tests], sizeof *names, "%s%s%s", what, r ? ": " : "", r ? r->name : "");
	tests[num_tests] =
	    (struct CMUnitTest){ names[num_tests], test, NULL, NULL, (void *)(uintptr_t)r };
	num_tests++;
}

int main(void)
{
	for (size_t i = 0; i < COUNT(cpu_rows); i++)
		add("cpu", cpu_is_invariant, &cpu_rows[i]);
	add("cpu, not without the mode", cpu_varies_without_the_mode, &cpu_rows[2]);
	add("cpu, segments", cpu_cuts_few_heads, NULL);
	add("environment", environments, NULL);
	for (size_t i = 0; i < COUNT(gpu_rows); i++)
		add("gpu", gpu_is_invariant, &gpu_rows[i]);
	add("gpu, not without the mode", gpu_varies_without_the_mode, &gpu_rows[0]);
	add("gpu, plans", gpu_plans_by_shape_alone, &gpu_rows[0]);
	add("gpu, segments, in clusters", gpu_cuts_long_decodes, &gpu_rows[0]);
	add("gpu, segments", gpu_cuts_long_decodes, &gpu_rows[2]);
	add("gpu, refusals", no_other_kernel_steps_in, NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("invariant", tests, num_tests, NULL, NULL);
}
