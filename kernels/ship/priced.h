/* priced.h - priced choices: each has a model of its time, and the one with the least estimate runs
 * a part where no rule of a header does. That is where the rule's choice is illegal or not carried
 * for the shape, where the rules were learned on other shapes, and where the GPU has no header. */
#ifndef KERNELS_SHIP_PRICED_H
#define KERNELS_SHIP_PRICED_H

#include "kernels/spec/device_info.h"

/* The terms of a choice's time at one head size, in femtoseconds (tuner/costmodel/costmodel.h): the
 * launch, the segments, and for each of these amounts of the part. */
struct part_costs {
	int head_size;
	struct segment_costs segments;
	long long launch, total, kib, rows;
};

enum { PRICED_SIZES = 3 };
struct priced {
	const char *kernel;
	const char *values; /* of its tunables; SEGMENTS=fitted: the number with the least time */
	enum phase phase;   /* of the parts that it runs */
	struct part_costs at[PRICED_SIZES];
};
extern const struct priced attune_priced[]; /* ends with a NULL kernel */

/* Whether they run on the device: on NVIDIA GPUs, whose kernels were measured. */
int takes_priced(const struct device_info *);
/* The values as a config of the kernel's space. */
void priced_config(struct config *, const struct priced *, const struct space *);
/* The costs at the head size, else those at the next larger one, else those at the largest. */
const struct part_costs *priced_at(const struct priced *, int head_size);
/* The estimated time of a part, in femtoseconds, by a choice with a number of segments. */
long long priced_estimate(const struct part_costs *, const struct kernel *, const struct config *,
			  const struct attune_features *);

#endif
