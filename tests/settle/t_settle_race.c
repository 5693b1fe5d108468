/* SPDX-License-Identifier: Apache-2.0 */
/* t_settle_race.c - the race of attune_settle by a clock of the test: which plan wins, when it
 * gives up, and that no call finds its keys in a cache. */
#include "kernels/launch/op.h"
#include "kernels/settle/race.h"
#include "kernels/settle/stage.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { PLANS = 4, MOST_SETS = 64 };

/* ---- a device of which each call takes the time that the test says --------------------------- */

static attune_plan plans[PLANS];
static double now_s, us_of[PLANS], again_factor, call_bytes;
static int calls[PLANS], fails_at, all_calls, is_cold, flushes;
static double read_bytes, read_at[MOST_SETS]; /* all so far; when a set was read last */

double settle_clock(void)
{
	return now_s;
}

double stage_call_bytes(const struct stage *s)
{
	(void)s;
	return call_bytes;
}

/* The first plan's second time is longer by again_factor: by the order of lanes in a round it is
 * that of every other call, in turn the first or the second of a round. */
static double factor_of(int plan, int lanes)
{
	const int sample = calls[0] - 2, round = sample / 2; /* two calls were a look */
	if (plan || sample < 0)
		return 1;
	const int is_first = round % 2 ? round % lanes != 0 : round % lanes == 0;
	return is_first == (sample % 2 == 1) ? again_factor : 1;
}

static int num_lanes;

enum attune_status stage_run(const struct stage *s, const attune_plan *plan, int set)
{
	const int i = (int)(plan - plans);
	assert_true(set >= 0 && set < stage_sets(s) && set < MOST_SETS);
	now_s += us_of[i] * factor_of(i, num_lanes) * 1e-6;
	calls[i]++;
	if (all_calls > 2 * (num_lanes - 1) && read_at[set] >= 0 &&
	    read_bytes - read_at[set] < (double)s->flush)
		is_cold = 0;
	read_at[set] = read_bytes;
	read_bytes += call_bytes;
	return ++all_calls == fails_at ? ATTUNE_DEVICE_ERROR : ATTUNE_OK;
}

enum attune_status stage_flush(const struct stage *s)
{
	read_bytes += (double)s->flush;
	flushes++;
	return ATTUNE_OK;
}

static enum attune_status no_wait(struct device *dev, void *stream)
{
	(void)dev, (void)stream;
	return ATTUNE_OK;
}

static void *no_stream(struct device *dev)
{
	(void)dev;
	return NULL;
}

static const struct device_ops ops = { .wait = no_wait, .stream = no_stream };
static struct device dev = { .ops = &ops, .info.backend = BACKEND_CPU };

static struct race run_race(int n, double ms, int sets, enum attune_status want)
{
	struct stage s = { .dev = &dev, .num_layers = sets, .shifts = 1, .flush = 1000 };
	struct race r = { .stage = &s,
			  .until = now_s + ms / 1e3,
			  .soon = now_s + ms / 1e3,
			  .slow = 2,
			  .n = n,
			  .is_last = 1 };
	for (int i = 0; i < n; i++)
		r.plan[i] = &plans[i];
	memset(calls, 0, sizeof calls);
	read_bytes = all_calls = flushes = 0;
	is_cold = 1;
	num_lanes = n + 1;
	for (int i = 0; i < MOST_SETS; i++)
		read_at[i] = -1;
	assert_int_equal(settle_race(&r), want);
	return r;
}

static void set_times(double a, double b, double c)
{
	us_of[0] = a;
	us_of[1] = b;
	us_of[2] = c;
	again_factor = 1;
	call_bytes = 1e6;
	fails_at = 0;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void the_fastest_wins_beyond_the_margin_and_the_noise(void **state)
{
	static const struct {
		double us[3], again;
		int winner;
	} rows[] = {
		{ { 1000, 1000, 1000 }, 1, 0 },   { { 1000, 995, 1100 }, 1, 0 },
		{ { 1000, 985, 1100 }, 1, 1 },    { { 1000, 985, 970 }, 1, 2 },
		{ { 1000, 1200, 900 }, 1, 2 },    { { 1000, 960, 1100 }, 1.04, 0 },
		{ { 1000, 930, 1100 }, 1.04, 1 }, { { 1000, 5000, 900 }, 1, 2 },
		{ { 1000, 5000, 9000 }, 1, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_times(rows[i].us[0], rows[i].us[1], rows[i].us[2]);
		again_factor = rows[i].again;
		const struct race r = run_race(3, 1000, 1, ATTUNE_OK);
		if (r.winner != rows[i].winner)
			fail_msg("row %zu: %d wins", i, r.winner);
		for (int k = 0; k < 3 && rows[i].again == 1; k++)
			assert_true(fabs(r.us[k] / rows[i].us[k] - 1) < 1e-6);
	}
}

/* Three members of 100 us. */
static void a_decode_takes_at_most_its_time(void **state)
{
	(void)state;
	set_times(100, 90, 110);
	const double begin = now_s;
	const struct race r = run_race(3, 20, 8, ATTUNE_OK);
	assert_int_equal(r.winner, 1);
	assert_int_equal(r.rounds, MOST_ROUNDS);
	assert_true(now_s - begin <= 20e-3);
	assert_true(now_s - begin > 5e-3); /* the time is made use of */
}

static void it_gives_up_in_time(void **state)
{
	static const struct {
		double us, ms;
		int rounds; /* at least; 0: it has none */
	} rows[] = {
		{ 10000, 20, 0 }, { 1e6, 20, 0 }, { 1000, 10, 0 }, { 1000, 20, 3 }, { 400, 20, 10 }
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_times(rows[i].us, rows[i].us * 0.9, rows[i].us);
		const double begin = now_s;
		const struct race r = run_race(3, rows[i].ms, 8, ATTUNE_OK);
		/* two calls tell how long it would take */
		assert_true(now_s - begin <= fmax(rows[i].ms / 1e3, 2.001e-6 * rows[i].us));
		assert_true(rows[i].rounds ? r.rounds >= rows[i].rounds : r.rounds == 0);
		assert_int_equal(r.winner, rows[i].rounds > 0);
	}
}

/* A device whose clock stands still, for all plans or for one. */
static void no_times_settle_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		set_times(i ? 100 : 0, 0, 0);
		const struct race r = run_race(3, 20, 8, ATTUNE_OK);
		assert_int_equal(r.winner, 0);
		assert_int_equal(r.rounds, 0);
	}
}

static void what_is_slow_at_once_is_not_timed_again(void **state)
{
	(void)state;
	set_times(100, 90, 300);
	run_race(3, 100, 8, ATTUNE_OK);
	assert_int_equal(calls[2], 3);
	assert_true(calls[1] > 10);
}

static void no_call_finds_its_keys_in_a_cache(void **state)
{
	static const struct {
		double bytes, us;
		int sets, flushes;
	} rows[] = {
		{ 2000, 100, 1, 0 },  { 1000, 100, 3, 0 }, { 999, 100, 3, 0 }, { 500, 100, 2, 0 },
		{ 500, 100, 1, 1 },   { 300, 100, 64, 0 }, { 300, 100, 4, 0 }, { 300, 40, 3, 1 },
		{ 300, 1000, 64, 1 }, { 10, 5, 64, 1 },    { 10, 50, 7, 1 },   { 1, 5, 1, 1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		set_times(rows[i].us, rows[i].us, rows[i].us);
		us_of[1] *= 0.9;
		call_bytes = rows[i].bytes;
		const struct race r = run_race(2, 20, rows[i].sets, ATTUNE_OK);
		/* the look flushes before each of its two */
		if (!is_cold || (flushes > 2) != rows[i].flushes)
			fail_msg("row %zu: cold %d, %d flushes", i, is_cold, flushes);
		assert_int_equal(r.winner, 1);
	}
}

static void errors_end_it(void **state)
{
	(void)state;
	for (int at = 1; at < 40; at += 6) {
		set_times(1000, 900, 1000);
		fails_at = at;
		const struct race r = run_race(3, 1000, 1, ATTUNE_DEVICE_ERROR);
		assert_int_equal(r.winner, 0);
		assert_int_equal(all_calls, at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fastest_wins_beyond_the_margin_and_the_noise),
		cmocka_unit_test(a_decode_takes_at_most_its_time),
		cmocka_unit_test(it_gives_up_in_time),
		cmocka_unit_test(no_times_settle_nothing),
		cmocka_unit_test(what_is_slow_at_once_is_not_timed_again),
		cmocka_unit_test(no_call_finds_its_keys_in_a_cache),
		cmocka_unit_test(errors_end_it),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
