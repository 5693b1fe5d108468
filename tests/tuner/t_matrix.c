/* SPDX-License-Identifier: Apache-2.0 */
/* t_matrix.c - the cost matrix: integer costs of measured times, ties, missing and forbidden cells,
 * formulas and portfolios. */
#include "cells.h"

#define SEGMENTED(n) with("segmented", "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=" #n)
#define WIDE with("segmented", "BLOCK_M=16 TILE_SIZE=128 SEGMENTS=64")

static struct store_cell *add(struct data *d, const char *batch, const char *phase,
			      const char *kernel, const char *choice, double us)
{
	static struct store_cell c;
	c = cell_like(batch, phase, kernel, choice, us);
	assert_true(data_add(d, &c));
	return &c;
}

static void test_costs_of_one_row(void **state)
{
	struct data *d = begin();
	struct store_cell failed;
	(void)state;
	add(d, "4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	add(d, "4q1s4k", "decode", "segmented", SEGMENTED(8), 50);
	add(d, "4q1s4k", "decode", "segmented", SEGMENTED(16), 50.2); /* 0.4 %: noise */
	add(d, "4q1s4k", "decode", "segmented", SEGMENTED(4), 55);
	failed = cell_like("4q1s4k", "decode", "qblock", QBLOCK(32), 0);
	failed.outcome = "wrong";
	failed.median_us = NAN;
	assert_true(data_add(d, &failed));
	/* columns that this row lacks: one legal, one that only long contexts allow */
	add(d, "1q1s32k", "decode", "segmented", SEGMENTED(2), 20);
	add(d, "1q1s32k", "decode", "segmented", WIDE, 10);
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(m->rows, 2);
	assert_int_equal(m->cols, 7); /* no formula: its numbers were not measured */
	const int row = strcmp(d->v[m->scenario[0]].batch_text, "4q1s4k") != 0;
	assert_int_equal(cost(m, d, row, "segmented", SEGMENTED(8)), 0);
	assert_int_equal(cost(m, d, row, "segmented", SEGMENTED(16)), 0);
	assert_int_equal(cost(m, d, row, "segmented", SEGMENTED(4)), 95310); /* ln 1.1 */
	assert_int_equal(cost(m, d, row, "qblock", QBLOCK(16)), 693147);     /* ln 2 */
	assert_int_equal(cost(m, d, row, "qblock", QBLOCK(32)), COST_FORBIDDEN);
	/* two steps from 4 segments, a tenth each: 66 against 50 */
	assert_int_equal(cost(m, d, row, "segmented", SEGMENTED(2)), 277632);
	assert_int_equal(cost(m, d, row, "segmented", WIDE), COST_ILLEGAL);
	matrix_free(m);
	data_free(d);
}

static void test_a_noisy_cell_is_no_tie_beyond_2_percent(void **state)
{
	struct data *d = begin();
	struct store_cell c;
	(void)state;
	add(d, "4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(32), 101.5);
	c.ci_us = 30;
	assert_true(data_add(d, &c));
	c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(64), 103);
	c.ci_us = 30;
	assert_true(data_add(d, &c));
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(32)), 0);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(64)), 29559); /* ln 1.03 */
	matrix_free(m);
	data_free(d);
}

/* In a mixed batch a part's loss counts by its share of the plan. */
static void test_parts_cost_the_whole_plan(void **state)
{
	struct data *d = begin();
	(void)state;
	add(d, "q2k_8q1s1k", "decode", "qblock", QBLOCK(16), 20);
	add(d, "q2k_8q1s1k", "decode", "qblock", QBLOCK(32), 10);
	add(d, "q2k_8q1s1k", "prefill", "qblock", QBLOCK(16), 180);
	add(d, "q2k_8q1s1k", "prefill", "qblock", QBLOCK(32), 90);
	add(d, "q2k_8q1s1k", "all", "qblock", QBLOCK(32), 110);
	add(d, "q64_8q1s1k", "decode", "qblock", QBLOCK(16), 20);
	add(d, "q64_8q1s1k", "prefill", "qblock", QBLOCK(16), 12);
	add(d, "q64_8q1s1k", "prefill", "qblock", QBLOCK(32), 10);
	add(d, "q64_8q1s1k", "all", "qblock", QBLOCK(16), 20);
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(16)), 95310); /* ln 1.1 */
	matrix_free(m);
	m = matrix_parts(d, DECIDE_PREFILL);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(16)), 641854); /* ln 1.9 */
	/* 32 against 30: that one launch of it takes 20 is no matter of the part */
	assert_int_equal(cost(m, d, 1, "qblock", QBLOCK(16)), 64539);
	assert_int_equal(cost(m, d, 1, "qblock", QBLOCK(32)), 0);
	matrix_free(m);
	const struct pick picks[] = { { 1, 1, 1, ATTUNE_SERIAL }, { 0, 0, 1, ATTUNE_SERIAL } };
	/* One launch takes 110 where both parts take 100, and 20 where they take 32. */
	assert_int_equal(fastest_way(d, picks), BASELINE_WHOLE);
	data_free(d);
}

/* One row of `num` that does not know a kernel which the first `others` rows know. */
static int rows_beside(int num, int others)
{
	struct data *d = begin();
	for (int i = 0; i < num; i++) {
		char batch[32];
		snprintf(batch, sizeof batch, "%dq1s4k", i + 1);
		add(d, batch, "decode", "qblock", QBLOCK(16), 100);
		if (i < others)
			add(d, batch, "decode", "naive", "NUM_WARPS=4", 50);
	}
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	const int rows = m->rows;
	matrix_free(m);
	data_free(d);
	return rows;
}

static void test_rows_that_lack_a_kernel_of_all_others_say_nothing(void **state)
{
	(void)state;
	assert_int_equal(rows_beside(20, 20), 20);
	assert_int_equal(rows_beside(20, 18), 18);
	assert_int_equal(rows_beside(20, 17), 20); /* it is not that common */
	assert_int_equal(rows_beside(20, 0), 20);
}

static void test_weights_and_held_out_rows(void **state)
{
	struct data *d = begin();
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(16), 100);
	(void)state;
	assert_true(data_add(d, &c));
	c.batch = "8q1s4k";
	c.weight = 0.25;
	assert_true(data_add(d, &c));
	c.batch = "16q1s4k";
	c.split = "heldout";
	assert_true(data_add(d, &c));
	c.batch = "32q1s4k";
	c.split = "peers";
	assert_true(data_add(d, &c));
	c.split = "heldout"; /* another set holds it out: then so is it */
	c.phase = "all";
	assert_true(data_add(d, &c));
	c = cell_like("64q1s4k", "decode", "qblock", QBLOCK(16), 100);
	c.split = "overlap"; /* serves the overlap decision alone */
	assert_true(data_add(d, &c));
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(m->rows, 2);
	assert_int_equal(m->weight[0] + m->weight[1], 64 + 32);
	matrix_free(m);
	data_free(d);
}

/* ---- two passes ------------------------------------------------------------------------- */
static void add_lap(struct data *d, long long run, const char *choice, double us, double ratio)
{
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", choice, us);
	c.run = run;
	c.stage = "race";
	c.ratio = ratio;
	assert_true(data_add(d, &c));
}

/* Run 2 met a clock 4 % slower: its 104 is run 1's 100. Runs 3 and 4 had other references, run 4
 * one that is nearly as fast. */
static void test_races_are_compared_by_one_clock(void **state)
{
	struct data *d = begin();
	(void)state;
	add_lap(d, 1, QBLOCK(16), 200, 1);
	add_lap(d, 1, QBLOCK(32), 100, 0.5);
	add_lap(d, 2, QBLOCK(64), 104, 0.5);
	add_lap(d, 3, with("qblock", "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8"), 100, 1);
	add_lap(d, 4, with("qblock", "BLOCK_M=128 TILE_SIZE=32 NUM_WARPS=8"), 190, 1);
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(32)), 0);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(64)), 0);
	assert_int_equal(cost(m, d, 0, "qblock", QBLOCK(16)), 693147);
	assert_int_equal(
	    cost(m, d, 0, "qblock", with("qblock", "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8")), 0);
	assert_int_equal(
	    cost(m, d, 0, "qblock", with("qblock", "BLOCK_M=128 TILE_SIZE=32 NUM_WARPS=8")),
	    641854); /* ln 190/100 */
	matrix_free(m);
	data_free(d);
}

/* A choice given up early is no tie, however near; noise depends on the time's band. */
static void test_given_up_and_noise_of_the_band(void **state)
{
	struct data *d = begin();
	(void)state;
	struct store_cell c = cell_like("4q1s4k", "decode", "qblock", QBLOCK(32), 10.1);
	c.stopped = "screen";
	d->noise = (struct noise){ .pairs = { 9, 9, 9 }, .floor = { 0.015, 0.006, 0.005 } };
	add(d, "4q1s4k", "decode", "qblock", QBLOCK(16), 10);
	assert_true(data_add(d, &c));
	add(d, "4q1s4k", "decode", "qblock", QBLOCK(64), 10.14);
	add(d, "8q1s4k", "decode", "qblock", QBLOCK(16), 1000);
	add(d, "8q1s4k", "decode", "qblock", QBLOCK(64), 1014);
	assert_true(data_finish(d));
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	const int four = strcmp(d->v[m->scenario[0]].batch_text, "4q1s4k") != 0;
	assert_int_equal(cost(m, d, four, "qblock", QBLOCK(64)), 0);     /* 1.4 of 1.5 % */
	assert_int_equal(cost(m, d, four, "qblock", QBLOCK(32)), 15000); /* at least noise */
	assert_int_equal(cost(m, d, !four, "qblock", QBLOCK(64)), 13903);
	matrix_free(m);
	data_free(d);
}

/* ---- formulas ----------------------------------------------------------------------------- */
static void test_a_formula_costs_what_it_means(void **state)
{
	static const char *const batches[] = { "4q1s4k", "8q1s8k", "1q1s32k", "64q1s1k" };
	struct data *d = begin();
	const struct kernel *k = kernel_find(BACKEND_GPU, "segmented");
	const struct axis *a = &k->space->axis[k->space->formula_axis];
	(void)state;
	for (size_t b = 0; b < COUNT(batches); b++)
		for (int i = 0; i < a->num_values; i++) {
			char set[80];
			snprintf(set, sizeof set, "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=%d",
				 a->values[i]);
			add(d, batches[b], "decode", "segmented", with("segmented", set),
			    100 + 10 * i + (double)b);
		}
	assert_true(data_finish(d));
	assert_int_equal(d->num_columns - d->num_choices, k->space->num_formulas);
	for (int s = 0; s < d->n; s++)
		for (int c = d->num_choices; c < d->num_columns; c++) {
			struct choice means = { .kernel = k };
			assert_null(config_resolve(&means.config, &d->choice[c].config, k,
						   &d->v[s].shape, &d->v[s].part[PHASE_DECODE],
						   &d->run.device));
			const int concrete = data_find(d, &means);
			assert_int_equal(data_concrete(d, s, PHASE_DECODE, c), concrete);
			assert_true(data_time(d, s, PHASE_DECODE, c) ==
				    data_time(d, s, PHASE_DECODE, concrete));
			assert_true(data_legal(d, s, PHASE_DECODE, c));
		}
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_int_equal(m->cols, d->num_columns);
	matrix_free(m);
	data_free(d);
}

/* Between two members the larger of their times; beyond, a tenth a step, three at most. */
static void test_family_bounds(void **state)
{
	static const struct {
		const char *set;
		double us;
	} rows[] = {
		{ "SEGMENTS=6", 60 },  /* between 4 and 8 */
		{ "SEGMENTS=12", 66 }, /* one beyond */
		{ "SEGMENTS=16", 72 }, { "SEGMENTS=24", INFINITY },
		{ "SEGMENTS=3", 55 },  { "SEGMENTS=8", 60 },
	};
	struct data *d = begin();
	(void)state;
	add(d, "4q1s4k", "decode", "segmented", SEGMENTED(4), 50);
	add(d, "4q1s4k", "decode", "segmented", SEGMENTED(8), 60);
	for (size_t i = 0; i < COUNT(rows); i++) {
		char set[80];
		snprintf(set, sizeof set, "BLOCK_M=16 TILE_SIZE=64 %s", rows[i].set);
		add(d, "1q1s32k", "decode", "segmented", with("segmented", set), 10);
	}
	assert_true(data_finish(d));
	const int four = strcmp(d->v[0].batch_text, "4q1s4k") != 0;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char set[80];
		snprintf(set, sizeof set, "BLOCK_M=16 TILE_SIZE=64 %s", rows[i].set);
		const int c = choice_of(d, "segmented", with("segmented", set));
		const double us = family_time(d, four, PHASE_DECODE, c);
		if (!(us == rows[i].us || fabs(us - rows[i].us) < 1e-9))
			fail_msg("%s: %g, not %g", rows[i].set, us, rows[i].us);
	}
	data_free(d);
}

static long long minima(const struct matrix *m, const int *cols, int n)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++) {
		long long least = matrix_at(m, r, cols[0]);
		for (int i = 1; i < n; i++) {
			const long long v = matrix_at(m, r, cols[i]);
			least = v < least ? v : least;
		}
		sum += least;
	}
	return sum;
}

/* Against all pairs: greedy with swaps need not be the best, but near it. */
static void test_portfolio(void **state)
{
	unsigned long long seed = 11;
	struct portfolio curve;
	int exact = 0, tries = 300;
	(void)state;
	for (int i = 0; i < tries; i++) {
		struct matrix *m = matrix_new(20, 8);
		long long best = -1, alone = -1, weight = 0;
		for (int k = 0; k < m->rows * m->cols; k++)
			m->cost[k] = (int)(next_random(&seed) % 1000);
		for (int r = 0; r < m->rows; r++)
			weight += m->weight[r] = 1 + (int)(next_random(&seed) % 4);
		for (int a = 0; a < 8; a++) {
			const long long one = minima(m, (int[]){ a }, 1);
			alone = alone < 0 || one < alone ? one : alone;
			m->choice[a] = a;
			for (int b = 0; b < a; b++) {
				const long long v = minima(m, (int[]){ a, b }, 2);
				best = best < 0 || v < best ? v : best;
			}
		}
		assert_true(matrix_portfolio(m, 2, -1, &curve));
		assert_int_equal(curve.n, 2);
		assert_float_equal(curve.mean[0], exp((double)alone / (double)weight / 1e6), 1e-9);
		assert_true(curve.mean[1] < curve.mean[0]);
		assert_int_equal(m->cols, 2);
		assert_true(m->choice[0] < m->choice[1]);
		const long long got = minima(m, (int[]){ 0, 1 }, 2);
		assert_true(got >= best && got <= best + best / 5);
		exact += got == best;
		matrix_free(m);
	}
	assert_true(exact > tries * 3 / 4);
}

/* Column 3 is dear, but given. */
static void test_portfolio_keeps_what_is_given(void **state)
{
	struct portfolio curve;
	struct matrix *m = matrix_new(6, 4);
	(void)state;
	for (int r = 0; r < m->rows; r++) {
		m->weight[r] = 1;
		for (int c = 0; c < m->cols; c++) {
			m->choice[c] = c;
			m->cost[r * m->cols + c] = c == 3 ? 9000 : r % 3 == c ? 0 : 1000;
		}
	}
	assert_true(matrix_portfolio(m, 2, 3, &curve));
	assert_int_equal(m->cols, 2);
	assert_int_equal(m->choice[1], 3);
	assert_int_equal(curve.n, 2);
	assert_float_equal(curve.mean[0], exp(9000 / 1e6), 1e-12);
	assert_float_equal(curve.mean[1], exp(4000. / 6 / 1e6), 1e-12);
	matrix_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_costs_of_one_row),
		cmocka_unit_test(test_a_noisy_cell_is_no_tie_beyond_2_percent),
		cmocka_unit_test(test_parts_cost_the_whole_plan),
		cmocka_unit_test(test_rows_that_lack_a_kernel_of_all_others_say_nothing),
		cmocka_unit_test(test_weights_and_held_out_rows),
		cmocka_unit_test(test_races_are_compared_by_one_clock),
		cmocka_unit_test(test_given_up_and_noise_of_the_band),
		cmocka_unit_test(test_a_formula_costs_what_it_means),
		cmocka_unit_test(test_family_bounds),
		cmocka_unit_test(test_portfolio),
		cmocka_unit_test(test_portfolio_keeps_what_is_given),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
