/* SPDX-License-Identifier: Apache-2.0 */
/* t_settle_report.c - attune_plan_alternatives and attune_report: which plans there are, what
 * reported times come to and from when on, and which are refused. */
#include "cpu_rows.h"
#include "kernels/settle/settled.h"

/* ---- alternatives ---------------------------------------------------------------------------- */

static void alternatives_of_a_phase_are_its_members(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	char text[3][200];
	int n = 0;
	(void)state;
	open_step(3, decodes);
	assert_int_equal(list(plans), 3);
	now = plan_now();
	assert_true(alike(&plans[0], &now));
	for (int i = 0; i < 3; i++) {
		ok(attune_plan_text(op, &plans[i], text[i], sizeof text[i]));
		run_right(&plans[i]);
	}
	assert_string_equal(text[0], SEGMENTED(1));
	assert_string_equal(text[1], SEGMENTED(2));
	assert_string_equal(text[2], SEGMENTED(4));
	assert_int_equal(attune_plan_alternatives(op, &step.batch, plans, 2, &n), ATTUNE_TOO_SMALL);
	assert_int_equal(n, 3);
	close_step();
}

static void alternatives_of_a_mixed_batch_run_right(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	size_t most;
	(void)state;
	open_step(6, mixed);
	const int n = list(plans), has_seqs = step.batch.num_seqs;
	assert_true(n >= 4); /* as it is, one launch, and a swap of either part */
	ok(attune_max_workspace(op, has_seqs, step.tokens, &most));
	for (int i = 0; i < n; i++) {
		assert_true(plans[i].workspace <= most);
		for (int k = 0; k < i; k++)
			assert_false(alike(&plans[i], &plans[k]));
		run_right(&plans[i]);
	}
	close_step();
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Reports rounds in which plan `fast` takes `us` and all others take 100. */
static void report(int rounds, int fast, double us)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	double times[ATTUNE_MOST_ALTERNATIVES];
	const int n = list(plans);
	for (int i = 0; i < n; i++)
		times[i] = i == fast ? us : 100;
	for (int r = 0; r < rounds; r++)
		ok(attune_report(op, &step.batch, plans, times, n));
}

static void what_is_reported_counts_from_the_commit_on(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	(void)state;
	open_step(3, decodes);
	list(plans);
	report(2, 2, 80);
	ok(attune_settled_commit(ctx)); /* two rounds decide nothing */
	now = plan_now();
	assert_true(alike(&now, &plans[0]));
	report(1, 2, 80);
	now = plan_now();
	assert_true(alike(&now, &plans[0]));
	assert_true(attune_settled_digest(ctx) == 0);
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_true(alike(&now, &plans[2]));
	assert_true(attune_settled_digest(ctx) != 0);
	run_right(&now);
	attune_plan after[ATTUNE_MOST_ALTERNATIVES];
	assert_int_equal(list(after), 3);
	assert_true(alike(&after[0], &now)); /* the present one leads */
	close_step();
}

static void a_small_gain_does_not_count(void **state)
{
	static const struct {
		double us;
		int wins;
	} gains[] = { { 99.5, 0 }, { 98.5, 0 }, { 97.5, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(gains); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
		open_step(3, decodes);
		list(plans);
		report(3, 1, gains[i].us);
		ok(attune_settled_commit(ctx));
		now = plan_now();
		assert_true(alike(&now, &plans[gains[i].wins]));
		close_step();
	}
}

/* One round of five in which the winner was disturbed changes nothing. */
static void medians_decide(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	(void)state;
	open_step(3, decodes);
	list(plans);
	report(2, 1, 90);
	report(1, 1, 900);
	report(2, 1, 90);
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_true(alike(&now, &plans[1]));
	close_step();
}

/* Prefills by 1.5 %: a letter is a round of another batch of one cell. A batch counts with three rounds
 * of its own, and two that agree change the plan. */
static void two_prefills_agree_by_rounds_of_their_own(void **state)
{
	static const struct {
		const char *rounds;
		int counts;
	} orders[] = {
		{ "AAA", 0 },    { "AAAB", 0 },   { "AAABB", 0 },   { "AAABA", 0 },
		{ "AAABAB", 0 }, { "ABCDEF", 0 }, { "ABCBB", 0 },   { "AAABBB", 1 },
		{ "ABABAB", 1 }, { "ABCAA", 0 },  { "ABCBBAA", 1 }, { "AAABCDEFGHIJB", 0 },
	};
	(void)state;
	for (size_t i = 0; i < 2 * COUNT(orders); i++) {
		const int prefills[][2] = { { 40, 88 }, { 40, 88 } };
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
		uint64_t cell = 0;
		open_step(2, prefills);
		list(plans);
		for (const char *at = orders[i / 2].rounds; *at; at++) {
			const int lens[][2] = { { 40, 88 }, { 40, 88 + *at - 'A' } };
			step_free(&step);
			step_make(&step, 2, lens);
			assert_true(!cell || cell == cell_of_batch(op, &step.batch));
			cell = cell_of_batch(op, &step.batch);
			report(1, 1, 98.5);
			if (i % 2)
				ok(attune_settled_commit(ctx));
		}
		step_free(&step);
		step_make(&step, 2, prefills);
		ok(attune_settled_commit(ctx));
		now = plan_now();
		if (!alike(&now, &plans[orders[i / 2].counts]))
			fail_msg("%s", orders[i / 2].rounds);
		close_step();
	}
}

static void the_way_of_a_mixed_batch_is_remembered(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	int n = ATTUNE_MOST_ALTERNATIVES;
	(void)state;
	for (int fast = 1; fast < n; fast++) {
		open_step(6, mixed);
		n = list(plans);
		report(3, fast, 70);
		ok(attune_settled_commit(ctx));
		now = plan_now();
		assert_true(alike(&now, &plans[fast]));
		run_right(&now);
		close_step();
	}
}

static void odd_reports_are_refused(void **state)
{
	static const double odd[] = { 0, -1, -0.0, NAN, INFINITY, -INFINITY, 1e300, 1e-300 };
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], other;
	double us[ATTUNE_MOST_ALTERNATIVES] = { 100, 50, 100 };
	(void)state;
	open_step(3, decodes);
	assert_int_equal(list(plans), 3);
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < COUNT(odd); i++) {
			us[2] = odd[i];
			assert_int_equal(attune_report(op, &step.batch, plans, us, 3),
					 ATTUNE_INVALID);
		}
		us[2] = 100;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 2), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, us, 0), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, us, -1), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, NULL, 3), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, NULL, us, 3), ATTUNE_INVALID);
		other = plans[1];
		plans[1] = plans[2]; /* one twice */
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		plans[1].op++;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		plans[1].size = 3;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		struct step another;
		step_make(&another, 6, mixed);
		assert_int_equal(attune_report(op, &another.batch, plans, us, 3), ATTUNE_INVALID);
		step_free(&another);
	}
	ok(attune_settled_commit(ctx));
	assert_true(attune_settled_digest(ctx) == 0);
	close_step();
}

/* A program whose plans lack the last members gets them one behind the other, and reports them. */
static void plans_of_older_programs_are_taken(void **state)
{
	enum { SIZE = offsetof(attune_plan, spared) };
	_Alignas(attune_plan) char old[3 * SIZE + 8];
	attune_plan *const plans = (attune_plan *)(void *)old;
	const double us[] = { 100, 100, 50 };
	attune_plan now;
	int n;
	(void)state;
	open_step(3, decodes);
	memset(old, 0x5a, sizeof old);
	for (int i = 0; i < 3; i++)
		memcpy(old + i * SIZE, &(uint32_t){ SIZE }, sizeof(uint32_t));
	ok(attune_plan_alternatives(op, &step.batch, plans, 3, &n));
	assert_int_equal(n, 3);
	for (int i = 3 * SIZE; i < 3 * SIZE + 8; i++)
		assert_int_equal(old[i], 0x5a);
	for (int i = 0; i < 3; i++)
		ok(attune_report(op, &step.batch, plans, us, 3));
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_int_equal(
	    attune_plan_serves((const attune_plan *)(const void *)(old + 2 * SIZE), &now),
	    ATTUNE_SERVES_ALIKE);
	close_step();
}

/* Whatever times say, results are right. */
static void any_times_leave_results_right(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	double us[ATTUNE_MOST_ALTERNATIVES];
	(void)state;
	for (int k = 0; k < 2; k++) {
		open_step(k ? 6 : 3, k ? mixed : decodes);
		for (int round = 0; round < 12; round++) {
			const int n = list(plans);
			for (int i = 0; i < n; i++)
				us[i] = pow(10, 2 * noise());
			ok(attune_report(op, &step.batch, plans, us, n));
			ok(attune_settled_commit(ctx));
			now = plan_now();
			run_right(&now);
		}
		close_step();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alternatives_of_a_phase_are_its_members),
		cmocka_unit_test(alternatives_of_a_mixed_batch_run_right),
		cmocka_unit_test(what_is_reported_counts_from_the_commit_on),
		cmocka_unit_test(a_small_gain_does_not_count),
		cmocka_unit_test(medians_decide),
		cmocka_unit_test(two_prefills_agree_by_rounds_of_their_own),
		cmocka_unit_test(the_way_of_a_mixed_batch_is_remembered),
		cmocka_unit_test(odd_reports_are_refused),
		cmocka_unit_test(plans_of_older_programs_are_taken),
		cmocka_unit_test(any_times_leave_results_right),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
