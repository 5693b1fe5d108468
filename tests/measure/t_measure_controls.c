/* SPDX-License-Identifier: Apache-2.0 */
/* t_measure_controls.c - A/A controls of a race: the fastest contender runs twice, and a race whose two
 * times of it differ is noise. */
#include <stdio.h>
#include "tests/support/fake_race.h"

/* ---- controls ------------------------------------------------------------------ */

static void the_fastest_runs_twice(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.us[2] = 95;
	measure_race(&dev, &race);
	assert_int_equal(control.of, 2);
	assert_int_equal(control.rounds, timed_call[2].m.samples);
	assert_true(fabs(control.ratio - 1) < 1e-6 && fabs(control.median_us - 95) < 1e-6);
	assert_true(control.device_us > 0);
	/* the control samples as often: the best has one more for the calls, two for the screen */
	assert_int_equal(fake.nth[2], 2 * timed_call[2].m.samples + 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fake.told[i], 1);
	assert_int_equal(fake.live_tapes, 0);
}

/* The fastest is contender 2. Its control gets samples 3, 5, 7 ... or 4, 6, 8 ... by the order
 * of the round; the pairs differ by `factor` in any case. */
static double factor;
static double two_speeds(int who, int nth)
{
	return who == 2 ? (nth < 3 || nth % 2 ? 90 : 90 * factor) : 100;
}

static void a_race_whose_control_is_off_is_noise(void **state)
{
	static const struct {
		double factor;
		int is_noise;
	} rows[] = { { 1, 0 }, { 1.19, 0 }, { 1.3, 1 }, { 116, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct race race = race_of(3);
		struct protocol p = usual;
		struct control control;
		p.min_rounds = p.max_rounds = 3;
		race.protocol = &p;
		race.control = &control;
		race.fixed_rounds = 3;
		fake.script = two_speeds;
		factor = rows[i].factor;
		measure_race(&dev, &race);
		assert_int_equal(control.of, 2);
		assert_int_equal(noise_in_control(&control), rows[i].is_noise);
		for (int k = 0; k < 3; k++) {
			if (!rows[i].is_noise && k == 2)
				continue; /* itself it has two speeds */
			assert_int_equal(timed_call[k].m.outcome,
					 rows[i].is_noise ? OUTCOME_NOISY : OUTCOME_OK);
		}
		if (rows[i].is_noise)
			assert_non_null(
			    strstr(timed_call[0].m.detail, "the same choice twice differs"));
	}
	const struct control none = { 0 }, half = { .rounds = 1, .ratio = 0.57 };
	assert_false(noise_in_control(&none));
	assert_true(noise_in_control(&half));
	assert_float_equal(noise_of_control(&half), 1 / 0.57 - 1, 1e-9);
}

/* Contender 1 is the fastest in the screen and beaten later. */
static double fades(int who, int nth)
{
	return who == 1 ? nth < 3 ? 90 : 120 : 100;
}

static void a_control_goes_with_its_original(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.script = fades;
	measure_race(&dev, &race);
	assert_string_equal(timed_call[1].m.stopped, "beaten");
	assert_int_equal(control.of, 1);
	assert_int_equal(control.rounds, 2);
	assert_int_equal(fake.nth[1], 3 + 2 * 2);
	assert_int_equal(fake.live_tapes, 0);
}

/* The reference is the fastest in the screen, and rests later. */
static double tires(int who, int nth)
{
	return who == 0 ? nth < 3 ? 90 : 120 : 100;
}

static void a_control_rests_with_the_reference(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.script = tires;
	measure_race(&dev, &race);
	assert_int_equal(timed_call[1].m.samples, 6);
	assert_int_equal(control.rounds, 2);
	assert_int_equal(fake.nth[0], 3 + 2 * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_race_whose_control_is_off_is_noise),
		cmocka_unit_test(the_fastest_runs_twice),
		cmocka_unit_test(a_control_goes_with_its_original),
		cmocka_unit_test(a_control_rests_with_the_reference),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
