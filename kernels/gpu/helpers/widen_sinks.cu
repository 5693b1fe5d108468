/* SPDX-License-Identifier: Apache-2.0 */
/* widen_sinks.cu - sinks of 16 bits as floats, before the launches that read them. grid: x = shares. */
#include "sinks_args.h"
#include "../gpu.h"

KERNEL(NUM_WARPS * 32) ENTRY(const attune_widen_sinks_args a)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= a.n)
		return;
	const u32 bits = a.from[i], size = (bits & 0x7fff) << 13;
	/* an f16's fraction and exponent, 112 below a float's; infinity and NaN stay what they are */
	const float f16 = size < 0x7c00u << 13 ? __int_as_float((int)size) * 0x1p112f :
						 __int_as_float((int)(size | 0x7f800000));
	a.to[i] = a.is_bf16 ? __int_as_float((int)(bits << 16)) : bits & 0x8000 ? -f16 : f16;
}
