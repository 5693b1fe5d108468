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
/* Fills in one mixed scenario from times of one pass. tuned: the header's pick, or NULL. Returns whether
 * it is a batch of one chunk and many decodes, this pass is its latest with plans, and an overlap
 * was measured. */
int hybrid_find(const struct data *, enum pass, int scenario, const struct pick *tuned,
		struct hybrid *);

#endif
