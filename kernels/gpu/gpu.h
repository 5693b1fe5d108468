/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the device dialect: all vendor-specific functions of device code. Kernels include this
 * and no vendor header, so that a run-time compiler needs only this folder.
 *
 *   gpu_nvidia.h   warps of 32; matrices by mma.sync, shared memory filled past registers
 *   gpu_amd.h      waves of 64; matrices by MFMA
 *
 * Functions of both vendors are declared here or alike in both files; only a vendor's engine of
 * attend_body.inc uses functions of that vendor alone. CUDA's names for what CUDA and HIP share
 * (threadIdx, __syncthreads, atomicAdd ...) are used as they are. */
#ifndef ATTUNE_GPU_H
#define ATTUNE_GPU_H

#include "gpu_types.h"
#ifdef __AMDGCN__
#include "gpu_amd.h"
#else
#include "gpu_nvidia.h"
#endif

DEVICE int lane_id()
{
	return threadIdx.x % WARP;
}

/* 1 - 2 / (1 + e^2x): absolute error of a few 1e-7 over the whole range, which
 * the hardware's tanh.approx (5e-4) times a cap of 50 is not. */
DEVICE float tanh_exact(float x)
{
	return 1.f - __fdividef(2.f, 1.f + exp2_fast(2.f * LOG2E * x));
}

#endif
