/* clock.c - the clock that budgets count, and the real one.
 *
 * ATTUNE_CLOCK=SECONDS, for tests alone: a race takes so many seconds of every budget, and a play
 * of a graph a thousandth of that, however long they really take. Then what is measured in a
 * budget does not depend on the machine or on what else runs there. Races are counted by the
 * process that keeps the database, plays by the worker. Times are then not what is tested, so none
 * of them is too noisy (noise.c). */
#include "base.h"
#include <stdlib.h>
#include <time.h>

enum { PLAYS_OF_A_RACE = 1000 };
static long long races, plays;

double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0: no test holds the clock. */
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
	return held > 0 ? held * ((double)races + (double)plays / PLAYS_OF_A_RACE) : seconds_now();
}

void budget_race(void)
{
	races++;
}

void budget_play(void)
{
	plays++;
}
