/* SPDX-License-Identifier: Apache-2.0 */
/* invariant.h - the choices of batch-invariant mode, ATTUNE_INVARIANT=1 in the environment. */
#ifndef KERNELS_API_INVARIANT_H
#define KERNELS_API_INVARIANT_H

#include "kernels/select/selector.h"

struct choice;
struct config;
struct kernel;

/* Reads the environment. */
enum attune_status invariant_read(int *is_invariant);

/* Iterates over the candidates of a phase for a shape and device, best first. The op takes the
 * first that the library carries:
 *
 *   struct invariant_walk w = { .phase = PHASE_DECODE };
 *   while (invariant_next(&w, shape, device, &choice)) ... */
struct invariant_walk {
	enum phase phase;
	int kernel, row; /* private: what comes next */
};
int invariant_next(struct invariant_walk *, const attune_shape *, const struct device_info *,
		   struct choice *); /* 0 after the last */
/* *as: the choice with its segments for this part, which give each sequence the bits that it has in
 * any other. Returns NULL, or why the choice cannot run the part. */
const char *invariant_fitted(struct config *as, const struct config *, const struct kernel *,
			     const attune_shape *, const struct part *,
			     const struct device_info *);

#endif
