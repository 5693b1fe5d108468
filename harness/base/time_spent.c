/* time_spent.c - counts the wall time of this process by what it is spent on. Each moment counts as
 * one thing, so the parts add up to the whole. */
#include "base.h"
#include <string.h>

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
