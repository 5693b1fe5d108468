/* runs.h - the measured plans of a mixed scenario, grouped by how their parts overlap. For
 * overlap_times.c and overlap_decision.c only. */
#ifndef TUNER_DATA_RUNS_H
#define TUNER_DATA_RUNS_H

#include "data.h"

struct run {
	const struct cell *cell;
	int way;             /* its overlap: SAYS_SERIAL, SAYS_STREAMS or a fused choice */
	int prefill, decode; /* decode -1: one launch for the whole batch */
};

struct runs {
	struct run *v;
	int n;
	double serial_us; /* the least serial time of all races */
};

/* The overlap of a plan: SAYS_SERIAL, SAYS_STREAMS or the index of its prefill choice. */
int composed_way(const struct data *, const struct composed *);
/* All runs of one pass; the caller frees v. 0 without memory. */
int runs_find(const struct data *, int scenario, enum pass, struct runs *);
/* Time with an overlap / the fastest serial time: of the pick's own parts if measured, else the
 * least. INFINITY: not measured. */
double runs_ratio(const struct runs *, int way, const struct pick *);
/* Time of one launch by a choice / the fastest serial time. INFINITY: not measured. */
double runs_one_launch(const struct runs *, int choice);
/* Time on two streams / time of the same parts in series. It hardly depends on the parts: without
 * the pick's own, the fastest pair that ran both ways stands for them. */
double runs_streams(const struct runs *, const struct pick *);

#endif
