/* runs.h - the measured ways to run a mixed scenario whole, and what each takes. For
 * overlap_times.c and overlap_decision.c only. */
#ifndef TUNER_DATA_RUNS_H
#define TUNER_DATA_RUNS_H

#include "data.h"

/* A measured way to run a mixed scenario whole. */
struct run {
	const struct cell *cell;
	int way;
	int prefill, decode; /* of a plan; -1 */
};

struct runs {
	struct run *v;
	int n;
	double serial_us; /* the least of all serial ways, in whatever race */
};

/* The way of a plan: SAYS_SERIAL, SAYS_STREAMS or the index of its prefill choice. */
int composed_way(const struct data *, const struct composed *);
/* All of one pass; v is the caller's to free. 0 without memory. */
int runs_find(const struct data *, int scenario, enum pass, struct runs *);
/* The least ratio of a way; of the pick's own parts, where they ran so. INFINITY: not measured. */
double runs_ratio(const struct runs *, int way, const struct pick *);
/* What two streams take, to one after the other: hardly a matter of what the parts are. Told
 * by the pick's own parts, else by the fastest pair that ran both ways. */
double runs_streams(const struct runs *, const struct pick *);

#endif
