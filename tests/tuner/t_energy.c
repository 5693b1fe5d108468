/* t_energy.c - what the power readings of a choice are of. */
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <cmocka.h>

static const char steady[] = "graph-rotating-steady";

static void add(struct data *d, const char *protocol, const char *batch, const char *phase,
		const char *choice, double us, double watts)
{
	const int plan = !strcmp(phase, "plan");
	struct store_cell c = cell_like(batch, phase, plan ? "plan" : "qblock",
					plan ? choice : with("qblock", choice), us);
	c.protocol = protocol;
	c.joules = watts * us / 1e6;
	assert_true(data_add(d, &c));
}

/* The cell of a choice that differs from the defaults in this. */
static const struct cell *cell(const struct data *d, int s, enum phase phase, const char *choice)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, "qblock") };
	const char *where;
	assert_true(config_parse(&c.config, c.kernel->space, with("qblock", choice), &where));
	return data_cell(d, s, phase, data_find(d, &c));
}

/* Four of one race: two take the race's power, two have run alone. */
static struct data *race_by(const char *protocol)
{
	struct data *d = data_new("h200", &h200_run);
	add(d, protocol, "8q1s4k", "decode", "BLOCK_M=32", 50, 600);
	add(d, protocol, "8q1s4k", "decode", "TILE_SIZE=32", 60, 600);
	add(d, protocol, "8q1s4k", "decode", "TILE_SIZE=64", 40, 650);
	add(d, protocol, "8q1s4k", "decode", "TILE_SIZE=128", 41, 500);
	add(d, protocol, "9q1s4k", "decode", "BLOCK_M=32", 50, NAN);
	assert_true(data_finish(d));
	return d;
}

static void unshared_readings_are_a_choices_own(void **state)
{
	struct data *d = race_by(steady);
	(void)state;
	assert_int_equal(cell(d, 0, PHASE_DECODE, "BLOCK_M=32")->power_of, POWER_RACE);
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=32")->power_of, POWER_RACE);
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=64")->power_of, POWER_ALONE);
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=128")->power_of, POWER_ALONE);
	assert_int_equal(cell(d, 1, PHASE_DECODE, "BLOCK_M=32")->power_of, POWER_UNKNOWN);
	data_free(d);
}

static void bursts_tell_of_what_is_around_them(void **state)
{
	struct data *d = race_by("graph-rotating");
	(void)state;
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=64")->power_of, POWER_AROUND);
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=32")->power_of, POWER_AROUND);
	assert_int_equal(cell(d, 1, PHASE_DECODE, "BLOCK_M=32")->power_of, POWER_UNKNOWN);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unshared_readings_are_a_choices_own),
		cmocka_unit_test(bursts_tell_of_what_is_around_them),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("energy", tests, NULL, NULL);
}
