/* hybrid.h - batches with one chunk of a prompt beside many decodes, as papers about running
 * both at a time measure them (POD-Attention): how each way compares with the best serial plan. */
#ifndef TUNER_COMPARE_HYBRID_H
#define TUNER_COMPARE_HYBRID_H

#include "tuner/data/data.h"

enum way {
	WAY_ONE_LAUNCH, /* a kernel that knows no phases */
	WAY_FUSED,      /* one that does */
	WAY_STREAMS,
	WAY_SPLIT, /* two streams, and SMs that the prefill part leaves to the decodes */
	WAY_TUNED, /* what the header picks */
	NUM_WAYS
};
extern const char *const way_names[NUM_WAYS];

struct hybrid {
	double serial;        /* us of the best serial plan */
	double prefill_share; /* percent of the best times of both parts */
	double us[NUM_WAYS];  /* the best of that way; INFINITY: not measured */
};
/* One mixed scenario, of whatever chunk, by times of one pass. pick: of the header, or NULL. */
void hybrid_look(const struct data *, enum pass, int scenario, const struct pick *,
		 struct hybrid *);
/* Of all such scenarios of the data in which a way to overlap was measured; *n of them, the caller's to free.
 * picks: [data->n] of the header, or NULL. NULL: no memory. */
struct hybrid *hybrids_find(const struct data *, const struct pick *picks, int *n);

/* How many times as fast as the serial plan one way is, ascending, to v[n]; how many have it. */
int hybrids_gains(const struct hybrid *, int n, enum way, double *v);
double gains_mean(const double *v, int n); /* geometric */

#endif
