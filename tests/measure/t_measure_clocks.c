/* SPDX-License-Identifier: Apache-2.0 */
/* t_measure_clocks.c - samples of a race that do not count: disturbed, too fast, or taken at another
 * clock; and the power of a race. */
#include <stdio.h>
#include <time.h>
#include "tests/support/fake_race.h"
#include "tests/support/heard.h"

static int samples_seen;
/* Every third sample was disturbed. */
static double third(const struct device *d)
{
	(void)d;
	return ++samples_seen % 3 ? 1 : 0.5;
}

static double third_is_slow(int who, int nth)
{
	(void)who;
	return nth && nth % 3 == 0 ? 500 : 100;
}

static void disturbed_samples_are_taken_again(void **state)
{
	(void)state;
	struct race race = race_of(1);
	fake.script = third_is_slow;
	race.share = third;
	samples_seen = 0; /* the third of all samples, not counting the one for the calls */
	measure_race(&dev, &race);
	const struct measurement *m = &timed_call[0].m;
	assert_int_equal(m->samples, 6);
	assert_true(m->rejected > 0);
	for (int i = 0; i < m->samples; i++)
		assert_true(fabs((double)m->us[i] - 100) < 1e-9);
}

/* Other programs run during its first sample and its second, which are slow therefore. */
static double held_up(int who, int nth)
{
	return who == 1 && nth < 2 ? 5000 : 100;
}

static double when_held_up(const struct device *d)
{
	(void)d;
	const int who = fake.sample[fake.num_samples - 1].who;
	return who == 1 && fake.nth[who] <= 2 ? 0.4 : 1;
}

static void a_contender_held_up_is_not_slow(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = held_up;
	race.share = when_held_up;
	measure_race(&dev, &race);
	assert_string_equal(timed_call[1].m.stopped, "tie");
	race = race_of(2);
	race.share = share;
	fake.share = 0.4; /* never alone */
	fake.us[1] = 290;
	measure_race(&dev, &race);
	assert_true(timed_call[1].m.samples > 1);
}

static void disturbed_samples_are_no_data(void **state)
{
	static const struct {
		double share;
		enum outcome outcome;
	} rows[] = { { 0.6, OUTCOME_NOISY }, { 0.89, OUTCOME_NOISY }, { 0.95, OUTCOME_OK } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct race race = race_of(2);
		fake.share = rows[i].share; /* all samples agree, and all are too long alike */
		measure_race(&dev, &race);
		assert_int_equal(timed_call[1].m.outcome, rows[i].outcome);
		assert_string_equal(timed_call[1].m.stopped, "noisy");
		assert_int_equal(timed_call[1].m.rejected, 3 * timed_call[1].m.samples);
	}
}

/* Every other program that the clock does not see: one sample in two takes twice as long, of
 * each contender at other rounds. Contender 0 is still. */
static double bimodal(int who, int nth)
{
	return who && (nth >> who) % 2 ? 210 : 100;
}

static void a_wide_interval_is_no_time(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.script = bimodal;
	race.fixed_rounds = 12;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.outcome, OUTCOME_OK);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(timed_call[i].m.outcome, OUTCOME_NOISY);
		assert_string_equal(timed_call[i].m.stopped, "rounds");
		assert_non_null(strstr(timed_call[i].m.detail, "may be off by"));
		assert_true(timed_call[i].m.samples == 12 && timed_call[i].m.median_us > 0);
	}
}

/* The median of two rounds, if the clock strayed in the others. */
static void few_samples_are_no_time(void **state)
{
	static const struct {
		const char *stopped;
		int kept;
		double share;
		float us[3];
		enum outcome outcome;
	} rows[] = {
		{ "tie", 3, 1, { 100, 101, 102 }, OUTCOME_OK },
		{ "budget", 2, 1, { 100, 100, 0 }, OUTCOME_NOISY },
		{ "rounds", 0, 1, { 100, 0, 0 }, OUTCOME_NOISY }, /* the screen's alone */
		/* a contender that is out early keeps a time with that mark */
		{ "slow", 0, 1, { 400, 0, 0 }, OUTCOME_OK },
		{ "beaten", 2, 1, { 120, 121, 0 }, OUTCOME_OK },
		{ "beaten", 2, 1, { 120, 200, 0 }, OUTCOME_OK },
		/* unless it may have been another program that beat it */
		{ "beaten", 2, 0.5, { 120, 121, 0 }, OUTCOME_NOISY },
		{ "beaten", 2, 0.95, { 120, 121, 0 }, OUTCOME_OK },
		{ "beaten", 2, 0.95, { 120, 200, 0 }, OUTCOME_NOISY },
		{ "tie", 3, 0.95, { 100, 101, 102 }, OUTCOME_OK },
		{ "tie", 3, 0.95, { 100, 120, 140 }, OUTCOME_NOISY },
		{ "tie", 3, 1, { 100, 112, 124 }, OUTCOME_OK },
		{ "tie", 3, 1, { 100, 150, 200 }, OUTCOME_NOISY },
		{ "tie", 3, 1, { 100, 101, 500 }, OUTCOME_OK }, /* one far out */
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct measurement m = { .outcome = OUTCOME_OK, .ci_us = NAN };
		double us[3];
		while (m.samples < 3 && rows[i].us[m.samples] > 0) {
			us[m.samples] = (double)rows[i].us[m.samples];
			m.us[m.samples] = rows[i].us[m.samples];
			m.samples++;
		}
		m.median_us = median(us, m.samples);
		snprintf(m.stopped, sizeof m.stopped, "%s", rows[i].stopped);
		noise_mark_time(&m, rows[i].kept, rows[i].share);
		if (m.outcome != rows[i].outcome)
			print_error("row %zu: %s\n", i, m.detail);
		assert_int_equal(m.outcome, rows[i].outcome);
		assert_int_equal(*m.detail != '\0', m.outcome == OUTCOME_NOISY);
	}
	struct measurement wrong = { .outcome = OUTCOME_WRONG, .samples = 1 };
	noise_mark_time(&wrong, 0, 0.1);
	assert_int_equal(wrong.outcome, OUTCOME_WRONG);
}

static void too_fast_is_wrong(void **state)
{
	(void)state;
	struct race race = race_of(3);
	timed_call[0].bound_us = 190; /* 100 us is more than half of it */
	timed_call[1].bound_us = 210;
	timed_call[2].bound_us = 210;
	fake.right = 1;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.outcome, OUTCOME_OK);
	assert_int_equal(fake.looked[0], 0);
	assert_int_equal(timed_call[1].m.outcome, OUTCOME_WRONG);
	assert_int_equal(fake.looked[1], 1);
	assert_non_null(strstr(timed_call[1].m.detail, "100.000 us twice"));

	race = race_of(2);
	timed_call[1].bound_us = 210;
	fake.right = 0;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.outcome, OUTCOME_WRONG);
	assert_non_null(strstr(timed_call[1].m.detail, "output is wrong"));
}

/* Too fast at first, and in the rounds; sound when timed again. */
static double lied(int who, int nth)
{
	return who == 1 && nth < 2 ? 10 : 100;
}

static double lied_later(int who, int nth)
{
	return who == 1 && nth >= 2 && nth < 5 ? 10 : 100;
}

static void a_clock_that_lied_once_is_forgiven(void **state)
{
	(void)state;
	struct protocol p = usual;
	p.min_rounds = p.max_rounds = 3;
	for (int later = 0; later < 2; later++) {
		struct race race = race_of(2);
		race.protocol = &p;
		fake.script = later ? lied_later : lied;
		fake.right = 1;
		timed_call[1].bound_us = 90;
		measure_race(&dev, &race);
		assert_int_equal(fake.looked[1], 1);
		/* no round is left, and one sample is no time to learn from */
		assert_int_equal(timed_call[1].m.outcome, later ? OUTCOME_NOISY : OUTCOME_OK);
		assert_true(fabs(timed_call[1].m.median_us - 100) < 1e-6);
	}
}

/* Contender 1 in its second round. */
static double far_out_once(int who, int nth)
{
	return who == 1 && nth == 3 ? 160 : 100;
}

static void one_sample_far_out_is_forgiven(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.script = far_out_once;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.samples, 6);
	assert_true(fabs(timed_call[1].m.lead - 1) < 1e-6);
}

static void impossible_times_eliminate_no_contender(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.us[1] = 10;
	for (int i = 0; i < 3; i++)
		timed_call[i].bound_us = 90;
	fake.right = 1;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.outcome, OUTCOME_WRONG);
	assert_int_equal(fake.told[1], 1);
	assert_int_equal(timed_call[2].m.samples, 6);
	assert_string_equal(timed_call[2].m.stopped, "tie");
}

/* ---- clocks -------------------------------------------------------------------- */

static void throttled_rounds_are_run_again(void **state)
{
	(void)state;
	struct race race = race_of(2);
	dev.info.clock_mhz = 1980;
	fake.slow_looks = 3; /* one after each sample, one after the round */
	measure_race(&dev, &race);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(timed_call[i].m.rejected, 1);
		assert_int_equal(timed_call[i].m.samples, 6);
		assert_int_equal(fake.nth[i], 2 + !i + 7);
	}
	assert_true(fabs(timed_call[0].m.sm_mhz_before - 1500) < 1e-9);
	dev.info.clock_mhz = 0;
}

/* A throttled race says its clock, and the next one at the same clock says nothing. */
static void throttling_is_said_with_its_size(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct race race = race_of(2);
		dev.info.clock_mhz = 1990;
		fake.slow_looks = 3;
		listen_begin();
		measure_race(&dev, &race);
		assert_int_equal(
		    strstr(heard(), "its clock is 1000 MHz, 50 % below 1990 MHz") != NULL, !i);
	}
	dev.info.clock_mhz = 0;
}

static void a_slow_device_is_measured_nevertheless(void **state)
{
	(void)state;
	struct race race = race_of(1);
	dev.info.clock_mhz = 2100;
	fake.slow_looks = 1000;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.samples, 6);
	assert_int_equal(timed_call[0].m.rejected, 3);
	assert_true(fabs(timed_call[0].m.sm_mhz_before - 1000) < 1e-9);
	assert_int_equal(fake.counted, 0); /* its power is known without the slow counter */
	dev.info.clock_mhz = 0;
}

/* Each of three contenders has all its samples. Returns how many were rejected. */
static int count_rejected(void)
{
	int rejected = 0;
	for (int i = 0; i < 3; i++) {
		rejected += timed_call[i].m.rejected;
		assert_int_equal(timed_call[i].m.samples, 6);
	}
	return rejected;
}

static void samples_at_another_clock_are_taken_again(void **state)
{
	(void)state;
	struct race race = race_of(3);
	dev.info.clock_mhz = 1600;
	fake.odd_look = 2; /* the second sample of the first round */
	measure_race(&dev, &race);
	assert_int_equal(count_rejected(), 1);
	dev.info.clock_mhz = 0;
}

static void a_clock_that_wanders_loses_no_sample(void **state)
{
	(void)state;
	struct race race = race_of(3);
	dev.info.clock_mhz = 1600;
	fake.wandering = 1;
	measure_race(&dev, &race);
	assert_true(count_rejected() > 6);
	dev.info.clock_mhz = 0;
}

static void steady_races_settle_first(void **state)
{
	(void)state;
	struct race race = race_of(2);
	struct protocol p = usual;
	p.name = "graph-rotating";
	protocol_steady(&p);
	assert_string_equal(p.name, "graph-rotating-steady");
	assert_true(p.settle_s >= 1);
	p.settle_s = 0.5; /* the race may wait five times as long: enough on a busy machine */
	race.protocol = &p;
	fake.warming_looks = 8;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.samples, 6);
	assert_true(fake.looks > 8 + 6); /* four windows would be enough of time */
	assert_true(fake.num_samples > first_of_rounds(2) + 2 * 6 + 8);
	assert_true(fabs(timed_call[0].m.power_w - 600) < 1e-9);
}

/* Of three the last is beaten, and keeps the power of the race. */
static void the_last_contenders_have_their_own_power(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct protocol p = usual;
	p.hold_s = 0.05;
	race.protocol = &p;
	fake.us[2] = 130;
	fake.watts[0] = 200;
	fake.watts[1] = 400;
	fake.watts[2] = 300;
	measure_race(&dev, &race);
	assert_true(fabs(timed_call[0].m.power_w - 200) < 20);
	assert_true(fabs(timed_call[1].m.power_w - 400) < 40);
	assert_true(fabs(timed_call[2].m.power_w - 600) < 1e-9);
	assert_true(fabs(timed_call[1].m.joules - timed_call[1].m.power_w * 100e-6) < 1e-9);
	assert_int_equal(timed_call[0].m.samples, 6);
}

static void without_a_counter_power_is_the_races(void **state)
{
	(void)state;
	struct race race = race_of(2);
	struct protocol p = usual;
	p.hold_s = 10;
	race.protocol = &p;
	measure_race(&dev, &race);
	assert_true(fabs(timed_call[0].m.power_w - 600) < 1e-9);
	assert_int_equal(fake.looks, 6);
}

/* It is waited for, but not for ever. */
static void a_counter_that_stands_still_is_none(void **state)
{
	(void)state;
	struct race race = race_of(2);
	struct protocol p = usual;
	p.hold_s = 0.01;
	race.protocol = &p;
	fake.joules = 5;
	measure_race(&dev, &race);
	assert_true(fabs(timed_call[0].m.power_w - 600) < 1e-9);
	assert_true(fake.counted > 1);
}

static double takes_30_ms(int who, int nth)
{
	const struct timespec t = { .tv_nsec = 30000000 };
	(void)who, (void)nth;
	nanosleep(&t, NULL);
	return 100;
}

/* From the first round to the last. */
static void without_a_power_the_counter_gives_it(void **state)
{
	(void)state;
	struct race race = race_of(1);
	fake.blind = 1;
	fake.script = takes_30_ms;
	fake.watts[0] = 250;
	measure_race(&dev, &race);
	assert_true(fabs(timed_call[0].m.power_w - 250) < 1);
	assert_int_equal(fake.counted, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disturbed_samples_are_taken_again),
		cmocka_unit_test(a_contender_held_up_is_not_slow),
		cmocka_unit_test(disturbed_samples_are_no_data),
		cmocka_unit_test(a_wide_interval_is_no_time),
		cmocka_unit_test(few_samples_are_no_time),
		cmocka_unit_test(too_fast_is_wrong),
		cmocka_unit_test(a_clock_that_lied_once_is_forgiven),
		cmocka_unit_test(impossible_times_eliminate_no_contender),
		cmocka_unit_test(one_sample_far_out_is_forgiven),
		cmocka_unit_test(throttling_is_said_with_its_size),
		cmocka_unit_test(throttled_rounds_are_run_again),
		cmocka_unit_test(a_slow_device_is_measured_nevertheless),
		cmocka_unit_test(samples_at_another_clock_are_taken_again),
		cmocka_unit_test(a_clock_that_wanders_loses_no_sample),
		cmocka_unit_test(steady_races_settle_first),
		cmocka_unit_test(the_last_contenders_have_their_own_power),
		cmocka_unit_test(without_a_counter_power_is_the_races),
		cmocka_unit_test(a_counter_that_stands_still_is_none),
		cmocka_unit_test(without_a_power_the_counter_gives_it),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
