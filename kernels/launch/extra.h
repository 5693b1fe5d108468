/* extra.h - launches of kernels that an op has beside those that plans name. */
#ifndef KERNELS_LAUNCH_EXTRA_H
#define KERNELS_LAUNCH_EXTRA_H

#include "op.h"

/* The kernel's row, or NULL: the backend has none, or the shape never needs it. */
const struct kernel *extra_kernel(enum backend, const attune_shape *, enum extra);
/* On a GPU: x * y blocks. args: one struct by value. */
enum attune_status extra_launch(const attune_op *, enum extra, unsigned x, unsigned y,
				const void *args, size_t bytes, void *stream);

#endif
