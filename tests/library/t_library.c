/* t_library.c - the public API on the CPU: what a user of libattune relies on. */
#include "kernels/kernel.h"
#include "override_head.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { PAGE = 16, QUERY_HEADS = 8, KV_HEADS = 2, HEAD = 64, MAX_SEQS = 8, MAX_PAGES = 64 };

static const attune_shape shape = { .num_query_heads = QUERY_HEADS,
				    .num_kv_heads = KV_HEADS,
				    .head_size = HEAD,
				    .page_size = PAGE,
				    .dtype = ATTUNE_F32,
				    .kv_dtype = ATTUNE_F32,
				    .causal = 1 };

/* A batch with its tensors in host memory. */
struct step {
	attune_batch batch;
	attune_tensors t;
	int32_t query_start[MAX_SEQS + 1], seq_lens[MAX_SEQS], table[MAX_SEQS * MAX_PAGES];
	float *q, *out, *k, *v;
	int tokens;
};

static _Thread_local unsigned long long seed;

static float noise(void) /* -1 .. 1 */
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(seed >> 40) / 8388608.f - 1.f;
}

static float *numbers(size_t n)
{
	float *v = malloc(n * sizeof *v);
	assert_non_null(v);
	for (size_t i = 0; i < n; i++)
		v[i] = noise();
	return v;
}

static void step_make(struct step *s, int num_seqs, const int (*lens)[2])
{
	int page = 0;
	memset(s, 0, sizeof *s);
	seed = 7;
	for (int i = 0; i < num_seqs; i++) {
		s->query_start[i + 1] = s->query_start[i] + lens[i][0];
		s->seq_lens[i] = lens[i][1];
		for (int j = 0; j < (lens[i][1] + PAGE - 1) / PAGE;
		     j++) /* backwards: never contiguous */
			s->table[i * MAX_PAGES + j] = MAX_SEQS * MAX_PAGES - 1 - page++;
	}
	s->tokens = s->query_start[num_seqs];
	const size_t cache = (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD;
	s->q = numbers((size_t)s->tokens * QUERY_HEADS * HEAD);
	s->out = numbers((size_t)s->tokens * QUERY_HEADS * HEAD);
	s->k = numbers(cache);
	s->v = numbers(cache);
	s->batch = (attune_batch){ num_seqs, s->query_start, s->seq_lens };
	s->t = (attune_tensors){ .out = s->out,
				 .q = s->q,
				 .k_cache = s->k,
				 .v_cache = s->v,
				 .block_table = s->table,
				 .query_start = s->query_start,
				 .seq_lens = s->seq_lens,
				 .q_token_stride = QUERY_HEADS * HEAD,
				 .q_head_stride = HEAD,
				 .out_token_stride = QUERY_HEADS * HEAD,
				 .out_head_stride = HEAD,
				 .k_page_stride = PAGE * KV_HEADS * HEAD,
				 .k_slot_stride = KV_HEADS * HEAD,
				 .k_head_stride = HEAD,
				 .v_page_stride = PAGE * KV_HEADS * HEAD,
				 .v_slot_stride = KV_HEADS * HEAD,
				 .v_head_stride = HEAD,
				 .block_table_stride = MAX_PAGES };
}

static void step_free(struct step *s)
{
	free(s->q);
	free(s->out);
	free(s->k);
	free(s->v);
}

/* Plain arithmetic, not the library's reference: the two are independent. */
static double expected(const struct step *s, int seq, int token, int head, int dim)
{
	const int query = s->query_start[seq + 1] - s->query_start[seq];
	const int keys = s->seq_lens[seq] - query + token + 1;
	const float *q = s->q + ((s->query_start[seq] + token) * QUERY_HEADS + head) * HEAD;
	double sum = 0, weighted = 0;
	for (int key = 0; key < keys; key++) {
		const int page = s->table[seq * MAX_PAGES + key / PAGE];
		const size_t at = ((size_t)(page * PAGE + key % PAGE) * KV_HEADS +
				   (size_t)(head / (QUERY_HEADS / KV_HEADS))) *
				  HEAD;
		double dot = 0;
		for (int d = 0; d < HEAD; d++)
			dot += (double)q[d] * s->k[at + (size_t)d];
		const double p = exp(dot / sqrt(HEAD));
		sum += p;
		weighted += p * s->v[at + (size_t)dim];
	}
	return sum > 0 ? weighted / sum : 0;
}

static void assert_step_is_right(const struct step *s)
{
	for (int seq = 0; seq < s->batch.num_seqs; seq++)
		for (int t = s->query_start[seq]; t < s->query_start[seq + 1]; t++)
			for (int head = 0; head < QUERY_HEADS; head += 3)
				for (int d = 0; d < HEAD; d += 21) {
					double want =
					    expected(s, seq, t - s->query_start[seq], head, d);
					double got = s->out[(t * QUERY_HEADS + head) * HEAD + d];
					if (!(fabs(got - want) < 1e-5))
						fail_msg(
						    "seq %d token %d head %d dim %d: %g, want %g",
						    seq, t - s->query_start[seq], head, d, got,
						    want);
				}
}

static const int mixed[][2] = {
	{ 1, 300 }, { 40, 40 }, { 1, 17 }, { 0, 9 }, { 33, 100 }, { 4, 64 }
};
static const int decodes[][2] = { { 1, 1 }, { 1, 16 }, { 1, 1000 } };

static attune_context *open_cpu(void)
{
	attune_context *ctx = NULL;
	if (attune_open(&ctx, "cpu"))
		fail_msg("%s", attune_last_error());
	assert_string_equal(attune_heuristic(ctx), "cpu");
	return ctx;
}

static attune_op *prepare(attune_context *ctx)
{
	attune_op *op = NULL;
	if (attune_prepare(ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	return op;
}

static void devices_that_are_not_there(void **state)
{
	static const struct {
		const char *name;
		enum attune_status status;
	} rows[] = {
		{ "tpu", ATTUNE_INVALID },
		{ "cpux", ATTUNE_INVALID },
		{ "cpu:abacus", ATTUNE_INVALID },
		{ "cuda:99", ATTUNE_NO_DEVICE },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = (attune_context *)&rows;
		assert_int_not_equal(attune_open(&ctx, rows[i].name), ATTUNE_OK);
		assert_null(ctx);
		assert_non_null(strstr(attune_last_error(), rows[i].name[0] == 't' ? "tpu" : ""));
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
	s = shape;
	s.kv_layout = ATTUNE_KV_CLASSIC; /* on GPUs alone */
	assert_int_equal(attune_prepare(ctx, &s, &op), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "in the classic layout"));
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
	attune_plan plan;
	char text[512];
	(void)state;
	const attune_batch none = { 0, NULL, NULL };
	assert_int_equal(attune_plan_batch(op, &none, &plan), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 0);
	step_make(&s, COUNT(decodes), decodes);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(plan.num_parts, 1);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_non_null(strchr(text, '='));
	assert_int_equal(attune_plan_text(op, &plan, text, 8), ATTUNE_TOO_SMALL);
	s.query_start[1] = 5; /* decreases at the next entry */
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "query_start"));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

static void run(attune_op *op, struct step *s)
{
	attune_plan plan;
	assert_int_equal(attune_plan_batch(op, &s->batch, &plan), ATTUNE_OK);
	void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
	assert_non_null(workspace);
	if (attune_run(op, &plan, &s->t, workspace, plan.workspace, NULL))
		fail_msg("%s", attune_last_error());
	free(workspace);
}

/* The captured graph runs the same launches; and only that. */
static void a_plan_serves_what_would_be_planned_alike(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	attune_plan plan, other;
	struct step s;
	(void)state;
	step_make(&s, COUNT(mixed), mixed);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	s.seq_lens[0]++; /* as much work as before, to all that choose */
	assert_int_equal(attune_plan_batch(op, &s.batch, &other), ATTUNE_OK);
	assert_int_equal(attune_plan_serves(&plan, &other), 1);
	other.part[0].resolved++;
	assert_int_equal(attune_plan_serves(&plan, &other), 0);
	other = plan;
	other.part[0].range_tokens++;
	assert_int_equal(attune_plan_serves(&plan, &other), 0);
	other = plan;
	other.part[0].max_seq++; /* longer than the captured launch was made for */
	assert_int_equal(attune_plan_serves(&plan, &other), 0);
	assert_int_equal(attune_plan_serves(&other, &plan), 1);
	other = plan;
	other.how = ATTUNE_STREAMS;
	assert_int_equal(attune_plan_serves(&plan, &other), 0);
	assert_int_equal(attune_plan_serves(&plan, NULL), 0);
	step_free(&s);
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

/* The CPU's kernels read new tokens from the cache; they must be given all the same, lest
 * the call fail first where a kernel reads them. */
static void new_tokens_that_are_announced_must_be_given(void **state)
{
	attune_context *ctx = open_cpu();
	attune_shape announced = shape;
	attune_op *op;
	struct step s;
	attune_plan plan;
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

static void a_small_workspace_is_refused(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	static const int lens[][2] = { { 1, 1000 } };
	struct step s;
	attune_plan plan;
	size_t most;
	(void)state;
	step_make(&s, 1, lens);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_max_workspace(op, 1, 1, &most), ATTUNE_OK);
	assert_true(most >= plan.workspace);
	if (plan.workspace) {
		float before = s.out[0];
		assert_int_equal(attune_run(op, &plan, &s.t, &most, 1, NULL), ATTUNE_TOO_SMALL);
		assert_true(s.out[0] == before);
	}
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
		assert_int_equal(attune_batch_features(op, &s.batch, rows[i].phase, &f), ATTUNE_OK);
		assert_int_equal(f.num_seqs, rows[i].seqs);
		assert_int_equal(f.query_tokens, rows[i].tokens);
		assert_int_equal(f.kv_tokens, rows[i].keys);
		assert_int_equal(f.max_seq, rows[i].longest);
		assert_int_equal(f.max_query, rows[i].max_query);
		assert_int_equal(f.decode_seqs, 3);
		assert_int_equal(f.prefill_tokens, 73);
		assert_int_equal(f.group, QUERY_HEADS / KV_HEADS);
	}
	assert_int_equal(attune_batch_features(op, &s.batch, (enum attune_phase)3, &f),
			 ATTUNE_INVALID);
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, NULL),
			 ATTUNE_INVALID);
	s.seq_lens[1] = -1;
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_ALL, &f), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "attune_batch_features: seq_lens"));
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* All members that a batch changes are then 0. */
static void a_phase_without_sequences_has_no_features(void **state)
{
	static const attune_batch none = { 0, NULL, NULL };
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	struct attune_features f, empty;
	struct step s;
	(void)state;
	step_make(&s, COUNT(decodes), decodes);
	assert_int_equal(attune_batch_features(op, &s.batch, ATTUNE_PHASE_PREFILL, &f), ATTUNE_OK);
	assert_int_equal(attune_batch_features(op, &none, ATTUNE_PHASE_ALL, &empty), ATTUNE_OK);
	assert_memory_equal(&f, &empty, sizeof f);
	assert_int_equal(f.num_seqs, 0);
	assert_int_equal(f.decode_seqs, 0);
	assert_int_equal(f.head_size, HEAD);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* ---- rules from a file ------------------------------------------------------------- */

/* Opens the CPU with such rules for both parts, and for how they overlap; NULL: refused. */
static attune_context *open_beside(const char *choice, const char *leaf, const char *overlap)
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	attune_context *ctx = NULL;
	const int fd = mkstemp(path);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	assert_non_null(out);
	fprintf(out,
		"%schoice 0 segmented %s\n"
		"tree prefill\nreturn 0\ntree decode\nreturn %s\n%s%s\n",
		override_head("cpu"), choice, leaf, *overlap ? "tree overlap\nreturn " : "",
		overlap);
	fclose(out);
	setenv("ATTUNE_HEURISTICS", path, 1);
	setenv("ATTUNE_THREADS", "3", 1);
	attune_open(&ctx, "cpu");
	unsetenv("ATTUNE_THREADS");
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path); /* it was read: nothing looks at it again */
	return ctx;
}

static attune_context *open_with(const char *choice, const char *leaf)
{
	return open_beside(choice, leaf, "");
}

static int segments_of(const attune_op *op, const attune_plan *plan)
{
	char text[512];
	assert_int_equal(attune_plan_text(op, plan, text, sizeof text), ATTUNE_OK);
	const char *at = strstr(text, "SEGMENTS=");
	return at ? atoi(at + strlen("SEGMENTS=")) : 0;
}

/* One KV head a cell, three threads: one sequence is cut, a dozen are not. */
static void formulas_become_numbers_per_batch(void **state)
{
	static const int one[][2] = { { 1, 1000 } };
	static const int many[][2] = { { 1, 90 }, { 1, 80 }, { 1, 90 }, { 1, 70 },
				       { 1, 90 }, { 1, 60 }, { 1, 90 }, { 1, 50 } };
	attune_context *ctx =
	    open_with("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=balance(1,32,0,0)", "0");
	if (!ctx)
		fail_msg("%s", attune_last_error());
	attune_op *op = prepare(ctx);
	struct step s;
	attune_plan plan, other;
	size_t most;
	(void)state;
	step_make(&s, 1, one);
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(segments_of(op, &plan), 4);
	assert_int_equal(attune_max_workspace(op, 1, 1, &most), ATTUNE_OK);
	assert_true(plan.workspace > 0 && plan.workspace <= most);
	run(op, &s);
	assert_step_is_right(&s);
	other = plan;
	other.part[0].resolved = 0;
	assert_int_equal(attune_run(op, &other, &s.t, NULL, 0, NULL), ATTUNE_INVALID);
	step_free(&s);
	step_make(&s, COUNT(many), many);
	assert_int_equal(attune_plan_batch(op, &s.batch, &other), ATTUNE_OK);
	assert_int_equal(segments_of(op, &other), 1);
	assert_int_equal(segments_of(op, &plan), 4); /* the first plan stays what it was */
	run(op, &s);
	assert_step_is_right(&s);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* Not carried for this shape, or -1: the defaults run. */
static void the_defaults_stand_in(void **state)
{
	static const char *const rows[][2] = {
		{ "TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=2", "0" },
		{ "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "-1" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = open_with(rows[i][0], rows[i][1]);
		attune_op *op = prepare(ctx);
		attune_plan plan;
		struct step s;
		step_make(&s, COUNT(decodes), decodes);
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(segments_of(op, &plan), 1);
		run(op, &s);
		assert_step_is_right(&s);
		step_free(&s);
		attune_release(op);
		attune_close(ctx);
	}
}

/* Side by side where both parts are what the trees say, and such a choice is at hand. */
static void parts_overlap_as_the_rules_say(void **state)
{
	static const char carried[] = "TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1";
	static const char foreign[] = "TILE_SIZE=128 STREAMS=8 WHOLE_PAGES=0 SEGMENTS=1";
	static const struct {
		const char *choice, *decode, *overlap;
		enum attune_how how;
	} rows[] = {
		{ carried, "0", "", ATTUNE_SERIAL },         { carried, "0", "-1", ATTUNE_SERIAL },
		{ carried, "0", "streams", ATTUNE_STREAMS }, { carried, "0", "0", ATTUNE_STREAMS },
		{ carried, "-1", "streams", ATTUNE_SERIAL }, { carried, "-1", "0", ATTUNE_SERIAL },
		{ foreign, "0", "streams", ATTUNE_SERIAL },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = open_beside(rows[i].choice, rows[i].decode, rows[i].overlap);
		if (!ctx)
			fail_msg("%s", attune_last_error());
		attune_op *op = prepare(ctx);
		attune_plan plan;
		struct step s;
		char text[512];
		step_make(&s, COUNT(mixed), mixed);
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(plan.how, rows[i].how);
		assert_int_equal(plan.num_parts, 2); /* one launch is for fused kernels alone */
		assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
		assert_int_equal(strstr(text, " || ") != NULL, rows[i].how == ATTUNE_STREAMS);
		run(op, &s);
		assert_step_is_right(&s);
		step_free(&s);
		step_make(&s, COUNT(decodes), decodes); /* one part has no other beside it */
		assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
		assert_int_equal(plan.how, ATTUNE_SERIAL);
		step_free(&s);
		attune_release(op);
		attune_close(ctx);
	}
}

/* The last error is of the line that many behind the head of the file. */
static int is_of_line(int behind)
{
	char line[16];
	int lines = 0;
	for (const char *at = override_head("cpu"); (at = strchr(at, '\n')); at++)
		lines++;
	snprintf(line, sizeof line, ":%d: ", lines + behind);
	return strstr(attune_last_error(), line) != NULL;
}

static void a_broken_file_opens_nothing(void **state)
{
	(void)state;
	assert_null(open_with("TILE_SIZE=64", "0"));
	assert_true(is_of_line(1));
	assert_null(open_with("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "1"));
	assert_true(is_of_line(5));
	assert_null(open_beside("TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=2", "0", "whole"));
	assert_true(is_of_line(7));
	setenv("ATTUNE_HEURISTICS", "", 1); /* as if it were not set */
	attune_close(open_cpu());
	unsetenv("ATTUNE_HEURISTICS");
}

static void *run_thread(void *op)
{
	for (int i = 0; i < 8; i++) {
		struct step s;
		attune_plan plan;
		step_make(&s, COUNT(decodes), decodes);
		attune_plan_batch(op, &s.batch, &plan);
		void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
		int failed = !workspace ||
			     attune_run(op, &plan, &s.t, workspace, plan.workspace, NULL) ||
			     fabs(s.out[2 * QUERY_HEADS * HEAD] - expected(&s, 2, 0, 0, 0)) > 1e-5;
		free(workspace);
		step_free(&s);
		if (failed)
			return "wrong";
	}
	return NULL;
}

static void threads_may_share_an_op(void **state)
{
	attune_context *ctx = open_cpu();
	attune_op *op = prepare(ctx);
	pthread_t thread[3];
	(void)state;
	for (size_t i = 0; i < COUNT(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_thread, op), 0);
	for (size_t i = 0; i < COUNT(thread); i++) {
		void *result;
		pthread_join(thread[i], &result);
		assert_null(result);
	}
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
		cmocka_unit_test(mixed_batches_are_right),
		cmocka_unit_test(new_tokens_that_are_announced_must_be_given),
		cmocka_unit_test(a_small_workspace_is_refused),
		cmocka_unit_test(features_are_of_one_phase),
		cmocka_unit_test(a_phase_without_sequences_has_no_features),
		cmocka_unit_test(formulas_become_numbers_per_batch),
		cmocka_unit_test(the_defaults_stand_in),
		cmocka_unit_test(parts_overlap_as_the_rules_say),
		cmocka_unit_test(a_broken_file_opens_nothing),
		cmocka_unit_test(threads_may_share_an_op),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
