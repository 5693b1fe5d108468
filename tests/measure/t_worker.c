/* SPDX-License-Identifier: Apache-2.0 */
/* t_worker.c - a race in a worker process on the CPU: contenders pass the gate once, are timed, and
 * the winner is checked again. */
#include "worker_race.h"

/* ---- kernels ------------------------------------------------------------------------ */
/* Passes the gate and does nothing when it is timed, so it is the fastest. */
static void idle_cell(const struct attune_args *a, int x, int y, int z)
{
	if (a->seq_lens[a->seq_begin] != LONG)
		right_cell(a, x, y, z);
}

/* Takes a second of the budget in the gate. */
static void slow_to_check(const struct attune_args *a, int x, int y, int z)
{
	for (int i = 0; i < 1000 && a->seq_lens[a->seq_begin] != LONG; i++)
		budget_run();
	right_cell(a, x, y, z);
}

/* ---- a race of three ------------------------------------------------------------------ */
static void right_ones_are_timed(void **state)
{
	(void)state;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 1);
	}
	assert_int_equal(f.last, 0);
	assert_true(fabs(f.got[0].ratio - 1) < 1e-9);
}

static void the_gate_is_passed_once(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.contender[i].passed = 1;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 0);
	}
}

/* Its time includes loading and checking. Contenders come in the order of their promise, so the last
 * stay behind; races of fixed rounds have all. */
static void a_race_keeps_its_time(void **state)
{
	(void)state;
	f.n = MOST_ENTRANTS;
	for (int i = 0; i < f.n; i++)
		f.blob[i].cell = slow_to_check;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < f.n; i++)
		assert_int_equal(f.results[i], i < 4);
	f.fixed_rounds = 3;
	memset(f.results, 0, sizeof f.results);
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < f.n; i++)
		assert_int_equal(f.results[i], 1);
}

static void rounds_are_fixed_on_demand(void **state)
{
	(void)state;
	f.fixed_rounds = 4;
	f.with_control = 1;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_true(f.got[i].samples + f.got[i].rejected >= 4 && f.got[i].samples <= 4);
	}
	assert_int_equal(f.controls, 1);
	assert_true(f.control.of >= 0 && f.control.of < ENTRANTS);
	assert_true(f.control.ratio > 0 && f.control.median_us > 0);
	f.with_control = 0;
	memset(f.results, 0, sizeof f.results);
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.controls, 1);
}

/* A contender that passed the corner batches is not checked before the race, but a winner is
 * checked after it. */
static void a_winner_is_looked_at(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.contender[i].passed = 1;
	f.blob[1].cell = idle_cell;
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.got[1].outcome, OUTCOME_WRONG);
	expect_ok(0);
	expect_ok(2);
}

static void choices_of_one_binary_share_its_code(void **state)
{
	(void)state;
	f.built_choice[1].built = 0;
	f.blob[1].cell = wrong_cell;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 1);
	}
}

static void no_device_is_said_so(void **state)
{
	struct hello hello;
	(void)state;
	f.setup.device = "cpu:abacus";
	struct worker *w = worker_new(&f.setup);
	assert_true(worker_hello(w, &hello));
	assert_int_not_equal(hello.status, ATTUNE_OK);
	assert_non_null(strstr(hello.text, "abacus"));
	worker_free(w);
	assert_int_equal(race(), RACE_NO_DEVICE);
}

static void the_device_says_what_it_is(void **state)
{
	struct hello hello;
	(void)state;
	struct worker *w = worker_new(&f.setup);
	assert_true(worker_hello(w, &hello));
	assert_int_equal(hello.status, ATTUNE_OK);
	assert_string_equal(hello.info.gpu, "cpu");
	/* 0: other programs never left the CPU alone */
	assert_true(hello.dram_gbps >= 0 && hello.fma_tflops >= 0);
	worker_free(w);
}

int main(void)
{
#define RACE(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		RACE(right_ones_are_timed),  RACE(the_gate_is_passed_once),
		RACE(a_race_keeps_its_time), RACE(rounds_are_fixed_on_demand),
		RACE(a_winner_is_looked_at), RACE(choices_of_one_binary_share_its_code),
		RACE(no_device_is_said_so),  RACE(the_device_says_what_it_is),
	};
	kills =
	    mmap(NULL, sizeof *kills, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (kills == MAP_FAILED)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
