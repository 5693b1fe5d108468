/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - a kernel, and one launch of it; with the device's context current. */
#ifndef KERNELS_DEVICE_CUDA_LAUNCH_H
#define KERNELS_DEVICE_CUDA_LAUNCH_H

#include "api.h"
#include "kernels/device/device.h"

struct cuda_function {
	void *handle;
	size_t packed; /* bytes of its parameter, if packed; 0: passed by pointer */
};
/* `handle` is set; finds whether the parameter may be packed. */
void function_packs(const struct cuda_api *, struct cuda_function *);

/* Errors are the driver's. `args`: the kernel's one parameter. */
typedef int launch_kind(const struct cuda_api *, const struct cuda_function *,
			const struct geometry *, const void *args, void *stream);
launch_kind launch_in_turn;
/* It may begin before the preceding launch is over. */
launch_kind launch_early;

#endif
