/* elimination.h - who is out of a race, by its rounds alone; between elimination.c and race.c. */
#ifndef HARNESS_MEASURE_ELIMINATION_H
#define HARNESS_MEASURE_ELIMINATION_H

#include "harness/base/base.h"

/* A contender against the leader: logarithms of ratios. */
struct score {
	double lead;      /* how far behind, by the rounds that both took; the leader's is 0 */
	double low, high; /* its bounds, one-sided; NaN: they have too little in common */
	int beaten;
};
struct ruling {
	int leader;    /* -1: nobody has a time */
	double regret; /* at most so much is lost, on average, by taking the leader */
	int tied;      /* nobody is known to be worse than the leader by `tie` or more */
};

/* Logarithms of times are log_us[i * COLUMNS + round]; NaN: no sample. scratch: as many. */
enum { COLUMNS = MAX_SAMPLES };

/* Contenders without in[i] are left alone, and so is, when the leader is chosen, the contender
 * `twin` (-1: none), whose scores are given nevertheless. tie: a logarithm. */
void judge(struct ruling *, struct score *, const double *log_us, const char *in, int n, int rounds,
	   int twin, double tie, double *scratch);

/* Each contender's own level, so that x_ik = level_i + (what is common to round k) + noise;
 * with it two can be compared that met in no round. Who has no round is placed by the
 * screen, a round of its own. NaN: not even that. */
void levels(double *level, const double *log_us, const double *screen, int n, int rounds,
	    double *scratch);

#endif
