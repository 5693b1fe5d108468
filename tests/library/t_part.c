/* SPDX-License-Identifier: Apache-2.0 */
/* t_part.c - parts of a batch and their features, against token-by-token counts. */
#include "kernels/attune_features.h"
#include "kernels/device/device.h"
#include "kernels/spec/part.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 3000, MAX_SEQS = 12 };

static unsigned below(unsigned n)
{
	static unsigned long long seed = 5;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

struct lengths {
	attune_batch batch;
	int32_t start[MAX_SEQS + 1], seq[MAX_SEQS];
};

/* Also queries longer than the sequence, and sequences without a query. */
static void random_batch(struct lengths *l)
{
	l->start[0] = 0;
	l->batch =
	    (attune_batch){ sizeof(attune_batch), 1 + (int)below(MAX_SEQS), l->start, l->seq };
	for (int i = 0; i < l->batch.num_seqs; i++) {
		l->start[i + 1] = l->start[i] + (int32_t)below(below(3) ? 9 : 40);
		l->seq[i] = (int32_t)below(90);
	}
}

static attune_shape random_shape(void)
{
	static const int heads[][2] = { { 32, 8 }, { 3, 3 }, { 40, 1 }, { 14, 2 } };
	const int *h = heads[below(COUNT(heads))];
	return (attune_shape){ .size = sizeof(attune_shape),
			       .num_query_heads = h[0],
			       .num_kv_heads = h[1],
			       .head_size = 64,
			       .page_size = 16,
			       .dtype = ATTUNE_BF16,
			       .kv_dtype = below(2) ? ATTUNE_F32 : ATTUNE_BF16,
			       .causal = below(3) > 0,
			       .window = below(2) ? 0 : 1 + (int)below(50) };
}

/* By the definition at the top of args.h. */
static int sees(const attune_shape *s, int query, int seq, int token, int key)
{
	const int position = seq - query + token;
	return (!s->causal || key <= position) && (!s->window || key > position - s->window);
}

static int in_phase(enum phase phase, int query)
{
	return query && (phase == PHASE_ALL || (phase == PHASE_DECODE) == (query <= 8));
}

struct counts {
	long long seqs, tokens, pairs, keys, longest, blocks;
};

static void count(struct counts *c, enum phase phase, const attune_shape *s, const attune_batch *b)
{
	memset(c, 0, sizeof *c);
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i], seq = b->seq_lens[i];
		long long live = 0;
		if (!in_phase(phase, query))
			continue;
		c->seqs++;
		c->tokens += query;
		for (int key = 0; key < seq; key++) {
			int seen = 0;
			for (int t = 0; t < query; t++)
				seen += sees(s, query, seq, t, key);
			c->pairs += seen;
			/* without causality a window's end is the sequence's */
			live += !s->window || key >= seq - query + 1 - s->window;
		}
		c->keys += live;
		c->longest = live > c->longest ? live : c->longest;
	}
}

/* Blocks of 16 rows: find_q_block's numbering leaves room for a last, partial one
 * of each sequence. */
static long long blocks(const struct part *p, const attune_shape *s)
{
	const int group = s->num_query_heads / s->num_kv_heads;
	const int tokens = group > 16 ? 1 : 16 / group, a_token = (group + 15) / 16;
	const long long q_blocks =
	    p->max_query > tokens ? p->range_tokens / tokens + p->seq_count : p->seq_count;
	return q_blocks * a_token * s->num_kv_heads;
}

static void features_are(const struct part *p, const struct counts *c, const attune_shape *s,
			 const struct device_info *d)
{
	const struct attune_features *f = &p->f;
	assert_int_equal(f->num_seqs, c->seqs);
	assert_int_equal(f->query_tokens, c->tokens);
	assert_int_equal(f->kv_tokens, c->keys);
	assert_int_equal(f->max_seq, c->longest);
	assert_int_equal(f->work, (c->pairs + 4095) / 4096);
	assert_int_equal(f->mean_query, c->tokens / c->seqs);
	assert_int_equal(f->keys_per_query, c->pairs / c->tokens);
	assert_int_equal(f->kv_kib,
			 c->keys * s->num_kv_heads * 64 * 2 * dtype_bytes(s->kv_dtype) / 1024);
	/* the least n with n / 16 units' worth of blocks */
	assert_true(f->blocks_per_unit * d->units >= 16 * blocks(p, s));
	assert_true((f->blocks_per_unit - 1) * d->units < 16 * blocks(p, s));
}

static void features_are_what_they_say(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const struct device_info d = { .units = 1 + (int)below(150) };
		const attune_shape s = random_shape();
		const enum phase phase = (enum phase)below(3);
		struct lengths l;
		struct counts c;
		struct part p;
		random_batch(&l);
		count(&c, phase, &s, &l.batch);
		assert_int_equal(part_make(&p, phase, &s, &l.batch, &d), c.seqs > 0);
		assert_int_equal(part_pairs(&s, &l.batch, phase), c.pairs);
		assert_int_equal(part_live_keys(&s, &l.batch, phase), c.keys);
		if (c.seqs)
			features_are(&p, &c, &s, &d);
	}
}

static void span_is(const attune_span *span, int asked, enum phase phase, const attune_shape *s,
		    const attune_batch *b, const struct device_info *d)
{
	struct part p;
	if (!asked || !part_make(&p, phase, s, b, d)) {
		assert_int_equal(span->seq_count, 0);
		return;
	}
	assert_int_equal(span->seq_begin, p.seq_begin);
	assert_int_equal(span->seq_count, p.seq_count);
	assert_int_equal(span->min_query, p.min_query);
	assert_int_equal(span->max_query, p.max_query);
	assert_int_equal(span->range_tokens, p.range_tokens);
	assert_int_equal(span_q_blocks(span, 4), part_q_blocks(&p, 4));
}

static void spans_are_the_parts_alone(void **state)
{
	const struct device_info d = { .units = 4 };
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const attune_shape s = random_shape();
		const enum phase phase = (enum phase)below(3);
		struct lengths l;
		struct part p;
		random_batch(&l);
		if (!part_make(&p, phase, &s, &l.batch, &d))
			continue;
		span_is(&p.prefill, phase != PHASE_DECODE, PHASE_PREFILL, &s, &l.batch, &d);
		span_is(&p.decode, phase != PHASE_PREFILL, PHASE_DECODE, &s, &l.batch, &d);
	}
}

/* It is 0 for one part alone; for a batch it grows with the length of prefills and falls with
 * the length of decodes. */
static void shares_follow_both_parts(void **state)
{
	const struct device_info d = { .units = 132 };
	const attune_shape s = { .size = sizeof(attune_shape),
				 .num_query_heads = 32,
				 .num_kv_heads = 8,
				 .head_size = 128,
				 .page_size = 16,
				 .dtype = ATTUNE_BF16,
				 .kv_dtype = ATTUNE_BF16,
				 .causal = 1 };
	static const struct {
		int chunk, context, decodes, keys, share;
	} rows[] = {
		{ 512, 0, 64, 65536, 0 },     { 1024, 11264, 80, 12288, 17 },
		{ 512, 3584, 32, 4096, 20 },  { 12288, 0, 220, 12288, 29 },
		{ 16384, 0, 250, 16384, 32 }, { 8192, 0, 4, 1024, 63 },
		{ 131072, 0, 1, 16, 63 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int32_t start[300] = { 0, rows[i].chunk },
			seq[300] = { rows[i].chunk + rows[i].context };
		const attune_batch b = { sizeof(attune_batch), 1 + rows[i].decodes, start, seq };
		struct part p;
		for (int k = 1; k <= rows[i].decodes; k++) {
			start[k + 1] = start[k] + 1;
			seq[k] = rows[i].keys;
		}
		assert_int_equal(part_make(&p, PHASE_PREFILL, &s, &b, &d), 1);
		assert_int_equal(p.f.prefill_share, 64);
		assert_int_equal(part_make(&p, PHASE_DECODE, &s, &b, &d), 1);
		assert_int_equal(p.f.prefill_share, 0);
		assert_int_equal(part_make(&p, PHASE_ALL, &s, &b, &d), 1);
		if (p.f.prefill_share != rows[i].share)
			print_message("# %zu: %lld\n", i, p.f.prefill_share);
		assert_int_equal(p.f.prefill_share, rows[i].share);
	}
}

/* A window's pairs must not take a step a token: 2^30 of them would show. */
static void long_queries_cost_nothing(void **state)
{
	const attune_shape s = { .size = sizeof(attune_shape),
				 .num_query_heads = 8,
				 .num_kv_heads = 1,
				 .head_size = 128,
				 .causal = 1,
				 .window = 4096 };
	const int32_t start[] = { 0, 1 << 30 }, seq[] = { 1 << 30 };
	const attune_batch b = { sizeof(attune_batch), 1, start, seq };
	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(part_pairs(&s, &b, PHASE_ALL),
				 4096ll * (1 << 30) - 4096ll * 4095 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_are_what_they_say),
		cmocka_unit_test(spans_are_the_parts_alone),
		cmocka_unit_test(shares_follow_both_parts),
		cmocka_unit_test(long_queries_cost_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("part", tests, NULL, NULL);
}
