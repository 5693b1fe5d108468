/* time_spent.c - where the wall time of this process goes: at any moment it counts as one thing, so
 * the parts add up to the whole. */
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
} book;

enum spent spent_on(enum spent what)
{
	const double now = seconds_now();
	const enum spent before = book.what;
	if (book.since > 0)
		book.total[before] += now - book.since;
	book.since = now;
	book.what = what;
	return before;
}

void spent_move(enum spent from, enum spent to, double seconds)
{
	book.total[from] -= seconds;
	book.total[to] += seconds;
}

void spent_begin(enum spent what)
{
	memset(book.total, 0, sizeof book.total);
	book.since = seconds_now();
	book.what = what;
}

void spent_read(double seconds[NUM_SPENT])
{
	spent_on(book.what);
	memcpy(seconds, book.total, sizeof book.total);
}
