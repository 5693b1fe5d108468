/* priced.h - priced choices: each has a model of its time, and the one with the least estimate runs
 * a part where no rule of a header does. That is where the rule's choice is illegal or not carried
 * for the shape, where the rules were learned on other shapes, where the GPU has no header, and
 * where the rule's choice is well above the least (pick_better). */
#ifndef KERNELS_SHIP_PRICED_H
#define KERNELS_SHIP_PRICED_H

#include "kernels/segments.h"
#include "kernels/spec/device_info.h"

struct config;
struct kernel;
struct space;

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
	int is_named;       /* it runs only where the library carries it for a header */
	struct part_costs at[PRICED_SIZES];
};
extern const struct priced attune_priced[]; /* ends with a NULL kernel */

/* Whether they run on the device: on NVIDIA GPUs, whose kernels were measured. */
int takes_priced(const struct device_info *);
/* Whether the costs were fitted to a GPU with the same architecture and about the same rate of
 * matrix products of a unit. */
int is_priced_gpu(const struct device_info *);
/* The values as a config of the kernel's space. */
void priced_config(struct config *, const struct priced *, const struct space *);
/* The costs at the head size, else those at the next larger one, else those at the largest. */
const struct part_costs *priced_at(const struct priced *, int head_size);
/* The number of segments of a config without a formula; 1: its kernel cuts no keys. */
int segments_of(const struct kernel *, const struct config *);
/* The estimated time of a part, in femtoseconds, by a choice with such blocks. */
long long priced_estimate(const struct part_costs *, const struct block_shape *, int segments,
			  const struct attune_features *);

#endif
