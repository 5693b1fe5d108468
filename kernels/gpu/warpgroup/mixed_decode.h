/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_decode.h - the decodes of warpgroup_mixed.cu: the text of ring_list in a namespace, with
 * another view of its grid. Its names, such as BLOCK_M, are those of prefills afterwards, so it is
 * included before what belongs to these. */
#ifndef ATTUNE_MIXED_DECODE_H
#define ATTUNE_MIXED_DECODE_H

#include "../../args_more.h"
#include "../ring/deal.h"
#include "../helpers/schedule.h"
#include "../paged.h"
#include "../ring/ring_nvidia.h"
#include "../softmax.h"
#include "mixed_blocks.h"

#define KV_DTYPE DTYPE
#define DECODE_BARRIER 8 /* of the warps that decode */
#define SHORT	       64 /* keys that a decode's start counts for; least keys of a block */

#define BLOCK_M	   8
#define TILE_SIZE  DECODE_TILE
#define NUM_WARPS  DECODE_WARPS
#define NUM_STAGES DECODE_STAGES
namespace decode
{
struct line {
	u32 x;
};
DEVICE line blocks_that_decode(const attune_args &a)
{
	return { (u32)a.segments }; /* ring_list has no segments */
}
#undef gridDim
#undef blockIdx
#undef KERNEL
#define gridDim		blocks_that_decode(a)
#define blockIdx	(line{ (u32)this_block() })
#define KERNEL(threads) DEVICE void
#define __syncthreads() barrier(DECODE_BARRIER, THREADS)
#include "../ring/ring_list_body.inc"
#undef __syncthreads
#undef gridDim
#undef blockIdx
#undef KERNEL

DEVICE void run(const attune_call &whole)
{
	const attune_args &a = whole.args;
	const int packed = a.option[MIXED_DECODE];
	const long long rows = partial_rows(a);
	attune_call c = { view(a, a.decode, units_of(a)), whole.more };
	c.args.scratch = (counter *)a.scratch + COUNTERS;
	c.args.partial_ml = a.partial_ml + rows * 2;
	c.args.partial_out = a.partial_out + rows * HEAD_SIZE;
	c.args.option[BLOCK_Q] = packed >> 8 & 255;
	c.args.option[Q_BLOCKS] = packed >> 16;
	c.args.option[START] = SHORT / TILE_SIZE;
	c.args.option[REST] = (packed & 1) + SHORT / TILE_SIZE * 8;
	if (threadIdx.x < THREADS)
		ENTRY(c);
}
}
#undef BLOCK_M
#undef TILE_SIZE
#undef NUM_WARPS
#undef NUM_STAGES
#undef THREADS
#undef CHUNKS
#undef TILE_BYTES
#undef Q_BYTES
#undef P_SHIFT

#endif
