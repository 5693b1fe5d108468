/* SPDX-License-Identifier: Apache-2.0 */
/* t_library.c - the public API on the CPU: opening, preparing, planning, running, and what each call
 * refuses. */
#include "cpu_step.h"
#include "kernels/attune_features.h"

static void devices_that_are_not_there(void **state)
{
	static const struct {
		const char *name;
		enum attune_status status;
		const char *says;
	} rows[] = {
		{ "tpu", ATTUNE_INVALID, "device \"tpu\": \"cpu\", " },
		{ "cpux", ATTUNE_INVALID, "device \"cpux\": \"cpu\", " },
		{ "cpu:abacus", ATTUNE_INVALID, "cpu:abacus: avx512, avx2, neon or scalar is " },
		{ "cuda:99", ATTUNE_NO_DEVICE, "cuda" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = (attune_context *)&rows;
		assert_int_equal(attune_open(&ctx, rows[i].name), rows[i].status);
		assert_null(ctx);
		assert_int_equal(strncmp(attune_last_error(), rows[i].says, strlen(rows[i].says)),
				 0);
	}
}

static void shapes_that_make_no_sense(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op;
	attune_shape s = shape;
	(void)state;
	s.num_kv_heads = 3;
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "multiple of num_kv_heads"));
	s = shape;
	s.page_size = 0;
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_INVALID);
	s = shape;
	s.head_size = 72; /* sound, but no binary is carried */
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "head size 72"));
	assert_non_null(
	    strstr(attune_last_error(), ": head sizes 16, 32, 64, 80, 96, 128, 192, 256 are carried"));
	s.head_size = 576;
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "head_size must be 8 to 512: head sizes 16, "));
	s = shape;
	s.kv_layout = ATTUNE_KV_CLASSIC; /* on GPUs alone */
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "in the classic layout"));
	assert_null(strstr(attune_last_error(), "head sizes"));
	s.head_size = 66;
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "a multiple of 16 bytes"));
	attune_close(ctx);
}

static void plans_follow_the_batch(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct step s;
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	(void)state;
	const attune_batch none = { sizeof(attune_batch), 0, NULL, NULL };
	assert_int_equal(attune_plan_batch(op, &none, &plan), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 0);
	step_make(&s, COUNT(decodes), decodes);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 1);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_int_equal(strncmp(text, "segmented TILE_SIZE=", 20), 0);
	assert_non_null(strstr(text, " SEGMENTS="));
	assert_int_equal(attune_plan_text(op, &plan, text, 8), ATTUNE_TOO_SMALL);
	s.query_start[1] = 5; /* decreases at the next entry */
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "query_start"));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* ALIKE: the captured graph runs the same launches. */
static void a_plan_serves_what_would_be_planned_alike(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	attune_plan plan = { .size = sizeof plan }, other = { .size = sizeof other };
	struct step s;
	(void)state;
	step_make(&s, COUNT(mixed), mixed);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	s.seq_lens[0]++; /* as much work as before, to all that choose */
	assert_int_equal(attune_plan_batch(op, &s.batch, &other), ATTUNE_OK);
	assert_int_equal(attune_plan_serves(&plan, &other), ATTUNE_SERVES_ALIKE);
	other.part[0].resolved++;
	assert_int_equal(attune_plan_serves(&plan, &other), ATTUNE_SERVES);
	other = plan;
	other.how = ATTUNE_STREAMS;
	assert_int_equal(attune_plan_serves(&plan, &other), ATTUNE_SERVES);
	other = plan;
	plan.part[0].max_seq = 8; /* longer than the captured launch was made for */
	other.part[0].max_seq = 9;
	assert_int_equal(attune_plan_serves(&plan, &other), 0);
	assert_int_equal(attune_plan_serves(&other, &plan), ATTUNE_SERVES_ALIKE);
	assert_int_equal(attune_plan_serves(&plan, NULL), 0);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

static attune_plan plan_of(const attune_op *op, int n, const int (*lens)[2])
{
	attune_plan plan = { .size = sizeof plan };
	struct step s;
	step_make(&s, n, lens);
	if (attune_plan_batch(op, &s.batch, &plan))
		fail_msg("%s", attune_last_error());
	step_free(&s);
	return plan;
}

// clang-format off
static const struct {
	const char *name;
	int most[4][2], less[4][2], serves, back;
} served[] = {
	{ "decodes",
	  { { 4, 90 }, { 4, 90 }, { 4, 90 }, { 4, 90 } },
	  { { 4, 90 }, { 1, 5 }, { 0, 0 }, { 3, 7 } }, 1, 0 },
	{ "longer sequences",
	  { { 1, 9 }, { 1, 9 }, { 1, 9 }, { 1, 9 } },
	  { { 1, 900 }, { 1, 5 }, { 1, 70 }, { 1, 9 } }, 1, 1 },
	{ "prefills with a decode's tokens",
	  { { 40, 90 }, { 9, 90 }, { 40, 90 }, { 9, 9 } },
	  { { 2, 90 }, { 1, 90 }, { 8, 90 }, { 9, 9 } }, 1, 0 },
	{ "decodes, then prefills",
	  { { 2, 90 }, { 2, 90 }, { 40, 90 }, { 30, 90 } },
	  { { 1, 90 }, { 2, 90 }, { 10, 90 }, { 30, 30 } }, 1, 0 },
	{ "mixed in any order",
	  { { 2, 90 }, { 40, 90 }, { 1, 90 }, { 30, 90 } },
	  { { 2, 90 }, { 3, 90 }, { 1, 90 }, { 30, 30 } }, 1, 0 },
	{ "a prefill's last tokens",
	  { { 1, 90 }, { 1, 90 }, { 40, 90 }, { 30, 90 } },
	  { { 1, 90 }, { 1, 90 }, { 3, 90 }, { 30, 30 } }, 1, 0 },
	{ "mixed, all decodes by now",
	  { { 2, 90 }, { 40, 90 }, { 1, 90 }, { 30, 90 } },
	  { { 1, 90 }, { 1, 90 }, { 1, 90 }, { 1, 30 } }, 1, 0 },
	{ "a decode that is longer",
	  { { 2, 90 }, { 2, 90 }, { 40, 90 }, { 30, 90 } },
	  { { 3, 90 }, { 2, 90 }, { 10, 90 }, { 30, 30 } }, 0, 0 },
	{ "a prefill among decodes",
	  { { 2, 90 }, { 2, 90 }, { 40, 90 }, { 30, 90 } },
	  { { 2, 90 }, { 12, 90 }, { 10, 90 }, { 30, 30 } }, 0, 0 },
	{ "more tokens",
	  { { 9, 90 }, { 9, 90 }, { 40, 90 }, { 9, 90 } },
	  { { 39, 90 }, { 9, 90 }, { 40, 90 }, { 9, 90 } }, 0, 1 },
};
// clang-format on

/* Each row: whether the plan of the first batch serves for the second, and the other way round. */
static void a_plan_serves_for_lengths_below(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	(void)state;
	for (size_t i = 0; i < COUNT(served); i++) {
		const attune_plan most = plan_of(op, 4, served[i].most);
		const attune_plan less = plan_of(op, 4, served[i].less);
		if ((attune_plan_serves(&most, &less) != 0) != served[i].serves ||
		    (attune_plan_serves(&less, &most) != 0) != served[i].back)
			fail_msg("%s: %d, %d", served[i].name, attune_plan_serves(&most, &less),
				 attune_plan_serves(&less, &most));
	}
	attune_release(op);
	attune_close(ctx);
}

static void mixed_batches_are_right(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct step s;
	(void)state;
	step_make(&s, COUNT(mixed), mixed);
	run(op, &s);
	assert_step_is_right(&s);
	step_free(&s);
	step_make(&s, COUNT(decodes), decodes);
	run(op, &s);
	assert_step_is_right(&s);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

// clang-format off
static const struct {
	const char *name;
	int most[8][2], less[8][2];
} below[] = {
	{ "drafts that were trimmed",
	  { { 4, 90 }, { 4, 90 }, { 4, 90 }, { 4, 90 },
	    { 4, 90 }, { 4, 90 }, { 4, 90 }, { 4, 90 } },
	  { { 4, 90 }, { 1, 90 }, { 4, 80 }, { 3, 7 },
	    { 4, 90 }, { 4, 4 }, { 2, 90 }, { 4, 90 } } },
	{ "prefills",
	  { { 60, 90 }, { 60, 60 }, { 70, 90 }, { 9, 90 },
	    { 80, 90 }, { 9, 9 }, { 33, 90 }, { 64, 90 } },
	  { { 3, 90 }, { 1, 2 }, { 20, 80 }, { 0, 0 },
	    { 1, 1 }, { 8, 8 }, { 33, 50 }, { 9, 90 } } },
	{ "mixed in any order",
	  { { 2, 90 }, { 60, 60 }, { 1, 90 }, { 70, 90 },
	    { 1, 90 }, { 9, 9 }, { 2, 90 }, { 64, 90 } },
	  { { 1, 90 }, { 5, 60 }, { 1, 80 }, { 2, 2 }, { 0, 0 }, { 1, 8 }, { 2, 50 }, { 3, 90 } } },
};
// clang-format on

/* A plan of the first lengths, and one of their maxima, run for the second ones. */
static void plans_are_right_for_lengths_below(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	(void)state;
	for (size_t i = 0; i < 2 * COUNT(below); i++) {
		attune_plan plan = plan_of(op, 8, below[i / 2].most);
		struct step s;
		if (i % 2 && attune_plan_bounds(op, 8, 400, 80, 90, &plan))
			fail_msg("%s: %s", below[i / 2].name, attune_last_error());
		step_make(&s, 8, below[i / 2].less);
		void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
		assert_non_null(workspace);
		assert_int_equal(attune_run(op, &plan, &s.t, workspace, plan.workspace, NULL),
				 ATTUNE_OK);
		assert_step_is_right(&s);
		free(workspace);
		step_free(&s);
	}
	attune_release(op);
	attune_close(ctx);
}

static void lengths_above_the_plan_are_refused(void **state)
{
	static const struct {
		int planned[2][2], run[2][2];
	} cases[] = {
		{ { { 1, 20 }, { 1, 30 } }, { { 2, 20 }, { 0, 0 } } },    /* a decode of 2 tokens */
		{ { { 5, 20 }, { 5, 30 } }, { { 8, 20 }, { 2, 30 } } },   /* as many tokens */
		{ { { 20, 20 }, { 1, 30 } }, { { 1, 20 }, { 20, 30 } } }, /* the other way round */
		{ { { 5, 20 }, { 5, 30 } }, { { 5, 20 }, { 6, 30 } } },   /* more tokens */
	};
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const attune_plan plan = plan_of(op, 2, cases[i].planned);
		struct step s;
		step_make(&s, 2, cases[i].run);
		void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
		assert_non_null(workspace);
		assert_int_equal(attune_run(op, &plan, &s.t, workspace, plan.workspace, NULL),
				 ATTUNE_INVALID);
		assert_non_null(strstr(attune_last_error(), "a query is longer than planned"));
		free(workspace);
		step_free(&s);
	}
	attune_release(op);
	attune_close(ctx);
}

/* The CPU's kernels read new tokens from the cache. They must be given all the same; otherwise
 * the call would fail only where a kernel reads them. */
static void new_tokens_that_are_announced_must_be_given(void **state)
{
	attune_context *ctx = open_cpu();
	attune_shape announced = shape;
	attune_op *op;
	struct step s;
	attune_plan plan = { .size = sizeof plan };
	(void)state;
	announced.has_new_kv = 1;
	assert_int_equal(attune_prepare(ctx, &announced, &op), ATTUNE_OK);
	step_make(&s, COUNT(mixed), mixed);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_run(op, &plan, &s.t, NULL, 0, NULL), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "k_new and v_new"));
	s.t.k_new = s.k;
	s.t.v_new = s.v;
	run(op, &s);
	assert_step_is_right(&s);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

static void tensors_that_are_missing(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct step s;
	attune_plan plan = { .size = sizeof plan };
	(void)state;
	step_make(&s, COUNT(decodes), decodes);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	s.t.block_table = NULL;
	assert_int_equal(attune_run(op, &plan, &s.t, NULL, 0, NULL), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "block_table"));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* By the lengths of `mixed`: two prefills, three decodes, one sequence without a query. */
static void features_are_of_one_phase(void **state)
{
	static const struct {
		enum attune_phase phase;
		int seqs, tokens, keys, longest, max_query;
	} rows[] = {
		{ ATTUNE_PHASE_ALL, 5, 79, 521, 300, 40 },
		{ ATTUNE_PHASE_PREFILL, 2, 73, 140, 100, 40 },
		{ ATTUNE_PHASE_DECODE, 3, 6, 381, 300, 4 },
	};
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct attune_features f;
	struct step s;
	(void)state;
	step_make(&s, COUNT(mixed), mixed);
	for (size_t i = 0; i < COUNT(rows); i++) {
		memset(&f, 0xff, sizeof f);
		assert_int_equal(attune_batch_features(op, &s.batch, rows[i].phase, &f, sizeof f),
				 ATTUNE_OK);
		assert_int_equal(f.num_seqs, rows[i].seqs);
		assert_int_equal(f.query_tokens, rows[i].tokens);
		assert_int_equal(f.kv_tokens, rows[i].keys);
		assert_int_equal(f.max_seq, rows[i].longest);
		assert_int_equal(f.max_query, rows[i].max_query);
		assert_int_equal(f.decode_seqs, 3);
		assert_int_equal(f.prefill_tokens, 73);
		assert_int_equal(f.group, QUERY_HEADS / KV_HEADS);
	}
	assert_int_equal(attune_batch_features(op, &s.batch, (enum attune_phase)3, &f, sizeof f),
			 ATTUNE_INVALID);
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, NULL, 0),
			 ATTUNE_INVALID);
	s.seq_lens[1] = -1;
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, &f, sizeof f),
			 ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "attune_batch_features: seq_lens"));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* All members that a batch changes are then 0. */
static void a_phase_without_sequences_has_no_features(void **state)
{
	static const attune_batch none = { sizeof(attune_batch), 0, NULL, NULL };
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct attune_features f, empty;
	struct step s;
	(void)state;
	step_make(&s, COUNT(decodes), decodes);
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_PREFILL, &f, sizeof f),
			 ATTUNE_OK);
	assert_int_equal(attune_batch_features(op, &none, ATTUNE_PHASE_ALL, &empty, sizeof empty),
			 ATTUNE_OK);
	assert_memory_equal(&f, &empty, sizeof f);
	assert_int_equal(f.num_seqs, 0);
	assert_int_equal(f.decode_seqs, 0);
	assert_int_equal(f.head_size, HEAD);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_that_are_not_there),
		cmocka_unit_test(shapes_that_make_no_sense),
		cmocka_unit_test(plans_follow_the_batch),
		cmocka_unit_test(a_plan_serves_what_would_be_planned_alike),
		cmocka_unit_test(a_plan_serves_for_lengths_below),
		cmocka_unit_test(mixed_batches_are_right),
		cmocka_unit_test(plans_are_right_for_lengths_below),
		cmocka_unit_test(lengths_above_the_plan_are_refused),
		cmocka_unit_test(new_tokens_that_are_announced_must_be_given),
		cmocka_unit_test(tensors_that_are_missing),
		cmocka_unit_test(features_are_of_one_phase),
		cmocka_unit_test(a_phase_without_sequences_has_no_features),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
