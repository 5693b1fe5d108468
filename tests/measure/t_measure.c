/* SPDX-License-Identifier: Apache-2.0 */
/* t_measure.c - the rules of a race: the order of samples, elimination, and what is reported. */
#include "tests/support/fake_race.h"

static void each_round_samples_each_once(void **state)
{
	(void)state;
	struct race race = race_of(4);
	int seen_orders = 0;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
	int at = first_of_rounds(4);
	assert_int_equal((fake.num_samples - at) % 4, 0);
	assert_int_equal((fake.num_samples - at) / 4, timed_call[0].m.samples);
	for (int round = 0; at < fake.num_samples; at += 4, round++) {
		int seen = 0;
		for (int i = 0; i < 4; i++)
			seen |= 1 << fake.sample[at + i].who;
		assert_int_equal(seen, 15);
		seen_orders |= 1 << fake.sample[at].who;
	}
	assert_true(seen_orders & (seen_orders - 1)); /* not always the same one first */
	assert_int_equal(fake.live_tapes, 0);
}

static void the_reference_is_reported_last(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.us[2] = 1000;
	measure_race(&dev, &race);
	assert_int_equal(fake.num_told, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fake.told[i], 1);
		assert_int_equal(fake.order_told[i], 3 - i);
	}
}

/* Each third sample has no time. */
static double timeless(int who, int nth)
{
	return nth % 3 == who % 3 ? (who == 1 ? 0 : -1) : 100;
}

static void samples_without_a_time_are_taken_again(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.script = timeless;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(timed_call[i].m.outcome, OUTCOME_OK);
		assert_true(timed_call[i].m.min_us == 100);
	}
}

static void slow_ones_go(void **state)
{
	(void)state;
	struct race race = race_of(5);
	fake.us[0] = 400; /* the reference rests as soon as its ratio is known */
	fake.us[2] = 250; /* beyond twice the best: the screen */
	fake.us[3] = 150; /* beyond screen_ratio: one round */
	fake.us[4] = 120; /* beaten at the first look */
	measure_race(&dev, &race);
	static const struct {
		int samples, calls;
		const char *stopped;
		double lead;
	} want[] = { { 2, 10, "beaten", 4 },
		     { 6, 10, "settled", 1 },
		     { 1, 1, "slow", 2.5 },
		     { 1, 10, "slow", 1.5 },
		     { 2, 10, "beaten", 1.2 } };
	for (int i = 0; i < 5; i++) {
		const struct measurement *m = &timed_call[i].m;
		assert_int_equal(m->outcome, OUTCOME_OK);
		assert_int_equal(m->samples, want[i].samples);
		assert_int_equal(m->calls, want[i].calls);
		assert_string_equal(m->stopped, want[i].stopped);
		assert_true(fabs(m->lead - want[i].lead) < 1e-6);
		assert_true(fabs(m->ratio - fake.us[i] / 400) < 1e-6);
	}
	assert_true(timed_call[4].m.lead_low > 1 && timed_call[4].m.lead_low < 1.2);
	assert_true(isnan(timed_call[2].m.lead_low));
}

static void quiet_ones_stop_early(void **state)
{
	(void)state;
	struct race race = race_of(2);
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.samples, usual.min_rounds);
	assert_string_equal(timed_call[1].m.stopped, "tie");
	assert_true(timed_call[1].m.ci_us == 0);
}

static double wild(int who, int nth)
{
	(void)who;
	return nth % 2 ? 100 : 120;
}

static void noisy_ones_use_all_rounds(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = wild;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.samples, usual.max_rounds);
	assert_string_equal(timed_call[1].m.stopped, "rounds");
	assert_true(timed_call[1].m.ci_us > 5);
}

static void budget_ends_after_three_rounds(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct protocol p = usual;
	p.seconds = 0;
	race.protocol = &p;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.samples, LEAST_SAMPLES);
	assert_int_equal(timed_call[0].m.outcome, OUTCOME_OK);
	assert_string_equal(timed_call[0].m.stopped, "budget");
	assert_int_equal(fake.told[0], 1);
	assert_int_equal(fake.told[2], 0); /* never begun: reports nothing */
	assert_int_equal(timed_call[2].m.samples, 0);
}

static void short_calls_are_joined(void **state)
{
	(void)state;
	struct race race = race_of(2);
	race.sets = 8;
	fake.us[0] = 30; /* 34 would do for 1000 us; sets come round in 40 */
	fake.us[1] = 35; /* alike for all */
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.calls, 40);
	assert_int_equal(timed_call[1].m.calls, 40);
	for (int i = first_of_rounds(2); i < fake.num_samples; i++)
		assert_int_equal(fake.sample[i].first_set, 0);
}

static void long_calls_rotate_sets(void **state)
{
	(void)state;
	struct race race = race_of(3);
	race.sets = 4;
	for (int i = 0; i < 3; i++)
		fake.us[i] = 15000; /* one call is a sample */
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.calls, 1);
	for (int i = 1; i < fake.num_samples; i++)
		assert_int_equal(fake.sample[i].first_set, (fake.sample[i - 1].first_set + 1) % 4);
	assert_true(fake.longest_told > 0.0149);
}

static double drifting(int who, int nth)
{
	static const double of[] = { 100, 120 };
	return of[who] * (1 + 0.1 * ((nth + who) % 7)); /* contender 0 sets the calls */
}

static void ratio_is_of_the_same_round(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = drifting;
	race.fixed_rounds = 6;
	measure_race(&dev, &race);
	assert_true(fabs(timed_call[1].m.ratio - 1.2) < 1e-6);
	assert_true(fabs(timed_call[0].m.ratio - 1) < 1e-6);
	assert_true(timed_call[1].m.ci_us > 5);
}

/* Contender 2 is slower in rounds that the reference, which is beaten, does not take. */
static double later_slower(int who, int nth)
{
	static const double of[] = { 130, 100, 100.2 };
	return of[who] + (who == 2 && nth > 3 ? 0.2 : 0);
}

static void all_rounds_count_in_the_ratio(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.script = later_slower;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[0].m.samples, 2);
	assert_true(fabs(timed_call[1].m.ratio - 100 / 130.0) < 1e-3);
	assert_true(fabs(timed_call[2].m.ratio - timed_call[1].m.ratio * timed_call[2].m.lead) <
		    1e-9);
	assert_true(timed_call[2].m.ratio > 100.25 / 130);
}

/* Far out is the reference's sample, and so in the one round that contender 2 took. */
static double reference_far_out(int who, int nth)
{
	static const double of[] = { 100, 95, 140, 96 };
	return of[who] * (who == 0 && nth == 2 ? 2 : 1);
}

static void one_round_is_compared_with_all(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.script = reference_far_out;
	measure_race(&dev, &race);
	assert_string_equal(timed_call[2].m.stopped, "slow");
	assert_int_equal(timed_call[2].m.samples, 1);
	assert_true(fabs(timed_call[2].m.ratio - 1.4) < 0.01);
	assert_true(fabs(timed_call[2].m.lead - 140 / 95.0) < 0.01);
}

static double climb(int who, int nth)
{
	(void)who;
	return 100 + nth;
}

static void figures_follow_from_the_samples(void **state)
{
	(void)state;
	struct race race = race_of(1);
	fake.script = climb;
	race.fixed_rounds = 12;
	timed_call[0].bytes = 1e9;
	timed_call[0].flops = 4e9;
	measure_race(&dev, &race);
	const struct measurement *m = &timed_call[0].m;
	assert_int_equal(m->samples, 12);
	assert_true(fabs(m->min_us - m->us[0]) < 1e-6);
	assert_true(fabs(m->median_us - (m->min_us + 5.5)) < 1e-4);
	assert_true(fabs(m->gbps - 1e6 / m->median_us) < 1e-3);
	assert_true(fabs(m->tflops - 4e3 / m->median_us) < 1e-3);
	assert_true(fabs(m->power_w - 600) < 1e-9);
	assert_true(fabs(m->joules - 600e-6 * m->median_us) < 1e-9);
	assert_true(fabs(m->sm_mhz_before - 1500) < 1e-9);
}

static void fixed_rounds_drop_no_contender(void **state)
{
	(void)state;
	struct race race = race_of(3);
	race.fixed_rounds = 5;
	fake.us[1] = 300;
	fake.us[2] = 130;
	measure_race(&dev, &race);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(timed_call[i].m.samples, 5);
		assert_string_equal(timed_call[i].m.stopped, "rounds");
	}
	assert_true(fabs(timed_call[2].m.lead - 1.3) < 1e-6);
}

static void time_spent_is_reported(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.us[1] = 300;
	measure_race(&dev, &race);
	/* two calls to see, a sample to count the calls, six samples of ten */
	assert_true(fabs(timed_call[0].m.device_us - 100 * (2 + 10 + 60)) < 1e-6);
	assert_true(fabs(timed_call[1].m.device_us - 2 * 300) < 1e-6);
	assert_true(timed_call[0].m.wall_us > 0);
}

static void a_refused_launch_is_a_result(void **state)
{
	(void)state;
	struct race race = race_of(3);
	timed_call[1].call = refuse;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
	assert_int_equal(timed_call[1].m.outcome, OUTCOME_RESOURCES);
	assert_string_equal(timed_call[1].m.detail, "too much shared memory");
	assert_int_equal(timed_call[2].m.outcome, OUTCOME_OK);
	assert_int_equal(timed_call[2].m.samples, 6);
	assert_int_equal(fake.live_tapes, 0);
}

static void a_lost_device_ends_the_race(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.lost = 1;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_DEVICE_ERROR);
	assert_int_equal(timed_call[1].m.outcome, OUTCOME_CRASH);
	assert_int_equal(fake.told[1], 1);
	assert_int_equal(fake.told[0] + fake.told[2], 0);
	assert_int_equal(fake.live_tapes, 0);
}

static void presets_are_known_words(void **state)
{
	(void)state;
	struct protocol p;
	const struct device_info gpu = { .backend = BACKEND_GPU, .l2_bytes = 50 << 20 };
	const struct device_info cpu = { .backend = BACKEND_CPU, .l2_bytes = 100 << 20 };
	assert_true(protocol_for(&p, &gpu, "full"));
	assert_string_equal(p.name, "graph-rotating");
	assert_true(p.cold_bytes >= 400u << 20);
	assert_true(protocol_for(&p, &cpu, "quick"));
	assert_true(p.cold_bytes == 200u << 20);
	assert_false(protocol_for(&p, &cpu, "slow"));
	static const char *const presets[] = { "smoke", "quick", "full" };
	for (int i = 0; i < 3; i++) {
		assert_true(protocol_for(&p, &gpu, presets[i]));
		assert_true(p.max_rounds <= MAX_SAMPLES && p.min_rounds <= p.max_rounds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_round_samples_each_once),
		cmocka_unit_test(the_reference_is_reported_last),
		cmocka_unit_test(samples_without_a_time_are_taken_again),
		cmocka_unit_test(slow_ones_go),
		cmocka_unit_test(quiet_ones_stop_early),
		cmocka_unit_test(noisy_ones_use_all_rounds),
		cmocka_unit_test(budget_ends_after_three_rounds),
		cmocka_unit_test(short_calls_are_joined),
		cmocka_unit_test(long_calls_rotate_sets),
		cmocka_unit_test(ratio_is_of_the_same_round),
		cmocka_unit_test(all_rounds_count_in_the_ratio),
		cmocka_unit_test(one_round_is_compared_with_all),
		cmocka_unit_test(figures_follow_from_the_samples),
		cmocka_unit_test(fixed_rounds_drop_no_contender),
		cmocka_unit_test(time_spent_is_reported),
		cmocka_unit_test(a_refused_launch_is_a_result),
		cmocka_unit_test(a_lost_device_ends_the_race),
		cmocka_unit_test(presets_are_known_words),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
