/* lost_kernels.h - detects that a scenario's fastest kernel has only stale rows, because its source
 * was edited. Trees must not learn from the rest: it would name the wrong kernel. */
#ifndef TUNER_DATA_LOST_KERNELS_H
#define TUNER_DATA_LOST_KERNELS_H

#include "data.h"

enum { MAX_KERNELS = 32 /* of a device */ };

/* A kernel's least times in one part of a scenario: of fresh rows and of stale ones; INFINITY:
 * none. */
struct kernel_least {
	char kernel[32];
	double fresh, stale;
};

struct lost {
	struct kernel_least least[NUM_PHASES][MAX_KERNELS];
	int kernels[NUM_PHASES];
};

/* Called for each cell of a scenario. */
void lost_note(struct lost *, const struct store_cell *);
/* Called after the last one: whether the fastest kernel was lost. Starts the next scenario. */
int lost_end(struct lost *);

#endif
