/* hybrid.h - compares overlaps with the best serial plan on batches of one prompt chunk and many
 * decodes, the case that papers about overlaps measure (POD-Attention). */
#ifndef TUNER_COMPARE_HYBRID_H
#define TUNER_COMPARE_HYBRID_H

#include "tuner/data/data.h"

enum way {
	WAY_ONE_LAUNCH, /* one kernel without separate phases */
	WAY_FUSED,      /* one kernel with separate phases */
	WAY_STREAMS,
	WAY_SPLIT, /* two streams; the prefill part leaves SMs to the decodes */
	WAY_TUNED, /* the header's pick */
	NUM_WAYS
};
extern const char *const way_names[NUM_WAYS];

struct hybrid {
	double serial;        /* us of the best serial plan */
	double prefill_share; /* of the best times of both parts, in percent */
	double us[NUM_WAYS];  /* the best time of each way; INFINITY: not measured */
};
/* Fills in one mixed scenario with any chunk, from times of one pass. pick: the header's, or
 * NULL. */
void hybrid_look(const struct data *, enum pass, int scenario, const struct pick *,
		 struct hybrid *);
/* All such scenarios with a measured overlap, *n of them, for the caller to free. picks: [data->n]
 * of the header, or NULL. Returns NULL without memory. */
struct hybrid *hybrids_find(const struct data *, const struct pick *picks, int *n);

/* Speedups of one way over the serial plan, ascending, to v[n]; returns how many have a time. */
int hybrids_gains(const struct hybrid *, int n, enum way, double *v);
double gains_mean(const double *v, int n); /* geometric */

#endif
