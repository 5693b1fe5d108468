/* SPDX-License-Identifier: Apache-2.0 */
/* no_kernel.h - the messages for shapes that attune_prepare refuses. Each function sets the last
 * error and returns its status. */
#ifndef KERNELS_API_NO_KERNEL_H
#define KERNELS_API_NO_KERNEL_H

#include "kernels/launch/op.h"

/* No kernel that the library carries for the device takes the shape. */
enum attune_status no_kernel(const attune_context *, const attune_shape *);
/* The shape is invalid; error: what shape_error says of it. */
enum attune_status odd_shape(const attune_context *, const attune_shape *, const char *error);

#endif
