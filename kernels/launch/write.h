/* SPDX-License-Identifier: Apache-2.0 */
/* write.h - writes K and V of new tokens into the cache on the CPU. GPUs have the kernel
 * write_kv. */
#ifndef KERNELS_LAUNCH_WRITE_H
#define KERNELS_LAUNCH_WRITE_H

#include "kernels/device/device.h"

struct attune_write;

/* Elements of both have `bytes` bytes, and the cache is one of strides. */
enum attune_status write_on_cpu(struct device *, const struct attune_write *, int bytes);

#endif
