/* elimination.h - compares contenders by their times per round, and finds those to eliminate. */
#ifndef HARNESS_MEASURE_ELIMINATION_H
#define HARNESS_MEASURE_ELIMINATION_H

#include "harness/base/base.h"

/* A contender's time against the leader's: logarithms of ratios. */
struct score {
	double behind;    /* centre over the rounds that both took; the leader's is 0 */
	double low, high; /* its one-sided bounds; NaN: too few common rounds */
	int beaten;
};
struct comparison {
	int leader;    /* -1: no contender has a time */
	double regret; /* bound of the expected loss by taking the leader */
	int tied;      /* every other contender is within `tie` of the leader */
};

/* log_us[i * COLUMNS + round]: logarithms of times; NaN: no sample. scratch: as many. */
enum { COLUMNS = MAX_SAMPLES };

/* Considers contenders with in[i] only. The A/A control (-1: none) is scored but cannot lead.
 * tie: a logarithm. */
void compare_contenders(struct comparison *, struct score *, const double *log_us, const char *in,
			int n, int rounds, int control, double tie, double *scratch);

/* Fits log_us_ik = level_i + common_k + noise, so that contenders compare that share no round.
 * A contender without a round is placed by the screen. NaN: it has no time there either. */
void levels(double *level, const double *log_us, const double *screen, int n, int rounds,
	    double *scratch);

#endif
