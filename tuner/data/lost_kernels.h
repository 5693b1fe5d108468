/* lost_kernels.h - whether a scenario's fastest kernel has lost all its rows to an edit of its source: what
 * is left would teach the wrong kernel. Cells of a scenario follow one another. */
#ifndef TUNER_DATA_LOST_KERNELS_H
#define TUNER_DATA_LOST_KERNELS_H

#include "data.h"

enum { MAX_KERNELS = 32 /* of a device */ };

/* The least times of a kernel in one part of a scenario, of rows that count and of stale ones;
 * INFINITY: none. */
struct kernel_least {
	char kernel[32];
	double fresh, stale;
};

struct lost {
	struct kernel_least least[NUM_PHASES][MAX_KERNELS];
	int kernels[NUM_PHASES];
};

void lost_note(struct lost *, const struct store_cell *);
/* Of the scenario whose cells were noted; the next one begins. */
int lost_end(struct lost *);

#endif
