/* SPDX-License-Identifier: Apache-2.0 */
/* roofline_amd.h - the functions of the dialect that only roofline.cu uses, on AMD GPUs. */
#ifndef ATTUNE_ROOFLINE_AMD_H
#define ATTUNE_ROOFLINE_AMD_H

#include "roofline_paths.h"

typedef int cache_policy;
template <int keep> DEVICE cache_policy l2_policy()
{
	return 0;
}

DEVICE void stay() /* units have no numbers in a row: args.units is 0 */
{
}

DEVICE void load16(u32 (&v)[4], const void *p, cache_policy)
{
	const u32x4 x = load_halves<!KEEP>(p, 8);
	UNROLL for (int i = 0; i < 4; i++)
		v[i] = x[i];
}

#endif
