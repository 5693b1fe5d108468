/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - the measured plans of a mixed scenario, grouped by how their parts overlap. For
 * overlap_times.c and overlap_decision.c only. */
#ifndef TUNER_DATA_RUNS_H
#define TUNER_DATA_RUNS_H

#include "data.h"

struct run {
	const struct cell *cell;
	int way; /* its overlap, as pick_way */
	/* prefill: the choice that leaves no units to the decodes; -1: not listed. decode -1: one
	 * launch for the whole batch */
	int prefill, decode;
};

struct runs {
	struct run *v;
	int n;
	double serial_us; /* the least serial time of all races */
};

/* All runs of one pass; the caller frees v. 0 without memory. */
int runs_find(const struct data *, int scenario, enum pass, struct runs *);
/* Least time of one launch by a fused choice / the fastest serial time. INFINITY: not measured. */
double runs_fused(const struct runs *, int choice);
/* The same for the prefills' choice, which runs the whole batch. */
double runs_one_launch(const struct runs *, int choice);
/* Time on two streams, with as many units left to the decodes as the way says / time of the same
 * parts in series. It hardly depends on the parts: without the pick's own, the fastest pair that
 * ran both ways stands for them. */
double runs_streams(const struct runs *, int way, const struct pick *);

#endif
