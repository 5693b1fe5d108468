/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - the driver calls of all CUDA code, and constants of the driver's ABI. */
#ifndef KERNELS_DEVICE_CUDA_API_H
#define KERNELS_DEVICE_CUDA_API_H

#include <stddef.h>

struct cuda_api {
#define CU_FN(ours, symbol, arguments) int(*ours) arguments;
#include "api.def"
#undef CU_FN
};

enum {
	ATTR_SMEM_BLOCK_OPTIN = 97,
	ATTR_SMEM_UNIT = 81,
	ATTR_WARP = 10,
	ATTR_CLOCK_KHZ = 13,
	ATTR_UNITS = 16,
	ATTR_MEMORY_KHZ = 36,
	ATTR_L2 = 38,
	ATTR_CC_MAJOR = 75,
	ATTR_CC_MINOR = 76,
	FUNC_SMEM_STATIC = 1,
	FUNC_LOCAL_BYTES = 3,
	FUNC_REGISTERS = 4,
	FUNC_SMEM_DYNAMIC = 8,
	STREAM_NON_BLOCKING = 1,
	CAPTURE_RELAXED = 2,
	ERROR_OUT_OF_MEMORY = 2,
	ERROR_INVALID_IMAGE = 200,
	ERROR_NO_IMAGE_FOR_GPU = 209,
	ERROR_NEWER_PTX = 222,
	ERROR_OUT_OF_RESOURCES = 701
};

#endif
