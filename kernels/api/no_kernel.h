/* no_kernel.h - the lines of shapes that attune_prepare refuses. */
#ifndef KERNELS_API_NO_KERNEL_H
#define KERNELS_API_NO_KERNEL_H

#include "kernels/launch/op.h"

/* Nothing that the context's device runs takes the shape. */
enum attune_status no_kernel(const attune_context *, const attune_shape *);
/* The shape makes no sense: what shape_error says of it. */
enum attune_status odd_shape(const attune_context *, const attune_shape *, const char *error);

#endif
