/* priced.h - choices with a model of their time, which take a part where no rule of a header can: its
 * choice is illegal there or not carried for the shape, or the GPU has no header. */
#ifndef KERNELS_SHIP_PRICED_H
#define KERNELS_SHIP_PRICED_H

#include "kernels/spec/device_info.h"

/* The time of a choice at one head size, in femtoseconds for each amount of the part: the terms of
 * tuner/costmodel/costmodel.h. */
struct part_costs {
	int head_size;
	struct segment_costs segments;
	long long launch, total, kib, rows;
};

enum { PRICED_SIZES = 3 };
struct priced {
	const char *kernel, *values; /* of its tunables; SEGMENTS=fitted: the least time */
	enum phase phase;            /* of the parts that it takes */
	struct part_costs at[PRICED_SIZES];
};
extern const struct priced attune_priced[]; /* ends with a NULL kernel */

/* Whether the device takes them: GPUs with the kernels that were measured. */
int takes_priced(const struct device_info *);
void priced_config(struct config *, const struct priced *, const struct space *);
/* The costs of a head size, or of the one that stands for it: the next larger, else the largest. */
const struct part_costs *priced_at(const struct priced *, int head_size);
/* Fs of a part by a choice whose segments are a number. */
long long priced_estimate(const struct part_costs *, const struct kernel *, const struct config *,
			  const struct attune_features *);

#endif
