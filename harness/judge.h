/* judge.h - who is out of a race, by its rounds alone; between judge.c and measure.c. */
#ifndef JUDGE_H
#define JUDGE_H

#include "harness.h"

/* A racer against the leader: logarithms of ratios. */
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

/* log_us[i * MAX_SAMPLES + round]; NaN: no sample. Racers without in[i] are left alone,
 * and so is, when the leader is chosen, the racer `twin` (-1: none), whose scores are given
 * nevertheless. tie: a logarithm. scratch: as large as log_us. */
void judge(struct ruling *, struct score *, const double *log_us, const char *in, int n, int rounds,
	   int twin, double tie, double *scratch);

#endif
