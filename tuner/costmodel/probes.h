/* SPDX-License-Identifier: Apache-2.0 */
/* probes.h - random batches of all shapes that the library takes, for rows of a training matrix where no
 * scenario is. */
#ifndef TUNER_COSTMODEL_PROBES_H
#define TUNER_COSTMODEL_PROBES_H

#include "offers.h"

/* At most; of few scenarios fewer, which they would outvote. */
enum { PROBES = 3000, PROBES_A_ROW = 3 };

/* A batch with its estimates. */
struct probe {
	struct attune_features f;
	long long *estimate; /* [offers] fs, or enum no_estimate */
};
struct probes {
	struct probe *v;
	int n;
	long long *room; /* of the estimates */
};
/* Of all offers; 0 without memory. Close it either way. */
int probes_open(struct probes *, const struct offers *);
void probes_close(struct probes *);
/* Adds at most `most` offers to those with in[offer]: what the probes gain most from, by estimate. 0
 * without memory. */
int probes_choose(const struct probes *, const struct offers *, char *in, int most);
#endif
