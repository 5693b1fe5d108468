/* SPDX-License-Identifier: Apache-2.0 */
/* t_worker_failures.c - kernels that are wrong, crash, hang or are killed in a worker process: each
 * gets its outcome, and the others are still timed. */
#include "worker_race.h"

/* ---- kernels ------------------------------------------------------------------------ */
static void crashing_cell(const struct attune_args *a, int x, int y, int z)
{
	(void)a, (void)x, (void)y, (void)z;
	raise(SIGSEGV);
}

static void hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	(void)x, (void)y, (void)z;
	for (volatile int more = a->num_seqs; more;)
		usleep(1000);
}

/* Passes the gate, fails in the race. */
static void late_crashing_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (a->seq_lens[a->seq_begin] == LONG)
		crashing_cell(a, x, y, z);
}

static void late_hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (a->seq_lens[a->seq_begin] == LONG)
		hanging_cell(a, x, y, z);
}
static void killed_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (!x && !y && !z && __atomic_fetch_sub(&kills[0], 1, __ATOMIC_RELAXED) > 0)
		raise(SIGKILL);
}

static void late_killed_cell(const struct attune_args *a, int x, int y, int z)
{
	if (a->seq_lens[a->seq_begin] == LONG)
		killed_cell(a, x, y, z);
	else
		right_cell(a, x, y, z);
}

/* Once it is silent. */
static void once_hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (!x && !y && !z && __atomic_fetch_sub(&kills[0], 1, __ATOMIC_RELAXED) > 0)
		hanging_cell(a, x, y, z);
}

/* ---- a race of three ------------------------------------------------------------------ */
static void one_fails(void (*cell)(const struct attune_args *, int, int, int), int which,
		      enum outcome outcome, const char *words)
{
	f.blob[which].cell = cell;
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.results[which], 1);
	assert_int_equal(f.got[which].outcome, outcome);
	if (!strstr(f.got[which].detail, words))
		print_error("detail is \"%s\"\n", f.got[which].detail);
	assert_non_null(strstr(f.got[which].detail, words));
	for (int i = 0; i < ENTRANTS; i++)
		if (i != which)
			expect_ok(i);
}

static void wrong_is_caught_at_the_gate(void **state)
{
	(void)state;
	one_fails(wrong_cell, 1, OUTCOME_WRONG, "expected");
	assert_int_equal(f.failed_gate[1], 1);
	assert_int_equal(f.passed[1], 0);
}

static void a_crash_is_a_result(void **state)
{
	(void)state;
	one_fails(crashing_cell, 1, OUTCOME_CRASH, "signal");
}

static void a_hang_is_a_result(void **state)
{
	(void)state;
	f.setup.gate_s = 5;
	one_fails(hanging_cell, 2, OUTCOME_TIMEOUT, "no sign of life");
}

static void a_late_crash_too(void **state)
{
	(void)state;
	one_fails(late_crashing_cell, 0, OUTCOME_CRASH, "signal");
	assert_int_equal(f.passed[0], 1);
}

static void a_late_hang_too(void **state)
{
	(void)state;
	f.setup.gate_s = f.setup.sample_s = 5;
	one_fails(late_hanging_cell, 1, OUTCOME_TIMEOUT, "no sign of life");
}

static void all_may_crash(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.blob[i].cell = crashing_cell;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++)
		assert_int_equal(f.got[i].outcome, OUTCOME_CRASH);
}

static void all_are_right(void)
{
	for (int i = 0; i < ENTRANTS; i++)
		expect_ok(i);
}

/* The system does so when memory runs out. */
static void a_kill_from_outside_blames_nobody(void **state)
{
	(void)state;
	f.blob[1].cell = killed_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
}

static void nor_does_one_in_the_race(void **state)
{
	(void)state;
	f.blob[0].cell = f.blob[1].cell = f.blob[2].cell = late_killed_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
	assert_true(*kills < 0);
}

static void nor_does_silence_once(void **state)
{
	(void)state;
	f.setup.gate_s = 0.5;
	f.blob[2].cell = once_hanging_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
}

static void killed_twice_is_a_verdict(void **state)
{
	(void)state;
	*kills = 2;
	one_fails(killed_cell, 1, OUTCOME_CRASH, "killed by signal 9");
	assert_int_equal(f.failed_gate[1], 1);
}

int main(void)
{
#define RACE(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		RACE(wrong_is_caught_at_the_gate),
		RACE(a_crash_is_a_result),
		RACE(a_hang_is_a_result),
		RACE(a_late_crash_too),
		RACE(a_late_hang_too),
		RACE(all_may_crash),
		RACE(a_kill_from_outside_blames_nobody),
		RACE(nor_does_one_in_the_race),
		RACE(nor_does_silence_once),
		RACE(killed_twice_is_a_verdict),
	};
	kills =
	    mmap(NULL, sizeof *kills, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (kills == MAP_FAILED)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
