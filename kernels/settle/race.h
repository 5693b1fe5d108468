/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - times plans of one batch against each other. */
#ifndef KERNELS_SETTLE_RACE_H
#define KERNELS_SETTLE_RACE_H

#include "kernels/attune_settle.h"

struct stage;

/* FIRST_ROUNDS of all plans; of the last race of a batch then up to MOST_ROUNDS of the fastest and
 * the first. */
enum { MOST_RACED = ATTUNE_MOST_ALTERNATIVES, FIRST_ROUNDS = 3, MOST_ROUNDS = 10 };

struct race {
	const struct stage *stage;
	/* In seconds of settle_clock(): it gives up at `until`; samples are as long as `soon` has
	 * room for. */
	double until, soon;
	double slow; /* a plan that takes so many times the first's time in one call is out */
	int n;
	const attune_plan *plan[MOST_RACED]; /* 0: the first */
	int is_last;

	/* What comes out. rounds 0: it gave up before it had FIRST_ROUNDS; the first wins. */
	int fastest, rounds;
	int winner;            /* the fastest, if that is beyond the margin and the noise; else 0 */
	double us[MOST_RACED]; /* of a call */
	double again;          /* of the first, which runs under two names (A/A) */
};

double settle_clock(void);
/* Of up to MOST_ROUNDS times. */
double settle_median(const double *x, int n);
enum attune_status settle_race(struct race *);

#endif
