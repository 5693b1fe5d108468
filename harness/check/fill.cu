/* SPDX-License-Identifier: Apache-2.0 */
/* fill.cu - fills a pool on its GPU, so that tens of GB need not cross the bus. Compiled at run
 * time, with every function for the device. */
#define DTYPE BF16 /* gpu.h needs one; nothing here depends on it */
#include "gpu/gpu.h"
#ifdef __clang__
#pragma clang force_cuda_host_device begin
#include "fill.h"
#pragma clang force_cuda_host_device end
#else
#include "fill.h"
#endif

#define THREADS 256 /* as in kv_pool.c */

KERNEL(THREADS) ENTRY(const fill_args a)
{
	const unsigned long long step = (unsigned long long)gridDim.x * THREADS;
	unsigned long long i = (unsigned long long)blockIdx.x * THREADS + threadIdx.x;
	if (a.dtype == FILL_F32)
		for (; i < a.words; i += step)
			a.to[i] = fill_bits(a.stream, i, FILL_F32);
	else if (a.dtype == FILL_E4M3)
		for (; i < a.words; i += step)
			a.to[i] = fill_bits(a.stream, 4 * i, FILL_E4M3) |
				  fill_bits(a.stream, 4 * i + 1, FILL_E4M3) << 8 |
				  fill_bits(a.stream, 4 * i + 2, FILL_E4M3) << 16 |
				  fill_bits(a.stream, 4 * i + 3, FILL_E4M3) << 24;
	else
		for (; i < a.words; i += step)
			a.to[i] = fill_bits(a.stream, 2 * i, a.dtype) |
				  fill_bits(a.stream, 2 * i + 1, a.dtype) << 16;
}
