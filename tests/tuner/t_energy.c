/* SPDX-License-Identifier: Apache-2.0 */
/* t_energy.c - what the power readings of a choice are of. */
#include "tests/store/store_fixture.h"
#include "tuner/data/data.h"

/* Four of one race in a database: two take the race's power, two have run alone; and one of
 * another race, without a reading. */
static struct data *race_by(const char *protocol)
{
	static const double watts[] = { 600, 600, 650, 500 };
	struct run_info info = h200;
	struct store *s = fresh("energy.sqlite");
	snprintf(info.protocol, sizeof info.protocol, "%s", protocol);
	const long long run = store_begin_run(s, &info);
	struct measurement m = measured(50);
	for (int i = 0; i < (int)COUNT(watts); i++) {
		m.power_w = watts[i];
		add(s, run, "8q1s4k", "qblock", i, m);
	}
	m.power_w = NAN;
	add(s, run, "9q1s4k", "qblock", 0, m);
	store_close(s);
	struct data *d =
	    data_load_as(in_folder("energy.sqlite"), "h200", (struct which_rows){ .stale = 1 });
	assert_non_null(d);
	assert_int_equal(d->n, 2);
	return d;
}

static enum power_of power_of(const struct data *d, int s, int point)
{
	const struct choice c = choice_at("qblock", point);
	return data_cell(d, s, PHASE_DECODE, data_find(d, &c))->power_of;
}

static void unshared_readings_are_a_choices_own(void **state)
{
	struct data *d = race_by("graph-rotating-steady");
	(void)state;
	assert_int_equal(power_of(d, 0, 0), POWER_RACE);
	assert_int_equal(power_of(d, 0, 1), POWER_RACE);
	assert_int_equal(power_of(d, 0, 2), POWER_ALONE);
	assert_int_equal(power_of(d, 0, 3), POWER_ALONE);
	assert_int_equal(power_of(d, 1, 0), POWER_UNKNOWN);
	data_free(d);
}

static void bursts_tell_of_what_is_around_them(void **state)
{
	struct data *d = race_by("graph-rotating");
	(void)state;
	assert_int_equal(power_of(d, 0, 1), POWER_AROUND);
	assert_int_equal(power_of(d, 0, 2), POWER_AROUND);
	assert_int_equal(power_of(d, 1, 0), POWER_UNKNOWN);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unshared_readings_are_a_choices_own),
		cmocka_unit_test(bursts_tell_of_what_is_around_them),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("energy", tests, make_folder, remove_folder);
}
