/* SPDX-License-Identifier: Apache-2.0 */
/* t_score.c - scores of picks, by cases worked out by hand. */
#include "tuner/eval/eval.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"

/* Choices: 0 is BLOCK_M=16, 1 is BLOCK_M=32. */
static struct data *by_hand(void)
{
	struct data *d = data_new("h200", &h200_run);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=16", 10);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=32", 12);
	add(d, "2q1s1k", "all", "qblock", "BLOCK_M=16", 21);
	add(d, "2q1s1k", "decode", "qblock", "BLOCK_M=32", 20);
	add(d, "q512_2q1s1k", "prefill", "qblock", "BLOCK_M=16", 60);
	add(d, "q512_2q1s1k", "prefill", "qblock", "BLOCK_M=32", 50);
	add(d, "q512_2q1s1k", "decode", "qblock", "BLOCK_M=16", 30);
	add(d, "q512_2q1s1k", "decode", "qblock", "BLOCK_M=32", 0);
	add(d, "q512_2q1s1k", "all", "qblock", "BLOCK_M=16", 100);
	add(d, "q512_2q1s1k", "plan", "qblock", "BLOCK_M=16", 85);
	assert_true(data_finish(d));
	assert_int_equal(d->n, 3);
	assert_int_equal(d->num_choices, 2);
	return d;
}

static double plan_us(const struct data *d, const char *batch, int prefill, int decode, int join)
{
	const struct pick p = { prefill, decode, join, ATTUNE_SERIAL };
	return data_plan_time(d, scenario_named(d, batch), &p);
}

static void test_plan_times(void **state)
{
	struct data *d = by_hand();
	(void)state;
	assert_true(plan_us(d, "1q1s1k", -1, 1, 1) == 12);
	assert_true(plan_us(d, "2q1s1k", -1, 0, 1) == 21); /* measured as the whole */
	assert_true(plan_us(d, "q512_2q1s1k", 0, -1, 0) == 100);
	assert_true(isinf(plan_us(d, "q512_2q1s1k", 1, -1, 0))); /* not measured */
	assert_true(plan_us(d, "q512_2q1s1k", 0, 0, 1) == 85);   /* as a plan, not 90 */
	assert_true(plan_us(d, "q512_2q1s1k", 1, 0, 1) == 80);   /* 50 + 30 */
	assert_true(isinf(plan_us(d, "q512_2q1s1k", 1, 1, 1)));  /* resources */
	assert_true(data_oracle(d, scenario_named(d, "1q1s1k")) == 10);
	assert_true(data_oracle(d, scenario_named(d, "2q1s1k")) == 20);
	assert_true(data_oracle(d, scenario_named(d, "q512_2q1s1k")) == 80);
	data_free(d);
}

static void test_scores(void **state)
{
	struct data *d = by_hand();
	struct pick picks[3];
	struct score s;
	(void)state;
	picks[scenario_named(d, "1q1s1k")] = (struct pick){ -1, 1, 1, ATTUNE_SERIAL }; /* 1.2 */
	picks[scenario_named(d, "2q1s1k")] = (struct pick){ -1, 0, 1, ATTUNE_SERIAL }; /* 1.05 */
	picks[scenario_named(d, "q512_2q1s1k")] = (struct pick){ 1, 0, 1, ATTUNE_SERIAL }; /* 1 */
	assert_true(score_picks(d, picks, NULL, &s));
	assert_int_equal(s.n, 3);
	assert_int_equal(s.invalid, 0);
	assert_true(close_to(s.geomean, cbrt(1.2 * 1.05)));
	assert_true(close_to(s.worst, 1.2) && close_to(s.p95, 1.2));
	assert_true(close_to(s.within2, 1. / 3) && close_to(s.within5, 2. / 3));

	picks[scenario_named(d, "q512_2q1s1k")].decode = 1;
	assert_true(score_picks(d, picks, "train", &s));
	assert_int_equal(s.invalid, 1);
	assert_true(isinf(s.geomean) && isinf(s.worst));
	assert_true(score_picks(d, picks, "heldout", &s));
	assert_int_equal(s.n, 0);
	data_free(d);
}

/* Twenty decode scenarios of `sizes` batch sizes; choice 1 is slower by i * step, and the
 * weight of scenario i is i + 1. */
static struct data *ladder(int sizes, double step, struct pick picks[20])
{
	struct data *d = data_new("h200", &h200_run);
	for (int i = 0; i < 20; i++) {
		char batch[40];
		snprintf(batch, sizeof batch, "%dq1s%d", 1 << i % sizes, 1024 + 16 * i);
		for (int c = 0; c < 2; c++) {
			struct store_cell cell =
			    cell_like(batch, "decode", "qblock",
				      with("qblock", c ? "BLOCK_M=32" : "BLOCK_M=16"),
				      100 * (c ? 1 + step * i : 1));
			cell.weight = i + 1;
			assert_true(data_add(d, &cell));
		}
	}
	assert_true(data_finish(d));
	for (int i = 0; i < 20; i++)
		picks[i] = (struct pick){ -1, 1, 1, ATTUNE_SERIAL };
	return d;
}

static void test_metrics(void **state)
{
	struct pick picks[20];
	struct data *d = ladder(4, 0.01, picks);
	struct score s;
	double logs = 0, us = 0, oracle = 0;
	(void)state;
	for (int i = 0; i < 20; i++) {
		logs += log(1 + 0.01 * i);
		us += (i + 1) * 100 * (1 + 0.01 * i);
		oracle += (i + 1) * 100;
	}
	assert_true(score_picks(d, picks, NULL, &s));
	assert_int_equal(s.n, 20);
	assert_true(close_to(s.geomean, exp(logs / 20)));
	assert_true(close_to(s.p95, 1.18)); /* the 19th of 20 */
	assert_true(close_to(s.worst, 1.19));
	assert_true(close_to(s.within2, 3. / 20) && close_to(s.within5, 6. / 20));
	assert_true(close_to(s.time_weighted, us / oracle));
	assert_true(s.low < s.geomean && s.geomean < s.high && s.low >= 1 && s.high < 1.19);
	data_free(d);
}

static void test_interval_is_of_blocks(void **state)
{
	struct pick picks[20];
	struct score one, again, many;
	(void)state;
	struct data *d = ladder(1, 0.01, picks);
	assert_true(score_picks(d, picks, NULL, &one)); /* one block: nothing to resample */
	assert_true(close_to(one.low, one.geomean) && close_to(one.high, one.geomean));
	data_free(d);
	d = ladder(4, 0.01, picks);
	assert_true(score_picks(d, picks, NULL, &many) && score_picks(d, picks, NULL, &again));
	assert_true(many.low == again.low && many.high == again.high);
	assert_true(many.low < many.high);
	data_free(d);
}

/* A split is selected by name; "heldout" means all that begin so. */
static void test_splits(void **state)
{
	static const char *const names[] = { "train", "heldout_blocked", "heldout_random",
					     "peers" };
	struct data *d = data_new("h200", &h200_run);
	const char *splits[MAX_SPLITS];
	struct pick picks[4];
	struct score s;
	(void)state;
	for (int i = 0; i < 4; i++) {
		char batch[20];
		snprintf(batch, sizeof batch, "%dq1s1k", i + 1);
		struct store_cell c =
		    cell_like(batch, "decode", "qblock", with("qblock", "BLOCK_M=16"), 10);
		c.split = names[i];
		assert_true(data_add(d, &c));
		picks[i] = (struct pick){ -1, 0, 1, ATTUNE_SERIAL };
	}
	assert_true(data_finish(d));
	assert_int_equal(data_splits(d, splits), 5);
	assert_string_equal(splits[0], "train");
	assert_string_equal(splits[1], "peers");
	assert_string_equal(splits[2], "heldout");
	assert_string_equal(splits[3], "heldout_blocked");
	assert_string_equal(splits[4], "heldout_random");
	assert_true(score_picks(d, picks, "heldout", &s));
	assert_int_equal(s.n, 2);
	assert_true(score_picks(d, picks, "heldout_random", &s));
	assert_int_equal(s.n, 1);
	assert_true(score_picks(d, picks, "peers,heldout_random", &s));
	assert_int_equal(s.n, 2);
	assert_true(score_picks(d, picks, "train,heldout", &s));
	assert_int_equal(s.n, 3);
	assert_true(score_picks(d, picks, "heldout_rand,heldout_random_", &s));
	assert_int_equal(s.n, 0);
	assert_true(score_picks(d, picks, "heldout_traces", &s));
	assert_int_equal(s.n, 0);
	data_free(d);
}

/* Where all choices crash there is no oracle; leaving it out would reward the crash. */
static void test_nothing_worked(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	const struct pick picks[2] = { { -1, 0, 1, ATTUNE_SERIAL }, { -1, 0, 1, ATTUNE_SERIAL } };
	struct score s;
	(void)state;
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=16", 10);
	add(d, "2q1s1k", "decode", "qblock", "BLOCK_M=16", 0);
	assert_true(data_finish(d));
	assert_true(score_picks(d, picks, NULL, &s));
	assert_int_equal(s.n, 2);
	assert_int_equal(s.invalid, 1);
	assert_true(isinf(s.geomean) && isinf(s.time_weighted) && isinf(s.high));
	assert_true(close_to(s.within5, 0.5));
	data_free(d);
}

/* A baseline is judged where it has a time; the header's picks can be judged there, too. */
static void test_where_a_baseline_has_a_time(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	const struct pick fixed[2] = { { -1, 1, 1, ATTUNE_SERIAL }, { -1, -1, 1, ATTUNE_SERIAL } };
	const struct pick tree[2] = { { -1, 0, 1, ATTUNE_SERIAL }, { -1, 0, 1, ATTUNE_SERIAL } };
	struct score s;
	(void)state;
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=16", 11);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=32", 12);
	add(d, "1q1s1k", "decode", "qblock", "BLOCK_M=64", 10);
	add(d, "2q1s1k", "decode", "qblock", "BLOCK_M=16", 30);
	add(d, "2q1s1k", "decode", "qblock", "BLOCK_M=64", 10);
	assert_true(data_finish(d));
	assert_true(score_where(d, fixed, fixed, NULL, &s));
	assert_int_equal(s.n, 2);
	assert_int_equal(s.invalid, 1);
	assert_true(close_to(s.geomean, 1.2) && close_to(s.worst, 1.2));
	assert_true(score_where(d, tree, fixed, NULL, &s));
	assert_true(close_to(s.geomean, 1.1));
	assert_int_equal(s.invalid, 0);
	assert_true(score_where(d, fixed, fixed, "heldout", &s));
	assert_true(!s.n && isnan(s.geomean));
	data_free(d);
}

static void add_pass(struct data *d, const char *set, int pass, double us)
{
	struct store_cell c = cell_like("1q1s1k", "decode", "qblock", with("qblock", set), us);
	c.pass = pass;
	c.stage = pass == 'B' ? "b" : "race";
	assert_true(data_add(d, &c));
}

/* Pass B alone counts where it exists; cells that it lacks are estimates. */
static void test_passes(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct score s;
	struct pick pick = { -1, 0, 1, ATTUNE_SERIAL };
	(void)state;
	add_pass(d, "BLOCK_M=16", 'A', 9);
	add_pass(d, "BLOCK_M=32", 'A', 10);
	add_pass(d, "BLOCK_M=64", 'A', 20);
	add_pass(d, "BLOCK_M=16", 'B', 11);
	add_pass(d, "BLOCK_M=32", 'B', 10);
	assert_true(data_finish(d));
	assert_true(score_picks(d, &pick, NULL, &s));
	assert_true(close_to(s.geomean, 1.1) && s.unconfirmed == 0);
	assert_int_equal(s.second_pass, 1);
	pick.decode = 2; /* 20 x the median of 11 / 9 and 10 / 10 */
	assert_true(score_picks(d, &pick, NULL, &s));
	assert_int_equal(s.unconfirmed, 1);
	assert_true(close_to(s.geomean, 2 * (11. / 9 + 1) / 2));
	data_free(d);
}

/* The choices take 10, 10.1, 10.2 and 10.3 us in pass A. The second one is picked. */
static void test_second_pass_is_one_session(void **state)
{
	static const struct {
		const char *why;
		double us[2][4]; /* of each run, in the order of the choices; 0: not measured */
		double slowdown;
		int unconfirmed;
	} rows[] = {
		{ "one session", { { 10, 10.5, 12, 13 } }, 1.05, 0 },
		{ "a later one on a faster card adds a rival",
		  { { 10, 10.5, 12 }, { 0, 0, 0, 9.7 } },
		  1.05,
		  0 },
		{ "a later one with half as many counts", { { 9.5, 0, 12 }, { 0, 9.7 } }, 1, 0 },
		{ "what the session lacks is pass A's x 0.97",
		  { { 10.3, 10.3, 12, 13 }, { 9.7, 0, 9.894, 9.991 } },
		  1.01,
		  1 },
	};
	static const char *const sets[] = { "BLOCK_M=16", "BLOCK_M=32", "BLOCK_M=64",
					    "BLOCK_M=128" };
	const struct pick pick = { -1, 1, 1, ATTUNE_SERIAL };
	struct score s;
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct data *d = data_new("h200", &h200_run);
		for (int c = 0; c < 4; c++)
			add_pass(d, sets[c], 'A', 10 + 0.1 * c);
		for (int i = 0; i < 8; i++) {
			struct store_cell c =
			    cell_like("1q1s1k", "decode", "qblock", with("qblock", sets[i % 4]),
				      rows[r].us[i / 4][i % 4]);
			c.pass = 'B';
			c.stage = "b";
			c.run = 7 + i / 4;
			assert_true(!(c.median_us > 0) || data_add(d, &c));
		}
		assert_true(data_finish(d));
		assert_true(score_picks(d, &pick, NULL, &s));
		if (!close_to(s.geomean, rows[r].slowdown))
			print_error("%s: %g\n", rows[r].why, s.geomean);
		assert_true(close_to(s.geomean, rows[r].slowdown));
		assert_int_equal(s.unconfirmed, rows[r].unconfirmed);
		data_free(d);
	}
}

/* The gate races two picks, on scenarios of which an earlier session may know much more. */
static void test_gate_counts_its_newest_race(void **state)
{
	static const char *const splits[] = { "gate", "train" };
	static const double us[2][4] = { { 10, 10.5, 12, 13 }, { 0, 9.9, 0, 0 } };
	static const char *const sets[] = { "BLOCK_M=16", "BLOCK_M=32", "BLOCK_M=64",
					    "BLOCK_M=128" };
	(void)state;
	for (size_t r = 0; r < COUNT(splits); r++) {
		struct data *d = data_new("h200", &h200_run);
		for (int i = 0; i < 8; i++) {
			struct store_cell c =
			    cell_like("1q1s1k", "decode", "qblock", with("qblock", sets[i % 4]),
				      us[i / 4][i % 4]);
			c.split = splits[r];
			c.pass = 'B';
			c.stage = "b";
			c.run = 7 + i / 4;
			assert_true(!(c.median_us > 0) || data_add(d, &c));
		}
		assert_true(data_finish(d));
		const struct cell *first = data_cell_in(d, PASS_B, 0, PHASE_DECODE, 0);
		const struct cell *second = data_cell_in(d, PASS_B, 0, PHASE_DECODE, 1);
		assert_int_equal(first != NULL, r == 1);
		assert_int_equal(second != NULL, r == 0);
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_times),
		cmocka_unit_test(test_scores),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_interval_is_of_blocks),
		cmocka_unit_test(test_splits),
		cmocka_unit_test(test_nothing_worked),
		cmocka_unit_test(test_where_a_baseline_has_a_time),
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_second_pass_is_one_session),
		cmocka_unit_test(test_gate_counts_its_newest_race),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
