/* SPDX-License-Identifier: Apache-2.0 */
/* t_formula.c - choices whose number of segments is computed for each batch: against a separate
 * evaluation of the estimate, and as text. */
#include "kernels/attune.h"
#include "kernels/attune_features.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/random_part.h"

enum { ROUNDS = 12000 };

/* Its blocks know their sequence from the grid, and each warp has tiles of its own. */
static int is_ring(const struct kernel *k)
{
	return !strcmp(k->name, "ring");
}

/* Takes no decodes. */
static int is_for_prefill(const struct kernel *k)
{
	return !strcmp(k->name, "warpgroup");
}

/* The number of blocks at one segment, from the sources' own account of it. */
static long long base_blocks(const struct kernel *k, const struct config *c, const attune_shape *s,
			     const struct part *p)
{
	const int group = s->num_query_heads / s->num_kv_heads;
	const int rows = config_value(c, k->space, "BLOCK_M", 64);
	const int heads = config_value(c, k->space, "WHOLE_PAGES", 0) ? 1 : s->num_kv_heads;
	if (!config_value(c, k->space, "PACKED", 1))
		return part_q_blocks(p, rows) * s->num_query_heads;
	const int chunks = k->backend == BACKEND_GPU ? (group + rows - 1) / rows : 1;
	const int block_q = group < rows ? rows / group : 1;
	const long long q_blocks =
	    is_ring(k) ? p->seq_count * parts_of(p->max_query, block_q) : part_q_blocks(p, block_q);
	return q_blocks * heads * chunks;
}

static long long model(const struct formula *f, long long blocks, long long units, int slots,
		       const struct attune_features *x, long long v)
{
	long long mean = x->keys_per_query, waves = 0;
	if (mean > x->mean_seq)
		mean = x->mean_seq;
	while (waves * units * slots < blocks * v)
		waves++;
	return waves * (mean / v + f->start) + (x->max_seq - mean) / v + f->merge * v +
	       (v == 1 ? 0 : f->launch);
}

/* A random choice of the kernel with formula n; most options keep their defaults, since some
 * belong to another vendor. */
static struct config random_choice(const struct space *s, int n)
{
	struct config c;
	config_first(&c, s, 32);
	for (int i = 0; i < s->num_axes; i++)
		if (!s->axis[i].is_option || !below(8))
			c.v[i] = s->axis[i].values[below((unsigned)s->axis[i].num_values)];
	c.v[s->formula_axis] = -1 - n;
	return c;
}

/* Each block of a multiprocessor takes its ring of tiles and 1 KiB. */
static int by_shared_memory(const struct kernel *k, const struct config *c, const attune_shape *s,
			    const struct device_info *d)
{
	const int row = (s->head_size + 63) / 64 * 64 * 2,
		  rows = config_value(c, k->space, "BLOCK_M", 0);
	const int warps = config_value(c, k->space, "NUM_WARPS", 0);
	const int along_rows = rows < 16 ? 1 : rows / 16 < warps ? rows / 16 : warps;
	const int along_keys = warps / along_rows;
	const int tiles = 2 * config_value(c, k->space, "NUM_STAGES", 0) *
			  config_value(c, k->space, "TILE_SIZE", 0);
	const int ring = (rows + tiles) * row;
	const int merge = along_keys > 1 ? along_keys * rows * (s->head_size + 4) * 4 : 0;
	const int found = rows * (s->head_size + 4) * 4, of_warp = tiles * row;
	const int of_ring = (rows * s->head_size > 2048 ? rows * row : 0) +
			    warps * (of_warp > found ? of_warp : found);
	const int all = is_ring(k) ? of_ring : ring > merge ? ring : merge;
	return d->smem_per_unit > all + 1024 ? d->smem_per_unit / (all + 1024) : 1;
}

/* Tries all values from the largest down; 0: none is legal. */
static int best_value(const struct kernel *k, const struct config *c, const attune_shape *s,
		      const struct part *p, const struct device_info *d)
{
	const struct space *space = k->space;
	const struct axis *a = &space->axis[space->formula_axis];
	const struct formula *f = &space->formulas[-1 - c->v[space->formula_axis]];
	const long long blocks = base_blocks(k, c, s, p);
	const int given = config_value(c, space, "BLOCKS_PER_SM", 0); /* then it is that */
	const int held = f->slots ? f->slots : by_shared_memory(k, c, s, d);
	const int slots = given ? given : held;
	const int spared = is_for_prefill(k) ? config_value(c, space, "SPARE_UNITS", 0) : 0;
	long long least = 0;
	int best = 0;
	for (int i = a->num_values - 1; i >= 0; i--) {
		struct config at = *c;
		at.v[space->formula_axis] = a->values[i];
		const long long cost =
		    model(f, blocks, d->units - spared, slots, &p->f, a->values[i]);
		if (space->why_illegal(&at, s, p, d) || (best && cost > least))
			continue;
		least = cost;
		best = a->values[i];
	}
	return best;
}

/* That is for few blocks, however they are cut. */
static int is_reduced_wide(const struct config *c, const struct space *s)
{
	return s->reduces_wide && config_value(c, s, "COMBINE", 0) == 2;
}

static void one_round(const struct kernel *k, const struct device_info *d, unsigned *seen)
{
	const attune_shape s = random_shape();
	const struct space *space = k->space;
	struct config c = random_choice(space, (int)below((unsigned)space->num_formulas)), out;
	struct part p;
	if (!random_part(&p, &s, d) || space->why_illegal(&c, &s, NULL, d))
		return;
	assert_true(config_is_formula(&c, space));
	assert_non_null(space->why_illegal(&c, &s, &p, d));
	const char *why = config_resolve(&out, &c, k, &s, &p, d);
	if (why && (is_ring(k) ? p.max_query > DECODE_MAX_QUERY || is_reduced_wide(&c, space)
			       : is_for_prefill(k) && p.max_query <= DECODE_MAX_QUERY))
		return;
	if (why)
		fail_msg("%s", why); /* one segment is always legal */
	assert_null(space->why_illegal(&out, &s, &p, d));
	const int got = out.v[space->formula_axis];
	assert_int_equal(got, best_value(k, &c, &s, &p, d));
	out.v[space->formula_axis] = c.v[space->formula_axis];
	assert_memory_equal(&out, &c, sizeof c);
	for (int i = 0; i < space->axis[space->formula_axis].num_values; i++)
		if (space->axis[space->formula_axis].values[i] == got)
			*seen |= 1u << i;
}

static void values_are_the_least_of_the_estimate(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const struct space *space = k->space;
		unsigned seen = 0, all = 0;
		if (space->formula_axis < 0)
			continue;
		for (int i = 0; i < ROUNDS; i++)
			one_round(k, k->backend == BACKEND_GPU ? &gpu : &cpu, &seen);
		/* each value that the axis lists; but the random batches are too short for more,
		 * and in few of them there are prefills alone */
		for (int i = 0; i < space->axis[space->formula_axis].num_values; i++)
			if (space->axis[space->formula_axis].values[i] <=
			    (is_for_prefill(k) ? 48 : 96))
				all |= 1u << i;
		assert_int_equal(seen & all, all);
	}
}

/* By hand: 8 blocks for 132 SMs, 4096 keys. One segment: 1 (4096 + 96) + 16; 16 of
 * them fill 128 SMs: 1 (256 + 96) + 192 + 256 = 800; 12: (341 + 96) + 192 + 192 =
 * 821; 24 take two waves: 2 (170 + 96) + 192 + 384 = 1108.
 *
 * With slots 0: 100 KiB of Q and three stages, so 2 blocks on each of 132 SMs, 264 in
 * all. 32: 1 (128 + 256) + 384 = 768 in one wave; 24: 170 + 256 + 384 = 810; 48 take
 * two: 2 (85 + 256) + 384 = 1066. */
static void two_by_hand(void **state)
{
	static const struct {
		const char *formula;
		int segments;
	} rows[] = { { "balance(1,96,192,16)", 16 }, { "balance(0,256,384,0)", 32 } };
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
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[MAX_CHOICE_TEXT];
		snprintf(text, sizeof text,
			 "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=%s",
			 rows[i].formula);
		assert_true(config_parse(&c, k->space, text, &where));
		assert_null(config_resolve(&out, &c, k, &s, &p, &gpu));
		assert_int_equal(config_value(&out, k->space, "SEGMENTS", 0), rows[i].segments);
	}
}

static void numbers_stay_what_they_are(void **state)
{
	const struct kernel *k = kernel_find(BACKEND_GPU, "segmented");
	const attune_shape s = random_shape();
	struct config c, out;
	struct part p;
	(void)state;
	while (!random_part(&p, &s, &gpu))
		;
	config_first(&c, k->space, 32);
	do {
		const char *why = k->space->why_illegal(&c, &s, &p, &gpu);
		assert_false(config_is_formula(&c, k->space));
		assert_ptr_equal(config_resolve(&out, &c, k, &s, &p, &gpu), why);
		if (!why)
			assert_memory_equal(&out, &c, sizeof c);
	} while (config_next(&c, k->space, 32)); /* and none of the points is a formula */
}

static void formulas_survive_as_text(void **state)
{
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (int n = 0; n < k->space->num_formulas; n++) {
			struct choice c = { .kernel = k, .config = random_choice(k->space, n) };
			struct choice back;
			char text[MAX_CHOICE_TEXT], error[200], want[80];
			const struct formula *f = &k->space->formulas[n];
			choice_text(text, sizeof text, &c);
			snprintf(want, sizeof want, " SEGMENTS=balance(%d,%d,%d,%d)", f->slots,
				 f->start, f->launch, f->merge);
			assert_non_null(strstr(text, want));
			if (!choice_parse(&back, k->backend, text, error, sizeof error))
				fail_msg("%s: %s", text, error);
			assert_memory_equal(&back.config, &c.config, sizeof c.config);
			assert_false(k->space->axis[k->space->formula_axis].is_static);
			assert_true(f->slots >= 0 && f->start >= 0 && f->launch >= 0 &&
				    f->merge >= 0);
		}
}

static void what_is_not_listed_is_refused(void **state)
{
	static const char *const wrong[] = {
		"SEGMENTS=balance(1,96,192,17)",
		"SEGMENTS=balance(1,96,192)",
		"SEGMENTS=balance(1,96,192,16",
		"SEGMENTS=balance(1,96,192,16)x",
		"SEGMENTS=balance(1, 96, 192, 16)",
		"SEGMENTS=balance(01,96,192,16)",
		"SEGMENTS=balance",
		"SEGMENTS=",
		"SEGMENTS=-1",
		"SEGMENTS=5",
		"SEGMENTS=4294967298",
		"SEGMENTS=waves(1,96,256,16)",
	};
	static const char rest[] = "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=3";
	const struct space *s = kernel_find(BACKEND_GPU, "segmented")->space;
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
	snprintf(text, sizeof text, "BLOCK_M=balance(1,96,192,16) TILE_SIZE=64");
	assert_false(config_parse(&c, s, text, &where)); /* not that axis's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_the_least_of_the_estimate),
		cmocka_unit_test(two_by_hand),
		cmocka_unit_test(numbers_stay_what_they_are),
		cmocka_unit_test(formulas_survive_as_text),
		cmocka_unit_test(what_is_not_listed_is_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("formula", tests, NULL, NULL);
}
