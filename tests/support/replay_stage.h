/* SPDX-License-Identifier: Apache-2.0 */
/* replay_stage.h - a batch on the GPU for t_gpu_replay.c: the rows, their tensors, other lengths within
 * the bounds, and a replay whose output is compared with the reference. */
#ifndef TESTS_SUPPORT_REPLAY_STAGE_H
#define TESTS_SUPPORT_REPLAY_STAGE_H

#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"
#include "tests/support/replay.h"

enum { REPLAYS = 24, EMULATED_REPLAYS = 5, MOST_ROWS = 60, MOST_SEQS = 64 };

#define SIZE sizeof(attune_shape)
// clang-format off
static const struct row {
	const char *name;
	const char *batch, *small; /* the captured batch: its lengths are the most that replays have */
	attune_shape s;
	enum layout layout;
} rows[] = {
	{ "decodes, group 4, head 128", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "speculative decodes, group 8, head 64, window, sinks", "20q5s2k", "3q5s1200", { SIZE, 16, 2, 64, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 900, .has_sinks = 1 }, LAYOUT_NHD },
	{ "mixed, group 4, head 128", "3q300s2k_12q40s3k", "q50s300_4q20s500", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "mixed, group 40, head 128, pages of 48, softcap", "2q100s1k_5q1s3k", "q20s300_3q1s400", { SIZE, 40, 1, 128, 48, ATTUNE_F16, ATTUNE_F16, .causal = 1, .softcap = 30 }, LAYOUT_NHD },
	{ "mixed, head 256, ALiBi", "2q70s900_3q8s1k", "q20s200_2q8s300", { SIZE, 4, 2, 256, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_alibi = 1 }, LAYOUT_NHD },
	{ "decodes of a token and speculative ones, group 2", "30q8s2k", "9q8s500", { SIZE, 4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, LAYOUT_NHD },
	{ "prompts alone", "3q300s2k", "2q60s300", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "mixed, F16, head 64, window", "2q200s1k_9q2s3k", "q40s300_5q2s600", { SIZE, 8, 4, 64, 32, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 200 }, LAYOUT_NHD },
	{ "decodes, pages of 12", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 12, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "mixed, pages of 4", "3q300s2k_12q40s3k", "q50s300_4q20s500", { SIZE, 8, 2, 128, 4, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "a head size without measured choices", "q90s600_4q1s2k", "q30s200_3q1s400", { SIZE, 6, 3, 96, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
	{ "decodes, E4M3, packed", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, LAYOUT_PACKED },
	{ "mixed, E4M3, pages of all layers", "3q300s2k_12q4s3k", "q50s300_4q2s500", { SIZE, 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, LAYOUT_BLNHC },
	{ "decodes with the LSE, packed HND", "9q1s6k", "4q1s700", { SIZE, 32, 8, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_lse = 1 }, LAYOUT_LBHNC },
	{ "mixed, heads of 32, a page of K, then of V", "2q200s1k_9q2s3k", "q40s300_5q2s600", { SIZE, 8, 4, 32, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, LAYOUT_PAIRED },
	{ "a head size that warpgroup does not take", "q90s600_4q1s2k", "q30s200_3q1s400", { SIZE, 6, 3, 80, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, LAYOUT_NHD },
};
// clang-format on

static struct device dev;
static attune_context *ctx;
static struct pool *pool;
static unsigned long long seed = 77;

struct stage {
	struct scenario scenario;
	struct workload w;
	attune_op *op;
	int num_tokens, max_query;
	int *most_lens;
	size_t out_bytes;
	char *out[2]; /* the output, replayed twice */
	void *workspace;
	struct graph *graph;
};

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- a stage -------------------------------------------------------------------------- */

static void stage_make(struct stage *t, const struct row *r)
{
	char error[160];
	const char *text = is_emulated(&dev) ? r->small : r->batch;
	memset(t, 0, sizeof *t);
	t->scenario = (struct scenario){ .batch_text = (char *)(uintptr_t)text,
					 .batch = batch_parse(text, error, sizeof error),
					 .shape = r->s,
					 .layout = r->layout,
					 .seed = 5 };
	assert_non_null(t->scenario.batch);
	const attune_batch *b = &t->scenario.batch->view;
	t->num_tokens = b->query_start[b->num_seqs];
	t->most_lens = malloc((size_t)b->num_seqs * sizeof *t->most_lens);
	assert_non_null(t->most_lens);
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		t->most_lens[i] = b->seq_lens[i];
		t->max_query = (int)max_of(t->max_query, query);
	}
	ok(workload_make(&t->w, &dev, &pool, &t->scenario, WORKLOAD_CHECK, 0));
	ok(attune_prepare(ctx, &r->s, &t->op));
	t->out_bytes =
	    (size_t)t->num_tokens * (size_t)r->s.num_query_heads * (size_t)r->s.head_size * 2;
	for (int i = 0; i < 2; i++) {
		t->out[i] = malloc(t->out_bytes);
		assert_non_null(t->out[i]);
	}
}

static void stage_free(struct stage *t)
{
	if (t->graph)
		dev.ops->graph_free(&dev, t->graph);
	dev.ops->release(&dev, t->workspace);
	attune_release(t->op);
	workload_free(&t->w);
	batch_free(t->scenario.batch);
	free(t->most_lens);
	free(t->out[0]);
	free(t->out[1]);
}

/* How queries vary; ANY: some have one token and some sequences none; ONES: one token, or too
 * many for a decode. */
enum queries { KEPT, ANY, ONES, DECODES, NO_DECODES };

static int any_query(enum queries kind, int was, int most)
{
	switch (kind) {
	case ANY: return below(2) ? 1 : (int)below((unsigned)most + 1);
	case ONES: return below(3) ? 1 : any_query(NO_DECODES, was, most);
	case DECODES: return 1 + (int)below(DECODE_MAX_QUERY);
	case NO_DECODES:
		return most > DECODE_MAX_QUERY
			   ? most - (int)below((unsigned)(most - DECODE_MAX_QUERY))
			   : 0;
	default: return was;
	}
}

/* Other lengths within the bounds. */
static void change(struct stage *t, enum queries kind)
{
	struct batch *b = t->scenario.batch;
	const unsigned top = 1 + below(below(2) ? 100 : 2000);
	int left = t->num_tokens, start = 0;
	for (int i = 0; i < b->view.num_seqs; i++) {
		const int most = (int)min_of(left, t->max_query);
		const int was = b->query_start[i + 1] - start;
		const int any = any_query(kind, was, most);
		const int query = kind == KEPT ? was : (int)min_of(any, most);
		const long long context = (long long)below((unsigned)t->most_lens[i]) * top / 2000;
		b->seq_lens[i] = query ? (int)min_of(query + context, t->most_lens[i]) : 0;
		start = b->query_start[i + 1];
		left -= query;
		b->query_start[i + 1] = b->query_start[i] + query;
	}
	ok(put_lengths(&dev, &t->w, b));
}

static void is_right(struct stage *t, unsigned order)
{
	struct verdict v;
	char *text = batch_format(&t->scenario.batch->view);
	ok(replay_graph(&dev, t->graph, &t->w, t->out[0], t->out_bytes, order));
	check_output(&v, &t->w, PHASE_ALL, MOST_ROWS, 0);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s: %s: %s", text, outcome_name(v.outcome), v.text);
	ok(replay_graph(&dev, t->graph, &t->w, t->out[1], t->out_bytes, order + REPLAYS));
	if (memcmp(t->out[0], t->out[1], t->out_bytes))
		fail_msg("%s: other bits the next time", text);
	free(text);
}

#endif
