/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_step.h - a batch in host memory, run by the library on the CPU and compared with plain
 * arithmetic. */
#ifndef TESTS_LIBRARY_CPU_STEP_H
#define TESTS_LIBRARY_CPU_STEP_H

#include "rules_header.h"
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

static const attune_shape shape = { .size = sizeof(attune_shape),
				    .num_query_heads = QUERY_HEADS,
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
	s->batch = (attune_batch){ sizeof(attune_batch), num_seqs, s->query_start, s->seq_lens };
	s->t = (attune_tensors){ .size = sizeof(attune_tensors),
				 .out = s->out,
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

static inline void assert_step_is_right(const struct step *s)
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

static inline attune_context *open_cpu(void)
{
	attune_context *ctx = NULL;
	if (attune_open(&ctx, "cpu"))
		fail_msg("%s", attune_last_error());
	assert_string_equal(attune_heuristic(ctx), "cpu");
	return ctx;
}

static inline attune_op *prepare(attune_context *ctx)
{
	attune_op *op = NULL;
	if (attune_prepare(ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	return op;
}

static inline void run(attune_op *op, struct step *s)
{
	attune_plan plan = { .size = sizeof plan };
	assert_int_equal(attune_plan_batch(op, &s->batch, &plan), ATTUNE_OK);
	void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
	assert_non_null(workspace);
	if (attune_run(op, &plan, &s->t, workspace, plan.workspace, NULL))
		fail_msg("%s", attune_last_error());
	free(workspace);
}

#endif
