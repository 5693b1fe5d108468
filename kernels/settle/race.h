/* race.h - times plans of one batch against each other. */
#ifndef KERNELS_SETTLE_RACE_H
#define KERNELS_SETTLE_RACE_H

#include "kernels/attune_settle.h"

struct stage;

/* FIRST_ROUNDS of all plans, then up to MOST_ROUNDS of the fastest and the first. */
enum { MOST_RACED = ATTUNE_MOST_ALTERNATIVES, FIRST_ROUNDS = 3, MOST_ROUNDS = 10 };

struct race {
	const struct stage *stage;
	double until; /* it gives up then, in seconds of settle_clock() */
	int n;
	const attune_plan *plan; /* n, 0: the first */

	/* What comes out. rounds 0: it gave up before it had FIRST_ROUNDS; the first wins. */
	int winner, rounds;
	double us[MOST_RACED]; /* of a call */
	double again;          /* of the first, which runs under two names (A/A) */
};

double settle_clock(void);
/* Of up to MOST_ROUNDS times. */
double settle_median(const double *x, int n);
enum attune_status settle_race(struct race *);

#endif
