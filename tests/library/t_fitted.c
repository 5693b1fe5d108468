/* SPDX-License-Identifier: Apache-2.0 */
/* t_fitted.c - choices of SEGMENTS=fitted: config_fitted against all values tried, the number of
 * blocks in its costs against launches, the costs of each head size, and such choices as text. */
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/random_part.h"

enum { ROUNDS = 20000, MOST_ROUNDS = 20 * ROUNDS, LARGE = 1 << 18 };

static const struct device_info *device_of(const struct kernel *k)
{
	return k->backend == BACKEND_GPU ? &gpu : &cpu;
}

static struct config random_config(const struct space *s)
{
	struct config c = { { 0 } };
	for (int i = 0; i < s->num_axes; i++)
		c.v[i] = s->axis[i].values[below((unsigned)s->axis[i].num_values)];
	return c;
}

/* Some costs are 0, as fitted ones are. One in four is 0 in all: then all values cost the same. */
static struct segment_costs random_costs(void)
{
	const int all_equal = !below(4);
	long long fs[4];
	for (size_t i = 0; i < COUNT(fs); i++)
		fs[i] = all_equal || !below(3) ? 0 : (long long)below(LARGE) * (1 + below(1000));
	return (struct segment_costs){ .slots = 1 + (int)below(4),
				       .start = 64 * (int)below(9),
				       .path = fs[0],
				       .split = fs[1],
				       .segments = fs[2],
				       .merge = fs[3] };
}

/* ---- the value -------------------------------------------------------------------------- */

/* From the largest value down, so the smallest of equals wins. 0: none is legal. */
static int least_value(const struct kernel *k, struct config c, const struct segment_costs *costs,
		       const attune_shape *s, const struct part *p)
{
	const int axis = k->space->formula_axis;
	const struct axis *a = &k->space->axis[axis];
	struct block_shape b;
	long long least = 0;
	int best = 0;
	block_shape_of(&b, &c, k);
	for (int i = a->num_values - 1; i >= 0; i--) {
		c.v[axis] = a->values[i];
		const long long fs = segments_cost(costs, &b, &p->f, a->values[i]);
		if (k->space->why_illegal(&c, s, p, device_of(k)) || (best && fs > least))
			continue;
		least = fs;
		best = a->values[i];
	}
	return best;
}

struct seen {
	unsigned values; /* of the axis, a bit each */
	int none;        /* parts that no value is legal for */
};

static void one_choice(const struct kernel *k, struct seen *seen)
{
	const struct device_info *d = device_of(k);
	const struct axis *a = &k->space->axis[k->space->formula_axis];
	attune_shape s = random_shape();
	const struct segment_costs costs = random_costs();
	struct config c = random_config(k->space), got;
	struct part p;
	if (!random_part(&p, &s, d))
		return;
	if (!below(20))
		s.head_size = 20; /* which no kernel takes */
	c.v[k->space->formula_axis] = SEGMENTS_FITTED;
	const int want = least_value(k, c, &costs, &s, &p);
	const char *why = config_fitted(&got, &c, k, &costs, &s, &p, d);
	assert_int_equal(!why, want > 0);
	seen->none += !want;
	if (why)
		return;
	assert_null(k->space->why_illegal(&got, &s, &p, d));
	assert_int_equal(got.v[k->space->formula_axis], want);
	got.v[k->space->formula_axis] = SEGMENTS_FITTED;
	assert_memory_equal(&got, &c, sizeof got);
	for (int i = 0; i < a->num_values; i++)
		seen->values |= (unsigned)(a->values[i] == want) << i;
}

static void the_value_is_the_least_of_all_legal_ones(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		if (k->space->formula_axis < 0 || !k->selectable)
			continue;
		const int n = k->space->axis[k->space->formula_axis].num_values;
		const unsigned all = (1u << n) - 1;
		struct seen seen = { 0 };
		for (int i = 0; i < ROUNDS || (seen.values != all && i < MOST_ROUNDS); i++)
			one_choice(k, &seen);
		assert_true(seen.none > 0);
		assert_int_equal(seen.values, all);
	}
}

/* By hand: 8 blocks for 132 SMs, 4096 keys in 64 tiles, of 1000 fs a key; 128 keys more for each block,
 * 200000 fs for a reduction, 10000 for each segment. One segment: 4224000. 16 fill 128 SMs: (256 + 128)
 * 1000 + 200000 + 160000 = 744000; 12, of 6 tiles: (384 + 128) 1000 + 320000 = 832000; of 24, 192 blocks,
 * 3 tiles the longest and 171 keys the mean: 72 of the second wave are lacking, 72 x 299^2 / (299 + 4 x
 * 21) = 16806; (299 x 192 + 16806) / 132 + 21 = 583, so 583000 + 440000. A dearer segment: 8, of 8 tiles,
 * (512 + 128) 1000 + 200000 + 8 x 40000 = 1160000, are less than 6 of 11, 1272000, and 12, 1192000. */
static void two_by_hand(void **state)
{
	static const struct {
		struct segment_costs costs;
		int segments;
	} rows[] = { { { 1, 128, 1000, 200000, 10000, 0 }, 16 },
		     { { 1, 128, 1000, 200000, 40000, 0 }, 8 } };
	const struct kernel *k = kernel_find(BACKEND_GPU, "segmented");
	const attune_shape s = { .size = sizeof(attune_shape),
				 .num_query_heads = 32,
				 .num_kv_heads = 8,
				 .head_size = 128,
				 .page_size = 16,
				 .dtype = ATTUNE_BF16,
				 .kv_dtype = ATTUNE_BF16,
				 .causal = 1 };
	const int32_t start[] = { 0, 1 }, seq[] = { 4096 };
	const attune_batch b = { sizeof(attune_batch), 1, start, seq };
	const char *where;
	struct config c, out;
	struct part p;
	(void)state;
	assert_true(part_make(&p, PHASE_DECODE, &s, &b, &gpu));
	assert_true(config_parse(&c, k->space,
				 "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=fitted",
				 &where));
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_null(config_fitted(&out, &c, k, &rows[i].costs, &s, &p, &gpu));
		assert_int_equal(config_value(&out, k->space, "SEGMENTS", 0), rows[i].segments);
	}
}

/* Numbers, formulas and kernels without segments: costs change nothing. */
static void other_choices_are_resolved_as_before(void **state)
{
	int legal = 0, illegal = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (int i = 0; k->selectable && i < ROUNDS / 20; i++) {
			const attune_shape s = random_shape();
			const struct segment_costs costs = random_costs();
			struct config c = random_config(k->space), want, got, without;
			struct part p;
			if (!random_part(&p, &s, device_of(k)))
				continue;
			if (k->space->num_formulas && below(2))
				c.v[k->space->formula_axis] =
				    -1 - (int)below((unsigned)k->space->num_formulas);
			const char *why = config_resolve(&want, &c, k, &s, &p, device_of(k));
			assert_false(config_is_fitted(&c, k->space));
			assert_ptr_equal(config_fitted(&got, &c, k, &costs, &s, &p, device_of(k)),
					 why);
			assert_ptr_equal(config_fitted(&without, &c, k, NULL, &s, &p, device_of(k)),
					 why);
			assert_memory_equal(&got, &want, sizeof got);
			assert_memory_equal(&without, &want, sizeof without);
			legal += !why;
			illegal += why != NULL;
		}
	assert_true(legal > 0 && illegal > 0);
}

/* Such a choice has no number of segments for a batch. Whether it may be loaded at all is
 * decided without one. */
static void without_costs_it_is_illegal(void **state)
{
	int seen = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (int i = 0; k->space->formula_axis >= 0 && i < ROUNDS / 20; i++) {
			const struct device_info *d = device_of(k);
			const attune_shape s = random_shape();
			struct config c = random_config(k->space), one = c, out;
			struct part p;
			c.v[k->space->formula_axis] = SEGMENTS_FITTED;
			one.v[k->space->formula_axis] = 1;
			if (!random_part(&p, &s, d))
				continue;
			assert_true(config_is_fitted(&c, k->space));
			assert_false(config_is_formula(&c, k->space));
			assert_non_null(k->space->why_illegal(&c, &s, &p, d));
			assert_non_null(strstr(config_resolve(&out, &c, k, &s, &p, d), "no costs"));
			assert_non_null(
			    strstr(config_fitted(&out, &c, k, NULL, &s, &p, d), "no costs"));
			assert_ptr_equal(k->space->why_illegal(&c, &s, NULL, d),
					 k->space->why_illegal(&one, &s, NULL, d));
			seen++;
		}
	assert_true(seen > 0);
}

/* ---- the blocks that costs are of ---------------------------------------------------------- */

static void blocks_have_the_shape_that_tunables_say(void **state)
{
	static const struct {
		enum backend backend;
		const char *text;
		struct block_shape block;
	} rows[] = {
		{ BACKEND_GPU,
		  "segmented BLOCK_M=32 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=fitted",
		  { 32, 64, 0, 0 } },
		{ BACKEND_GPU,
		  "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=4",
		  { 8, 16, 0, 1 } },
		{ BACKEND_GPU,
		  "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=2 SEGMENTS=4",
		  { 8, 16, 0, 0 } },
		{ BACKEND_GPU,
		  "warpgroup BLOCK_M=128 PACKED=1 TILE_SIZE=80 NUM_STAGES=2 BLOCKS_PER_SM=1 "
		  "TURNS=1 PERSISTENT=1 HEADS=0 SEGMENTS=fitted",
		  { 128, 80, 0, 0 } },
		{ BACKEND_GPU,
		  "warpgroup BLOCK_M=64 TILE_SIZE=96 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=0 "
		  "PERSISTENT=1 HEADS=0",
		  { 64, 96, 1, 0 } },
		{ BACKEND_GPU,
		  "prefix_prefill BLOCK_M=64 BLOCK_N=32 NUM_WARPS=4 UNROLL_CONTEXT=1",
		  { 64, 32, 1, 0 } },
		{ BACKEND_GPU, "naive NUM_WARPS=4", { 1, 1, 0, 0 } },
		{ BACKEND_CPU,
		  "segmented TILE_SIZE=32 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=fitted",
		  { 64, 32, 0, 0 } },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct block_shape b;
		struct choice c;
		char error[600];
		if (!choice_parse(&c, rows[i].backend, rows[i].text, error, sizeof error))
			fail_msg("%s", error);
		block_shape_of(&b, &c.config, c.kernel);
		assert_memory_equal(&b, &rows[i].block, sizeof b);
	}
}

/* Tiles of consecutive sequences whose tokens fit one Q block, each with all heads of a KV head,
 * or on a GPU with some of them. 0: another kind of part, or it cannot run. */
static int counts_its_blocks(const struct kernel *k)
{
	const struct device_info *d = device_of(k);
	const attune_shape s = random_shape();
	const struct config c = random_config(k->space);
	const int group = s.num_query_heads / s.num_kv_heads;
	struct segment_load l;
	struct block_shape b;
	struct geometry g;
	struct part p;
	if (!random_part(&p, &s, d) || k->space->why_illegal(&c, &s, &p, d))
		return 0;
	block_shape_of(&b, &c, k);
	const int fits =
	    p.max_query * group <= b.rows || (p.max_query == 1 && k->backend == BACKEND_GPU);
	if (p.seq_count != p.f.num_seqs || p.max_query > DECODE_MAX_QUERY || !fits)
		return 0;
	segment_load_of(&l, &b, &p.f);
	k->space->geometry(&c, &s, &p, d, &g);
	const int heads = config_value(&c, k->space, "WHOLE_PAGES", 0) ? s.num_kv_heads : 1;
	assert_true(geometry_items(&g) * heads ==
		    l.blocks * config_value(&c, k->space, "SEGMENTS", 0));
	return 1;
}

/* Where a cell reads all KV heads of its keys, it is as many blocks. warpgroup takes no decodes. */
static void loads_count_the_blocks_of_launches(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		int seen = 0;
		if (k->space->formula_axis < 0 || !strcmp(k->name, "warpgroup"))
			continue;
		for (int i = 0; i < ROUNDS / 2; i++)
			seen += counts_its_blocks(k);
		assert_true(seen > 10);
	}
}

/* ---- which costs ----------------------------------------------------------------------------- */

/* `slots` distinguishes them. */
static void costs_for_every_head_size(void **state)
{
	static const struct selector_costs list[] = {
		{ .id = 3, .head_size = 128, .costs = { .slots = 1 } },
		{ .id = 3, .head_size = 64, .costs = { .slots = 2 } },
		{ .id = 2, .head_size = 64, .costs = { .slots = 4 } },
		{ .id = 3, .head_size = 256, .costs = { .slots = 5 } },
		{ .id = 0, .head_size = 80, .costs = { .slots = 6 } },
	};
	static const struct {
		int id, head_size, slots; /* slots: of the costs, 0: none */
	} rows[] = {
		{ 3, 128, 1 }, { 3, 64, 2 }, { 3, 256, 5 }, { 3, 32, 2 },  { 3, 65, 1 },
		{ 0, 65, 6 },  { 0, 80, 6 }, { 0, 128, 6 }, { 3, 96, 1 },  { 3, 192, 5 },
		{ 3, 512, 5 }, { 2, 64, 4 }, { 2, 512, 4 }, { 2, 16, 4 },  { 1, 64, 0 },
		{ 3, 8, 2 },   { 3, 81, 1 }, { 3, 129, 5 }, { 3, 257, 5 }, { -1, 64, 0 },
	};
	struct selector_costs turned[COUNT(list)];
	(void)state;
	for (size_t i = 0; i < COUNT(list); i++)
		turned[i] = list[COUNT(list) - 1 - i];
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int turn = 0; turn < 2; turn++) {
			const struct segment_costs *c = costs_for(turn ? turned : list, COUNT(list),
								  rows[i].id, rows[i].head_size);
			assert_int_equal(c ? c->slots : 0, rows[i].slots);
		}
	assert_null(costs_for(list, 0, 3, 128));
}

/* ---- as text ----------------------------------------------------------------------------------- */

static void it_survives_as_text(void **state)
{
	int seen = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		struct choice c = { .kernel = k, .config = random_config(k->space) }, back;
		char text[MAX_CHOICE_TEXT], error[600];
		if (k->space->formula_axis < 0)
			continue;
		c.config.v[k->space->formula_axis] = SEGMENTS_FITTED;
		choice_text(text, sizeof text, &c);
		assert_non_null(strstr(text, " SEGMENTS=fitted"));
		if (!choice_parse(&back, k->backend, text, error, sizeof error))
			fail_msg("%s: %s", text, error);
		assert_memory_equal(&back.config, &c.config, sizeof c.config);
		assert_true(config_is_fitted(&back.config, k->space));
		seen++;
	}
	assert_true(seen >= 4);
}

/* 0 stands for it in a config; a text must not contain it. */
static void other_words_are_refused(void **state)
{
	static const char *const wrong[] = { "SEGMENTS=0",        "SEGMENTS=Fitted",
					     "SEGMENTS=fit",      "SEGMENTS=fitted1",
					     "SEGMENTS=fitted()", "SEGMENTS=fitted(1,96,192,16)",
					     "SEGMENTS=fitted,8", "SEGMENTS=-0" };
	static const char rest[] = "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3";
	const struct space *s = kernel_find(BACKEND_GPU, "segmented")->space;
	const struct space *uncut = kernel_find(BACKEND_GPU, "qblock")->space;
	char text[300];
	const char *where;
	struct config c;
	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		snprintf(text, sizeof text, "%s %s", rest, wrong[i]);
		if (config_parse(&c, s, text, &where))
			fail_msg("taken: %s", text);
		assert_ptr_equal(where, text + strlen(rest) + 1);
	}
	snprintf(text, sizeof text, "%s SEGMENTS=fitted", rest);
	assert_true(config_parse(&c, s, text, &where));
	assert_false(config_parse(&c, uncut, text, &where)); /* which has no segments */
	snprintf(text, sizeof text,
		 "BLOCK_M=fitted TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=8");
	assert_false(config_parse(&c, s, text, &where)); /* not that axis's */
	assert_ptr_equal(where, text);
}

/* A sweep goes through numbers alone. */
static void no_point_of_a_space_is_fitted(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		struct config c;
		config_default(&c, k->space);
		assert_false(config_is_fitted(&c, k->space));
		config_first(&c, k->space, 32);
		do
			assert_false(config_is_fitted(&c, k->space));
		while (config_next(&c, k->space, 32));
	}
}

/* config_fitted() stops where all that follows is too dear. */
static void more_segments_come_later(void **state)
{
	int axes = 0;
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const int at = k->space->formula_axis;
		const struct axis *a = at < 0 ? NULL : &k->space->axis[at];
		axes += a != NULL;
		for (int i = 1; a && i < a->num_values; i++)
			assert_true(a->values[i] > a->values[i - 1]);
	}
	assert_true(axes > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_segments_come_later),
		cmocka_unit_test(the_value_is_the_least_of_all_legal_ones),
		cmocka_unit_test(two_by_hand),
		cmocka_unit_test(other_choices_are_resolved_as_before),
		cmocka_unit_test(without_costs_it_is_illegal),
		cmocka_unit_test(blocks_have_the_shape_that_tunables_say),
		cmocka_unit_test(loads_count_the_blocks_of_launches),
		cmocka_unit_test(costs_for_every_head_size),
		cmocka_unit_test(it_survives_as_text),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(no_point_of_a_space_is_fitted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fitted", tests, NULL, NULL);
}
