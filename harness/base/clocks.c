/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.c - the real clock, the clock of budgets, and what the wall time is spent on.
 *
 * ATTUNE_CLOCK=SECONDS, for tests only: a race takes this many seconds of every budget, and a run
 * of a graph a thousandth of that, whatever they really take. Then the amount measured in a budget
 * does not depend on the machine or its load. The process with the database counts races, the
 * worker counts runs. No time is then too noisy (summarize.c). */
#include "base.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS_OF_A_RACE = 1000 };
static long long races, runs;

double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0: ATTUNE_CLOCK is not set. */
static double seconds_of_a_race(void)
{
	const char *text = getenv("ATTUNE_CLOCK");
	return text ? strtod(text, NULL) : 0;
}

int budget_is_held(void)
{
	return seconds_of_a_race() > 0;
}

double budget_now(void)
{
	const double held = seconds_of_a_race();
	return held > 0 ? held * ((double)races + (double)runs / RUNS_OF_A_RACE) : seconds_now();
}

void budget_race(void)
{
	races++;
}

void budget_run(void)
{
	runs++;
}

/* ---- what the wall time of this process is spent on: each moment counts as one thing -------- */

const char *const spent_words[NUM_SPENT] = {
	[SPENT_READING] = "reading",
	[SPENT_OPENING] = "opening the device",
	[SPENT_WAITING] = "waiting for a quiet machine",
	[SPENT_PREPARING] = "preparing",
	[SPENT_COMPILING] = "compiling",
	[SPENT_CHECKING] = "checking",
	[SPENT_UPLOADING] = "uploading",
	[SPENT_RACING] = "races",
	[SPENT_LEARNING] = "learning",
};

static struct {
	enum spent what;
	double since; /* 0: nothing was counted yet */
	double total[NUM_SPENT];
} counted;

enum spent spent_on(enum spent what)
{
	const double now = seconds_now();
	const enum spent before = counted.what;
	if (counted.since > 0)
		counted.total[before] += now - counted.since;
	counted.since = now;
	counted.what = what;
	return before;
}

void spent_move(enum spent from, enum spent to, double seconds)
{
	counted.total[from] -= seconds;
	counted.total[to] += seconds;
}

void spent_begin(enum spent what)
{
	memset(counted.total, 0, sizeof counted.total);
	counted.since = seconds_now();
	counted.what = what;
}

void spent_read(double seconds[NUM_SPENT])
{
	spent_on(counted.what);
	memcpy(seconds, counted.total, sizeof counted.total);
}
