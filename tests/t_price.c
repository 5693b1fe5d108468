/* t_price.c - what choices cost by estimate, against the sum taken anew, and which of them is
 * taken for the cheapest. What the amounts are, some_by_hand alone knows. */
#include "../harness/harness.h"
#include "../kernels/heuristics.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 20000, MOST_ROUNDS = 20 * ROUNDS, MAX_SEQS = 40, LARGE = 1 << 18 };
#include "random_part.h"
__extension__ typedef __int128 wide;

static const struct device_info *const devices[] = { &gpu, &cpu };

/* Some terms cost nothing, as fitted ones do. any: the others all that they may. */
static struct price random_price(int any)
{
	struct price p = { 1 << below(8),     1 << below(8),      (int)below(5),
			   1 + (int)below(4), 64 * (int)below(9), { 0 } };
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		p.fs[i] = !below(3) ? 0
			  : any     ? price_limits[i] - (long long)below(9)
				    : (long long)below(LARGE) * (1 + below(1000));
	return p;
}

static wide sum_of(const struct price *p, const struct attune_features *f, int segments)
{
	long long amount[NUM_PRICE_TERMS];
	wide sum = 0;
	price_amounts(amount, p, f, segments);
	for (int i = 0; i < NUM_PRICE_TERMS; i++) {
		assert_true(amount[i] >= 0);
		sum += (wide)p->fs[i] * amount[i];
	}
	return sum;
}

static int random_segments(void)
{
	return 1 + (int)below(below(3) ? 64 : 1);
}

static void an_estimate_is_the_sum(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const struct device_info *d = devices[i % 2];
		const attune_shape s = random_shape();
		const struct price price = random_price(0);
		struct part p;
		if (!random_part(&p, &s, d))
			continue;
		const int segments = random_segments();
		const long long fs = price_estimate(&price, &p.f, segments);
		assert_true(fs >= 0);
		assert_true(fs == sum_of(&price, &p.f, segments));
	}
}

/* A dearer term never makes it cheaper, and a launch is paid for once. */
static void dearer_is_not_cheaper(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const attune_shape s = random_shape();
		const struct price price = random_price(0);
		struct part p;
		if (!random_part(&p, &s, &gpu))
			continue;
		const int segments = random_segments(), more = 1 + (int)below(LARGE);
		const long long fs = price_estimate(&price, &p.f, segments);
		for (int t = 0; t < NUM_PRICE_TERMS; t++) {
			struct price dear = price;
			dear.fs[t] += more;
			const long long above = price_estimate(&dear, &p.f, segments) - fs;
			assert_true(t == PRICE_launch ? above == more : above >= 0);
		}
	}
}

/* 4096 sequences of 2^20 tokens, or one of them, on 128 heads, of a GPU or of one thread, at
 * any price that may be read: sums fit. */
static void the_largest_do_not_overflow(void **state)
{
	enum { MOST = 4096, LONGEST = 1 << 20, BATCHES = 400 };
	(void)state;
	for (int i = 0; i < BATCHES; i++) {
		static int32_t start[MOST + 1], seq[MOST];
		const int heads = below(2) ? 128 : 1, n = below(4) ? MOST : 1;
		const int query = i % 3 ? 1 : n == 1 ? LONGEST : LONGEST / MOST;
		const attune_shape s = { .num_query_heads = 128,
					 .num_kv_heads = heads,
					 .head_size = 256,
					 .page_size = 16,
					 .dtype = ATTUNE_F32,
					 .kv_dtype = ATTUNE_F32,
					 .causal = 1 };
		const struct device_info few = { .backend = BACKEND_CPU, .units = 1, .lanes = 1 };
		struct part p;
		for (int k = 0; k < n; k++) {
			start[k + 1] = start[k] + query;
			seq[k] = LONGEST;
		}
		const attune_batch b = { n, start, seq };
		assert_true(part_make(&p, PHASE_ALL, &s, &b, below(2) ? &few : &gpu));
		struct price price = random_price(i % 2);
		if (!below(4))
			price.slots = MAX_PRICE_SLOTS;
		if (!below(4))
			price.tile = price.start = MAX_PRICE_KEYS;
		const int segments = below(2) ? 64 : 1;
		assert_true(price_estimate(&price, &p.f, segments) ==
			    sum_of(&price, &p.f, segments));
	}
}

/* Worked out by hand, for 132 SMs and 32 query heads that share 8 KV heads.
 *
 * One query of 4096 keys in 8 segments, 64 blocks of 512 keys at once: 512 + 128.
 * 100 of up to 8000 keys, 3000 on average (47 tiles: 3008): of 800 blocks in 264 slots a last
 * wave lacks 256; they are 4992 keys shorter than the longest: 256 x 3136^2 / (3136 + 4 x 4992)
 * = 108969; (3136 x 800 + 108969) / 264 + 4992 = 14907.
 * A prompt of 1000: 63 Q blocks of 16, so 504; 500 + 8 keys are 8 tiles, the longest 16:
 * 24 are lacking, 24 x 576^2 / (576 + 4 x 512) = 3034, and a quarter of 512 over 504 / 264
 * waves is 67: (576 x 504 + 3034) / 264 + 67 = 1178.
 * Three prompts of up to 200, 300 in all, window 512: (600 + 9) / 8 = 77 Q blocks of 4; 402 keys
 * are 13 tiles of 32, the longest, 516, 17: 44 are lacking in 132 slots, 44 x 416^2 / (416 + 4 x
 * 128) = 8205, tail 128 x 132 / (4 x 616) = 6: (416 x 616 + 8205) / 132 + 6 = 2009.
 * A prompt of 300 beside 20 decodes of 2000 keys: 265 keys a query over 320 tokens are 84800
 * pairs, less 20 x 2000 of the decodes 44800, 149 for each of 300 tokens and 8 for half a
 * block; 20 blocks of 16 tokens (at 4 heads each 64 rows; (600 + 15) / 32) beside the 20: a
 * mean of (20 x 157 + 20 x 2000) / 40 = 1078, of 64: 1088, all of 320 blocks in 132 slots; 76
 * lack: 76 x 1152^2 / (1152 + 4 x 960) = 20204, tail 960 x 132 / (4 x 320) = 99:
 * (1152 x 320 + 20204) / 132 + 99 = 3044.
 * Keys older than the queries: of the 400 that one of the three prompts sees (100 + 200) / 4 are
 * new, 325 old: 325 x 2009 / 400 = 1632; of the 265 beside decodes all but (15 + 300) / 4 = 78:
 * 187 x 3044 / 265 = 2148.
 * A prompt of 1000 after 1000, blocks of 64 tokens of one head: 16 x 32 = 512; 1500 + 32 keys are
 * 24 tiles, the longest 32: 16 are lacking, 16 x 1600^2 / (1600 + 4 x 512) = 11228, tail 512 x 264
 * / (4 x 512) = 66: (1600 x 512 + 11228) / 264 + 66 = 3211, of which 1000 / 1500 are old. */
static const struct {
	struct attune_features f;
	struct price price;
	int segments;
	long long amount[NUM_PRICE_TERMS];
} by_hand[] = {
#define SHAPE .num_query_heads = 32, .num_kv_heads = 8, .group = 4, .units = 132
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1, .mean_query = 1,
	    .query_tokens = 1, .max_seq = 4096, .keys_per_query = 4096, .kv_kib = 16384 },
	  { 16, 64, 0, 2, 128, { 0 } },
	  8,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 640,
	    [PRICE_total] = 248,
	    [PRICE_kib] = 16384,
	    [PRICE_rows] = 32,
	    [PRICE_split] = 1,
	    [PRICE_segments] = 8,
	    [PRICE_merge] = 256 } },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 100, .max_query = 1, .mean_query = 1,
	    .query_tokens = 100, .max_seq = 8000, .keys_per_query = 3000, .kv_kib = 1200000 },
	  { 16, 64, 0, 2, 128, { 0 } },
	  1,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 14907,
	    [PRICE_total] = 18181,
	    [PRICE_kib] = 1200000,
	    [PRICE_rows] = 3200 } },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1000, .mean_query = 1000,
	    .query_tokens = 1000, .prefill_tokens = 1000, .max_seq = 1000, .keys_per_query = 500,
	    .kv_kib = 4000 },
	  { 64, 64, 0, 2, 64, { 0 } },
	  1,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 1178,
	    [PRICE_total] = 1939,
	    [PRICE_kib] = 4000,
	    [PRICE_rows] = 32000 } },
	{ { SHAPE, .window = 512, .num_seqs = 3, .max_query = 200, .mean_query = 100,
	    .query_tokens = 300, .prefill_tokens = 300, .max_seq = 700, .keys_per_query = 400,
	    .kv_kib = 8000 },
	  { 16, 32, 0, 1, 0, { 0 } },
	  1,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 2009,
	    [PRICE_context] = 1632,
	    [PRICE_total] = 1876,
	    [PRICE_kib] = 8000,
	    [PRICE_rows] = 9600 } },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 21, .max_query = 300, .mean_query = 15,
	    .query_tokens = 320, .prefill_tokens = 300, .decode_seqs = 20, .decode_kv = 40000,
	    .max_seq = 2000, .keys_per_query = 265, .kv_kib = 9000 },
	  { 64, 64, 0, 1, 64, { 0 } },
	  1,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 3044,
	    [PRICE_context] = 2148,
	    [PRICE_total] = 2613,
	    [PRICE_kib] = 9000,
	    [PRICE_rows] = 10240 } },
	{ { SHAPE, .window = 1 << 30, .num_seqs = 1, .max_query = 1000, .mean_query = 1000,
	    .query_tokens = 1000, .prefill_tokens = 1000, .max_seq = 2000, .keys_per_query = 1500,
	    .kv_kib = 8000 },
	  { 64, 64, 1, 2, 64, { 0 } },
	  1,
	  { [PRICE_launch] = 1,
	    [PRICE_path] = 3211,
	    [PRICE_context] = 2140,
	    [PRICE_total] = 5942,
	    [PRICE_kib] = 8000,
	    [PRICE_rows] = 32000 } },
#undef SHAPE
};

static void some_by_hand(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(by_hand); i++) {
		long long amount[NUM_PRICE_TERMS];
		price_amounts(amount, &by_hand[i].price, &by_hand[i].f, by_hand[i].segments);
		for (int t = 0; t < NUM_PRICE_TERMS; t++)
			if (amount[t] != by_hand[i].amount[t])
				fail_msg("%zu, %s: %lld", i, price_names[t], amount[t]);
	}
}

/* ---- the cheapest value ------------------------------------------------------------------ */
static struct config random_config(const struct space *s)
{
	struct config c;
	for (int i = 0; i < s->num_axes; i++)
		c.v[i] = s->axis[i].values[below((unsigned)s->axis[i].num_values)];
	for (int i = s->num_axes; i < MAX_AXES; i++)
		c.v[i] = 0;
	return c;
}

/* From the largest value down, so that of equals the smallest stays; -1: none is legal. */
static long long least_of(const struct kernel *k, struct config c, const struct price *price,
			  const attune_shape *s, const struct part *p, const struct device_info *d,
			  struct config *out)
{
	const int axis = k->space->formula_axis;
	long long least = -1;
	for (int i = axis < 0 ? 0 : k->space->axis[axis].num_values - 1; i >= 0; i--) {
		const int v = axis < 0 ? 1 : k->space->axis[axis].values[i];
		if (axis >= 0)
			c.v[axis] = v;
		const long long fs = price_estimate(price, &p->f, v);
		if (k->space->why_illegal(&c, s, p, d) || (least >= 0 && fs > least))
			continue;
		least = fs;
		*out = c;
	}
	return least;
}

/* Asked after others, whose load may be the same. */
static void below_a_bound(const struct kernel *k, const struct config *c, const struct price *price,
			  const attune_shape *s, const struct part *p, const struct device_info *d,
			  long long least, const struct config *want)
{
	struct price_asked asked = { .shape = s, .part = p, .device = d };
	struct price other = *price;
	struct config got;
	other.slots++;
	other.rows += (int)(p->f.num_seqs % 2);
	config_cheaper(&got, c, k, &other, &asked, LLONG_MAX);
	assert_true(config_cheaper(&got, c, k, price, &asked, least) == -1);
	assert_true(config_cheaper(&got, c, k, price, &asked, least + 1) == least);
	assert_memory_equal(&got, want, sizeof got);
}

static void one_choice(const struct kernel *k, const struct device_info *d, unsigned *seen,
		       int *none)
{
	attune_shape s = random_shape();
	const int axis = k->space->formula_axis;
	struct config c = random_config(k->space), want = c, got;
	struct price price = random_price(0);
	struct part p;
	if (!random_part(&p, &s, d))
		return;
	if (!below(20))
		s.head_size = 20; /* which no kernel takes */
	for (int i = 0; !below(4) && i < NUM_PRICE_TERMS; i++)
		price.fs[i] = i == PRICE_launch;             /* all are equal */
	if (axis >= 0 && k->space->num_formulas && below(2)) /* which then means nothing */
		c.v[axis] = -1 - (int)below((unsigned)k->space->num_formulas);
	const long long least = least_of(k, c, &price, &s, &p, d, &want);
	assert_true(config_cheapest(&got, &c, k, &price, &s, &p, d) == least);
	*none += least < 0;
	if (least < 0)
		return;
	assert_memory_equal(&got, &want, sizeof got);
	below_a_bound(k, &c, &price, &s, &p, d, least, &want);
	for (int i = 0; axis >= 0 && i < k->space->axis[axis].num_values; i++)
		if (k->space->axis[axis].values[i] == got.v[axis])
			*seen |= 1u << i;
}

/* Where one value is too dear the next are not asked. */
static void values_rise(const struct axis *a)
{
	for (int i = 1; i < a->num_values; i++)
		assert_true(a->values[i] > a->values[i - 1]);
}

static void the_cheapest_value_is_the_least(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const struct space *s = k->space;
		const struct axis *a = s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
		const unsigned all = a ? (1u << a->num_values) - 1 : 0;
		unsigned seen = 0;
		int none = 0;
		if (!k->selectable)
			continue;
		for (int i = 0; i < ROUNDS || (seen != all && i < MOST_ROUNDS); i++)
			one_choice(k, k->backend == BACKEND_GPU ? &gpu : &cpu, &seen, &none);
		assert_true(none > 0);
		assert_int_equal(seen, all);
		if (a)
			values_rise(a);
	}
}

/* ---- which price -------------------------------------------------------------------------- */
/* Of one decision all are of one head size, since prices of two do not compare. */
static void a_price_for_every_head_size(void **state)
{
	static const struct selector_price list[] = {
		{ .decision = DECIDE_DECODE, .id = 3, .head_size = 128, .price = { .rows = 1 } },
		{ .decision = DECIDE_DECODE, .id = 3, .head_size = 64, .price = { .rows = 2 } },
		{ .decision = DECIDE_PREFILL, .id = 3, .head_size = 96, .price = { .rows = 3 } },
		{ .decision = DECIDE_DECODE, .id = 2, .head_size = 64, .price = { .rows = 4 } },
		{ .decision = DECIDE_DECODE, .id = 3, .head_size = 256, .price = { .rows = 5 } },
		{ .decision = DECIDE_DECODE, .id = 0, .head_size = 80, .price = { .rows = 6 } },
	};
	static const struct {
		enum decision decision;
		int id, head_size, rows; /* rows: of the price, 0: none */
	} rows[] = {
		{ DECIDE_DECODE, 3, 128, 1 },  { DECIDE_DECODE, 3, 64, 2 },
		{ DECIDE_DECODE, 3, 256, 5 },  { DECIDE_DECODE, 3, 32, 2 },
		{ DECIDE_DECODE, 3, 65, 0 },   { DECIDE_DECODE, 0, 65, 6 },
		{ DECIDE_DECODE, 0, 128, 0 },  { DECIDE_DECODE, 3, 96, 1 },
		{ DECIDE_DECODE, 3, 192, 5 },  { DECIDE_DECODE, 3, 512, 5 },
		{ DECIDE_DECODE, 2, 512, 0 },  { DECIDE_DECODE, 2, 16, 4 },
		{ DECIDE_PREFILL, 3, 128, 3 }, { DECIDE_PREFILL, 3, 8, 3 },
		{ DECIDE_PREFILL, 2, 96, 0 },  { DECIDE_DECODE, 1, 64, 0 },
	};
	struct selector_price turned[COUNT(list)];
	(void)state;
	for (size_t i = 0; i < COUNT(list); i++)
		turned[i] = list[COUNT(list) - 1 - i];
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int turn = 0; turn < 2; turn++) {
			const struct price *p =
			    price_for(turn ? turned : list, COUNT(list), rows[i].decision,
				      rows[i].id, rows[i].head_size);
			assert_int_equal(p ? p->rows : 0, rows[i].rows);
		}
	assert_null(price_for(list, 0, DECIDE_DECODE, 3, 128));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_estimate_is_the_sum),
		cmocka_unit_test(dearer_is_not_cheaper),
		cmocka_unit_test(the_largest_do_not_overflow),
		cmocka_unit_test(some_by_hand),
		cmocka_unit_test(the_cheapest_value_is_the_least),
		cmocka_unit_test(a_price_for_every_head_size),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("price", tests, NULL, NULL);
}
