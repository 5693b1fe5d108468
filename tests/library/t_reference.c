/* SPDX-License-Identifier: Apache-2.0 */
/* t_reference.c - the definition itself, against numbers worked out by hand.
 *
 * In most cases HEAD = 2 and q = (1, 0), so a key's score is scale x its first element. Keys
 * carry the ln of their intended weight, so weights are small whole numbers. */
#include "kernels/args_more.h"
#include "kernels/device/device.h"
#include "harness/check/reference.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HEAD = 2, MAX_KEYS = 8 };

/* One sequence, one KV head, pages of two tokens in reverse order. */
struct one {
	attune_shape shape;
	struct attune_args args;
	float q[4 * 2 * HEAD], k[MAX_KEYS * HEAD], v[MAX_KEYS * HEAD];
	int table[MAX_KEYS / 2], query_start[2], seq_len;
};

/* Key j weighs weight[j] against the others and has the value row (value[j], -1). */
static void one_make(struct one *o, int query_len, int seq_len, const double *weight,
		     const double *value)
{
	memset(o, 0, sizeof *o);
	o->shape = (attune_shape){ .size = sizeof(attune_shape),
				   .num_query_heads = 1,
				   .num_kv_heads = 1,
				   .head_size = HEAD,
				   .page_size = 2,
				   .causal = 1,
				   .scale = 2 };
	for (int t = 0; t < 4; t++)
		o->q[t * HEAD] = 1;
	for (int j = 0; j < MAX_KEYS / 2; j++)
		o->table[j] = MAX_KEYS / 2 - 1 - j;
	for (int j = 0; j < seq_len; j++) {
		const int row = o->table[j / 2] * 2 + j % 2;
		o->k[row * HEAD] = (float)(log(weight[j]) / 2); /* scale is 2 */
		o->k[row * HEAD + 1] = 77;                      /* q has 0 there */
		o->v[row * HEAD] = (float)value[j];
		o->v[row * HEAD + 1] = -1;
	}
	o->query_start[1] = query_len;
	o->seq_len = seq_len;
	o->args = (struct attune_args){ .q = o->q,
					.k_cache = o->k,
					.v_cache = o->v,
					.block_table = o->table,
					.query_start = o->query_start,
					.seq_lens = &o->seq_len,
					.q_token_stride = HEAD,
					.q_head_stride = HEAD,
					.k_page_stride = 2 * HEAD,
					.k_slot_stride = HEAD,
					.k_head_stride = HEAD,
					.v_page_stride = 2 * HEAD,
					.v_slot_stride = HEAD,
					.v_head_stride = HEAD,
					.block_table_stride = MAX_KEYS / 2,
					.num_seqs = 1,
					.num_query_heads = 1,
					.num_kv_heads = 1,
					.group = 1,
					.page_size = 2,
					.causal = 1,
					.scale = 2 };
}

static double first(const struct one *o, int token)
{
	double out[HEAD];
	reference_row(&o->args, &o->shape, 0, token, 0, out);
	return out[0];
}

#define NEAR(got, want) assert_true(fabs((got) - (want)) < 1e-6)

static void one_key(void **state)
{
	struct one o;
	double out[HEAD];
	(void)state;
	one_make(&o, 1, 1, (double[]){ 5 }, (double[]){ 0.75 });
	reference_row(&o.args, &o.shape, 0, 0, 0, out);
	NEAR(out[0], 0.75);
	NEAR(out[1], -1);
}

static void two_keys(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 1, 2, (double[]){ 1, 3 }, (double[]){ 8, 4 });
	NEAR(first(&o, 0), 5); /* (1 * 8 + 3 * 4) / 4 */
}

static const double even[MAX_KEYS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const double powers[MAX_KEYS] = { 1, 2, 4, 8, 16, 32, 64, 128 };

static void causal_edge(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 3, 5, even, powers); /* positions 2, 3, 4 */
	NEAR(first(&o, 0), 7 / 3.);
	NEAR(first(&o, 1), 15 / 4.);
	NEAR(first(&o, 2), 31 / 5.);
	o.args.causal = 0;
	NEAR(first(&o, 0), 31 / 5.);
	NEAR(first(&o, 2), 31 / 5.);
}

static void window_both_ends(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 3, 6, even, powers); /* positions 3, 4, 5 */
	o.args.window = 2;
	NEAR(first(&o, 0), (4 + 8) / 2.);
	NEAR(first(&o, 2), (16 + 32) / 2.);
	o.args.window = 1;
	NEAR(first(&o, 1), 16);
	o.args.window = 4; /* just all of the first, not all of the second */
	NEAR(first(&o, 0), 15 / 4.);
	NEAR(first(&o, 1), 30 / 4.);
	o.args.causal = 0; /* the window cuts only earlier keys */
	NEAR(first(&o, 1), (30 + 32) / 5.);
}

static void query_longer_than_sequence(void **state)
{
	struct one o;
	double out[HEAD] = { 9, 9 };
	(void)state;
	one_make(&o, 4, 2, even, powers); /* positions -2, -1, 0, 1 */
	reference_row(&o.args, &o.shape, 0, 0, 0, out);
	NEAR(out[0], 0);
	NEAR(out[1], 0);
	NEAR(first(&o, 1), 0);
	NEAR(first(&o, 2), 1);
	NEAR(first(&o, 3), 3 / 2.);
	o.args.sinks = (float[]){ 1 };
	NEAR(first(&o, 1), 0);
}

static void no_keys_at_all(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 1, 0, even, powers);
	NEAR(first(&o, 0), 0);
	o.args.causal = 0;
	NEAR(first(&o, 0), 0);
}

static void sink_takes_weight(void **state)
{
	struct one o;
	double out[HEAD];
	(void)state;
	one_make(&o, 1, 2, (double[]){ 1, 3 }, (double[]){ 8, 4 });
	o.args.sinks = (float[]){ logf(6) };
	reference_row(&o.args, &o.shape, 0, 0, 0, out);
	NEAR(out[0], 2);                 /* 20 / (4 + 6) */
	NEAR(out[1], -0.4f);             /* -4 / 10 */
	o.args.sinks = (float[]){ 300 }; /* far above all scores: no overflow */
	NEAR(first(&o, 0), 0);
}

static void softcap_flattens(void **state)
{
	struct one o;
	const double a = exp(1.5 * tanh(log(9) / 1.5));
	(void)state;
	one_make(&o, 1, 2, (double[]){ 1, 9 }, (double[]){ 0, 1 });
	NEAR(first(&o, 0), 0.9);
	o.args.softcap = 1.5; /* score 0 stays 0, ln 9 becomes 1.5 tanh(ln 9 / 1.5) */
	NEAR(first(&o, 0), a / (1 + a));
	NEAR(a, 3.8492411); /* ln 9 / 1.5 = 1.46482, its tanh 0.89859, e^(1.5 x that) */
}

static void alibi_slope(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 1, 3, even, (double[]){ 7, 14, 28 });
	o.args.alibi_slopes = (float[]){ logf(2) }; /* each step back halves */
	NEAR(first(&o, 0), (7 * 0.25 + 14 * 0.5 + 28) / 1.75);
	one_make(&o, 2, 3, even, (double[]){ 7, 14, 28 });
	o.args.alibi_slopes = (float[]){ logf(2) };
	o.args.causal = 0; /* from position 1: 1/2, 1, 2 */
	NEAR(first(&o, 0), (7 * 0.5 + 14 + 28 * 2) / 3.5);
}

/* Softcap acts on the scaled product, ALiBi comes after. */
static void softcap_before_alibi(void **state)
{
	struct one o;
	(void)state;
	one_make(&o, 1, 2, (double[]){ 1e6, 1e6 }, (double[]){ 0, 1 });
	o.args.softcap = 1e-3f;
	o.args.alibi_slopes = (float[]){ logf(3) };
	NEAR(first(&o, 0), 0.75);
}

static void plain_rows(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct one *o = source->more;
	const float *from = (is_v ? o->v : o->k) + (page * 2 + slot) * HEAD;
	(void)kv_head;
	row[0] = from[0];
	row[1] = from[1];
}

/* V of a page is its number, negative in the second page of the list. */
static void numbered(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		     double *row)
{
	const int *seen = source->more;
	(void)kv_head;
	assert_int_equal(slot, 0);
	row[0] = row[1] = is_v ? (page == seen[1] ? -page : page) : 0;
}

static void rows_from_elsewhere(void **state)
{
	const int pages[] = { 7, 3, 5 };
	struct one o;
	double out[HEAD], mass[HEAD];
	const struct kv_source source = {
		.fetch = numbered, .args = &o.args, .shape = &o.shape, .more = pages, .mass = mass
	};
	(void)state;
	one_make(&o, 1, 3, even, even);
	o.args.block_table = pages;
	o.args.page_size = 1;
	reference_row_from(&source, 0, 0, 0, out);
	NEAR(out[0], (7 - 3 + 5) / 3.);
	NEAR(mass[1], (7 + 3 + 5) / 3.);
}

/* Key 3 of sequence 1 and KV head 0: the scale of keys, 2, doubles the logarithm of its weight. */
static void with_scales(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
			double *row)
{
	(void)source, (void)slot, (void)kv_head;
	row[0] = is_v ? page + 1 : page == 3 ? log(2) : 0;
	row[1] = 0;
}

static void scales_and_lse(void **state)
{
	const int pages[] = { 0, 1, 2, 0, 1, 3 }, start[] = { 0, 1, 2 }, lens[] = { 3, 3 };
	const float scales[] = { 9, 9, 1, 9, 2, 0.5f };
	const struct attune_more more = { .k_scale = scales + 2,
					  .k_scale_seq_stride = 2,
					  .v_scale = scales + 3,
					  .v_scale_seq_stride = 2,
					  .v_scale_head_stride = 7 };
	struct one o;
	double out[HEAD], lse;
	const struct kv_source source = { .fetch = with_scales,
					  .args = &o.args,
					  .shape = &o.shape,
					  .scales = &more,
					  .lse = &lse };
	(void)state;
	one_make(&o, 1, 3, even, even);
	o.args.block_table = pages;
	o.args.block_table_stride = 3;
	o.args.page_size = 1;
	o.args.scale = 1;
	o.args.query_start = start;
	o.args.seq_lens = lens;
	o.args.q_token_stride = 0;
	reference_row_from(&source, 1, 0, 0, out);
	NEAR(out[0], (1 + 2 + 4 * 4) / 6. / 2);
	NEAR(lse, log(6));
	reference_row_from(&source, 0, 0, 0, out);
	NEAR(out[0], 9 * 2);
	NEAR(lse, log(3));
	o.args.sinks = (float[]){ logf(5) };
	reference_row_from(&source, 1, 0, 0, out);
	NEAR(lse, log(11));
	o.args.seq_lens = (int[]){ 3, 0 };
	reference_row_from(&source, 1, 0, 0, out);
	assert_true(lse == -INFINITY && out[0] == 0);
}

/* What roundings of q and weights change. A weight of w changes out by w v times its error; an element
 * q_i, by the score of a key, by w (v - out) scale k_i q_i times. The second element of q, 0, counts as
 * 2^-6, and so does a weight of 1 / 256 of the largest. */
static void squares_of_roundings(void **state)
{
	struct one o;
	double out[HEAD], squares[HEAD];
	const struct kv_source source = { .fetch = plain_rows,
					  .args = &o.args,
					  .shape = &o.shape,
					  .more = &o,
					  .squares = squares };
	(void)state;
	one_make(&o, 1, 2, (double[]){ 1, 3 }, (double[]){ 8, 4 });
	o.k[o.table[0] * 2 * HEAD + 1] = 64; /* 2^-6 x 64 = 1 */
	o.k[(o.table[0] * 2 + 1) * HEAD + 1] = 0;
	reference_row_from(&source, 0, 0, 0, out);
	NEAR(out[0], 5); /* w = 1/4, 3/4 */
	NEAR(squares[0], 4 + 9 + pow(2 * 1 / 4. * 3, 2) + pow(log(3) * 3 / 4. * -1, 2));
	NEAR(squares[1], (1 + 9) / 16.); /* all v are equal: no score matters */
	one_make(&o, 1, 2, (double[]){ 1, 256 }, (double[]){ 8, 4 });
	o.k[o.table[0] * 2 * HEAD + 1] = o.k[(o.table[0] * 2 + 1) * HEAD + 1] = 0;
	reference_row_from(&source, 0, 0, 0, out);
	NEAR(squares[0], pow(4 * 8 / 257., 2) + pow(256 * 4 / 257., 2) +
			     pow(log(256) * 256 / 257. * (4 - out[0]), 2));
	o.args.causal = 1;
	o.seq_len = 0; /* no key */
	reference_row_from(&source, 0, 0, 0, out);
	NEAR(squares[0], 0);
}

/* Six query heads over two KV heads: 0..2 read the first, 3..5 the second. */
static void group_mapping(void **state)
{
	static const double want[6] = { 10, 10, 10, 20, 20, 20 };
	float cache[2 * HEAD] = { 10, 0, 20, 0 }, q[6 * HEAD] = { 0 };
	struct one o;
	double out[HEAD];
	(void)state;
	one_make(&o, 1, 1, even, even);
	o.table[0] = 0;
	o.args.q = q;
	o.args.k_cache = o.args.v_cache = cache;
	o.args.k_head_stride = o.args.v_head_stride = HEAD;
	o.args.num_query_heads = 6;
	o.args.num_kv_heads = 2;
	o.args.group = 3;
	for (int head = 0; head < 6; head++) {
		reference_row(&o.args, &o.shape, 0, 0, head, out);
		NEAR(out[0], want[head]);
	}
}

/* Sequence 1 of a batch: its own row of the table and its own part of q, with
 * strides that leave gaps, heads before slots, and a page size that is no power
 * of two. K and V differ in all strides. */
static void strides_and_tables(void **state)
{
	enum { PAGE = 3, PAGES = 4, KV_HEADS = 2, GAP = 5 };
	float k[PAGES * KV_HEADS * PAGE * GAP], v[PAGES * PAGE * KV_HEADS * HEAD], q[4 * 2 * 7];
	const int table[2][3] = { { 9, 9, 9 }, { 2, 0, 9 } }, start[3] = { 0, 1, 3 },
		  lens[2] = { 1, 5 };
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .head_size = HEAD,
				     .page_size = PAGE };
	const struct attune_args a = { .q = q,
				       .k_cache = k,
				       .v_cache = v,
				       .block_table = table[0],
				       .query_start = start,
				       .seq_lens = lens,
				       .q_token_stride = 14,
				       .q_head_stride = 7,
				       .k_page_stride = KV_HEADS * PAGE * GAP,
				       .k_head_stride = PAGE * GAP,
				       .k_slot_stride = GAP,
				       .v_page_stride = PAGE * KV_HEADS * HEAD,
				       .v_slot_stride = KV_HEADS * HEAD,
				       .v_head_stride = HEAD,
				       .block_table_stride = 3,
				       .num_query_heads = 2,
				       .num_kv_heads = KV_HEADS,
				       .group = 1,
				       .page_size = PAGE,
				       .causal = 1,
				       .scale = 1 };
	double out[HEAD];
	(void)state;
	for (size_t i = 0; i < COUNT(k); i++)
		k[i] = NAN;
	for (size_t i = 0; i < COUNT(v); i++)
		v[i] = NAN;
	for (size_t i = 0; i < COUNT(q); i++)
		q[i] = NAN;
	/* query token 1 of sequence 1 (the last of all), head 1: sees keys 0..4 */
	q[2 * 14 + 7] = 1, q[2 * 14 + 7 + 1] = 0;
	for (int key = 0; key < 5; key++) {
		const int page = table[1][key / 3], slot = key % 3;
		float *kr = k + ((page * KV_HEADS + 1) * PAGE + slot) * GAP;
		float *vr = v + ((page * PAGE + slot) * KV_HEADS + 1) * HEAD;
		kr[0] = kr[1] = key == 3 ? logf(4) : 0; /* weights 1 1 1 4 1 */
		vr[0] = (float)(key + 1);
		vr[1] = 0;
	}
	reference_row(&a, &shape, 1, 1, 1, out);
	NEAR(out[0], (1 + 2 + 3 + 4 * 4 + 5) / 8.);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_key),
		cmocka_unit_test(two_keys),
		cmocka_unit_test(causal_edge),
		cmocka_unit_test(window_both_ends),
		cmocka_unit_test(query_longer_than_sequence),
		cmocka_unit_test(no_keys_at_all),
		cmocka_unit_test(sink_takes_weight),
		cmocka_unit_test(softcap_flattens),
		cmocka_unit_test(alibi_slope),
		cmocka_unit_test(softcap_before_alibi),
		cmocka_unit_test(rows_from_elsewhere),
		cmocka_unit_test(scales_and_lse),
		cmocka_unit_test(squares_of_roundings),
		cmocka_unit_test(group_mapping),
		cmocka_unit_test(strides_and_tables),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
