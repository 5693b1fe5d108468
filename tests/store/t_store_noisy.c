/* SPDX-License-Identifier: Apache-2.0 */
/* t_store_noisy.c - noisy rows in a database: they are kept and count as missing, and never
 * replace a time. The races of a run after its last good control can be disbelieved. */
#include <stdio.h>
#include "store_fixture.h"

static struct measurement noisy(double us)
{
	struct measurement m = measured(us);
	m.outcome = OUTCOME_NOISY;
	snprintf(m.detail, sizeof m.detail, "the median may be off by 40 %%");
	return m;
}

static int has(struct store *s, const char *batch, int point)
{
	struct scenario sc = scenario_of(batch);
	const struct choice c = choice_at("segmented", point);
	char text[400];
	choice_text(text, sizeof text, &c);
	const int found = store_has(s, "h200", &sc, PHASE_DECODE, text);
	scenario_done(&sc);
	return found;
}

static const char *const rows_sql =
    "SELECT outcome, median_us, newest FROM history ORDER BY variant_id, run_id";

static void noise_counts_as_missing(void **state)
{
	(void)state;
	struct store *s = fresh("missing.sqlite");
	long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, noisy(10));
	assert_false(has(s, "q1s1k", 0));
	assert_string_equal(ask(s, "SELECT outcome, median_us, detail FROM timings"),
			    "noisy 11.0 the median may be off by 40 %;");
	assert_string_equal(ask(s, "SELECT count(*) FROM failures"), "0;");
	assert_string_equal(ask(s, "SELECT count(*) FROM best"), "0;");
	/* raced again, in the same run and stage: the row is replaced */
	add(s, run, "q1s1k", "segmented", 0, measured(7));
	assert_true(has(s, "q1s1k", 0));
	assert_string_equal(ask(s, rows_sql), "ok 8.0 1;");
	/* in a later one: the noisy row is history */
	add(s, run, "q1s1k", "segmented", 1, noisy(10));
	run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 1, measured(5));
	assert_string_equal(ask(s, rows_sql), "ok 8.0 1;noisy 11.0 0;ok 6.0 1;");
	store_close(s);
}

static void noise_never_replaces_a_time(void **state)
{
	static const char plan[] = "prefill: qblock A=1 | decode: segmented B=2";
	struct measurement wrong = { .outcome = OUTCOME_WRONG, .detail = "1 is right" };
	const struct measurement time = measured(50), noise = noisy(90);
	(void)state;
	struct store *s = fresh("keeps.sqlite");
	struct scenario sc = scenario_of("q100_q1s1k");
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, noisy(99));
	add(s, run, "q1s1k", "segmented", 1, wrong);
	add(s, run, "q1s1k", "segmented", 1, noisy(99));
	assert_string_equal(ask(s, rows_sql), "ok 11.0 1;wrong - 1;");
	store_stage(s, "b"); /* another pass has another time */
	add(s, run, "q1s1k", "segmented", 0, noisy(99));
	assert_string_equal(ask(s, "SELECT outcome FROM confirmed"), "noisy;");
	store_stage(s, "race");
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &noise), 1);
	assert_false(store_has_plan(s, "h200", &sc, plan));
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &time), 1);
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &noise), 1);
	assert_true(store_has_plan(s, "h200", &sc, plan));
	scenario_done(&sc);
	store_close(s);
}

/* Nor does it by way of a merge, whichever database comes first. */
static void noise_is_merged_behind_times(void **state)
{
	long long added;
	(void)state;
	for (int noise_last = 0; noise_last < 2; noise_last++) {
		struct store *a = fresh("ours.sqlite"), *b = fresh("theirs.sqlite");
		add(a, store_begin_run(a, &h200), "q1s1k", "segmented", 0,
		    noise_last ? measured(10) : noisy(40));
		add(b, store_begin_run(b, &h200), "q1s1k", "segmented", 0,
		    noise_last ? noisy(40) : measured(10));
		store_close(b);
		assert_int_equal(store_merge(a, in_folder("theirs.sqlite"), &added), 1);
		assert_string_equal(ask(a, "SELECT outcome, median_us FROM newest"), "ok 11.0;");
		store_close(a);
	}
}

/* Races of a run that are younger than the last good control. */
static void a_run_is_disbelieved(void **state)
{
	struct measurement wrong = { .outcome = OUTCOME_WRONG, .detail = "1 is right" };
	struct measurement tied = measured(20);
	(void)state;
	struct store *s = fresh("credit.sqlite");
	const long long first = store_begin_run(s, &h200);
	assert_int_equal(store_last_race(s, first), 0);
	add(s, first, "q1s1k", "segmented", 0, measured(10));
	const long long run = store_begin_run(s, &h200);
	add(s, run, "8q1s2k", "segmented", 0, measured(30));
	const long long good = store_last_race(s, run);
	assert_true(good > 0);
	snprintf(tied.stopped, sizeof tied.stopped, "tie");
	add(s, run, "q1s1k", "segmented", 0, measured(99)); /* measured again */
	add(s, run, "q1s1k", "segmented", 1, tied);
	add(s, run, "q1s1k", "segmented", 2, wrong);
	assert_int_equal(store_disbelieve(s, run, good), 1);
	assert_string_equal(ask(s, "SELECT batch, outcome, median_us, stopped FROM newest ORDER BY "
				   "batch, variant_id"),
			    "8q1s2k ok 31.0 interval;q1s1k ok 11.0 interval;q1s1k noisy 21.0 tie;"
			    "q1s1k wrong - -;");
	assert_true(has(s, "q1s1k", 0));
	assert_false(has(s, "q1s1k", 1));
	assert_true(has(s, "8q1s2k", 0));
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(noise_counts_as_missing),
		cmocka_unit_test(noise_never_replaces_a_time),
		cmocka_unit_test(noise_is_merged_behind_times),
		cmocka_unit_test(a_run_is_disbelieved),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("noisy rows", tests, make_folder, remove_folder);
}
