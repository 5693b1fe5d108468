/* t_energy.c - the power readings that count for a choice, and the energy that reports give for
 * picks. */
#include "tests/support/synthetic.h"
#include "tuner/eval/eval.h"
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
	assert_int_equal(d->powered[POWER_RACE], 2);
	assert_int_equal(d->powered[POWER_ALONE], 2);
	data_free(d);
}

static void bursts_tell_of_what_is_around_them(void **state)
{
	struct data *d = race_by("graph-rotating");
	(void)state;
	assert_int_equal(cell(d, 0, PHASE_DECODE, "TILE_SIZE=64")->power_of, POWER_AROUND);
	assert_int_equal(d->powered[POWER_AROUND], 4);
	assert_int_equal(d->powered[POWER_ALONE], 0);
	data_free(d);
}

/* The fastest takes 26 mJ, the thriftiest 20.5, and one that shares its power less yet. */
static void picks_are_held_against_both(void **state)
{
	static const struct {
		const char *choice;
		double to_fastest, to_least;
	} rows[] = { { "TILE_SIZE=64", 1, 26. / 20.5 }, { "TILE_SIZE=128", 20.5 / 26, 1 } };
	struct data *d = race_by(steady);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct energy e = { 0 };
		energy_count(d, 0, cell(d, 0, PHASE_DECODE, rows[i].choice), &e);
		assert_int_equal(e.n, 1);
		assert_true(fabs(exp(e.to_fastest) - rows[i].to_fastest) < 1e-9);
		assert_true(fabs(exp(e.to_least) - rows[i].to_least) < 1e-9);
		assert_true(fabs(e.worst - rows[i].to_least) < 1e-9);
	}
	data_free(d);
}

static void picks_without_power_of_their_own_have_no_energy(void **state)
{
	struct data *d = race_by(steady);
	struct energy e = { 0 };
	(void)state;
	energy_count(d, 0, cell(d, 0, PHASE_DECODE, "BLOCK_M=32"), &e);
	energy_count(d, 0, NULL, &e);
	assert_int_equal(e.n, 0);
	data_free(d);
}

/* One launch 100 us at 400 W; both ways to compose it at 60 us, one of them at less. */
static void composed_plans_are_rivals(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	char text[2][400];
	struct energy e = { 0 };
	(void)state;
	for (int i = 0; i < 2; i++)
		snprintf(text[i], sizeof text[i], "prefill: qblock %s %s decode: qblock %s",
			 with("qblock", ""), i ? "||" : "|", with("qblock", ""));
	add(d, steady, "q512_8q1s4k", "prefill", "", 50, 400);
	add(d, steady, "q512_8q1s4k", "decode", "", 50, 400);
	add(d, steady, "q512_8q1s4k", "all", "", 100, 450);
	add(d, steady, "q512_8q1s4k", "plan", text[0], 61, 500);
	add(d, steady, "q512_8q1s4k", "plan", text[1], 60, 600);
	assert_true(data_finish(d));
	const struct cell *serial = NULL;
	for (int i = 0; i < d->num_plans; i++)
		if (d->plan[i].how == ATTUNE_SERIAL)
			serial = &d->plan[i].cell;
	const struct pick pick = { .prefill = d->plan[0].prefill,
				   .decode = d->plan[0].decode,
				   .join = 1,
				   .how = ATTUNE_SERIAL };
	assert_non_null(serial);
	assert_ptr_equal(data_pick_cell(d, 0, &pick), serial);
	energy_count(d, 0, serial, &e);
	assert_int_equal(e.n, 1);
	assert_true(fabs(exp(e.to_fastest) - 30.5 / 36) < 1e-9);
	assert_true(fabs(e.worst - 1) < 1e-9);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unshared_readings_are_a_choices_own),
		cmocka_unit_test(bursts_tell_of_what_is_around_them),
		cmocka_unit_test(picks_are_held_against_both),
		cmocka_unit_test(picks_without_power_of_their_own_have_no_energy),
		cmocka_unit_test(composed_plans_are_rivals),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("energy", tests, NULL, NULL);
}
