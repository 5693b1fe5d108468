/* budget_clock.c - the real clock, and the clock of budgets.
 *
 * ATTUNE_CLOCK=SECONDS, for tests only: a race takes this many seconds of every budget, and a run
 * of a graph a thousandth of that, whatever they really take. Then the amount measured in a budget
 * does not depend on the machine or its load. The process with the database counts races, the
 * worker counts runs. No time is then too noisy (noise.c). */
#include "base.h"
#include <stdlib.h>
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
