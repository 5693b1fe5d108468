/* SPDX-License-Identifier: Apache-2.0 */
/* attend_static.h - the body of the persistent kernels. The grid depends only on the device. Its
 * blocks work through the blocks of attend_body.inc's grid as items, in the same order, by the list
 * of schedule_list.h. So a captured launch serves any batch, and a launch can leave SMs to
 * others.
 *
 *   item = segment * blocks + x, x as in find_block()
 *
 * Block i takes items i, i + grid, ...; with tickets, a free block takes the next item. If SMs are
 * spared, the blocks on these stand aside and the others use tickets. */
#ifndef ATTUNE_GPU_ATTEND_STATIC_H
#define ATTUNE_GPU_ATTEND_STATIC_H

#include "attend_body.inc"
#include "../helpers/schedule.h"

/* Sets b's rows and keys for head_index, of the KV heads x head blocks. It repeats the second half
 * of find_block(): sharing it would change the machine code of measured kernels. */
DEVICE void take_heads(const attune_args &a, int head_index, int segment, block &b)
{
	const int head_blocks = (a.group + BLOCK_M - 1) / BLOCK_M;
	const int block_q = a.group < BLOCK_M ? BLOCK_M / a.group : 1;
	const int first = head_index % head_blocks * BLOCK_M;

	b.segment = segment;
	b.kv_head = head_index / head_blocks;
	b.head = b.kv_head * a.group + first;
	b.row_heads = min(a.group - first, BLOCK_M);
	const int tokens = min(block_q, b.q.query_len - b.q.token);
	b.rows = tokens * b.row_heads;
	visible_keys(a, b.q, b.q.token, b.q.token + tokens - 1, b.begin, b.end);
}

DEVICE int find_item(const attune_args &a, u32 x, u32 blocks, int heads, int segment, block &b)
{
	const int tokens = a.group < BLOCK_M ? BLOCK_M / a.group : 1;
	const u32 place = dealt(x, blocks);
	if (!find_scheduled(a, a.schedule, q_block_of(place, blocks, heads), tokens, b.q))
		return 0;
	take_heads(a, head_of(place, blocks, heads), segment, b);
	return 1;
}

enum { NEXT_ITEM, STOOD_ASIDE }; /* counters behind the list */

/* Bresenham's rule picks `spare` of `units` SMs. The counter limits the blocks that stand aside, so
 * that some stay on whatever SMs they run. */
DEVICE int stands_aside(const attune_args &a, u32 *counter)
{
	const u32 spare = a.option[2], units = a.option[3];
	return spare && sm_id() * spare % units < spare &&
	       atomicAdd(counter + STOOD_ASIDE, 1) < spare * (gridDim.x / units);
}

/* Takes a ticket for the whole block. */
DEVICE u32 take_ticket(u32 *counter, int aside)
{
	__shared__ u32 taken;
	if (!threadIdx.x)
		taken = aside ? 0xffffffffu : atomicAdd(counter + NEXT_ITEM, 1);
	__syncthreads();
	const u32 item = taken;
	__syncthreads();
	return item;
}

DEVICE void attend_static(const attune_args &launch)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	attune_args a = launch;
	if (PARTIALS)
		a.segments = a.schedule[SCHEDULE_SEGMENTS];
	const int heads = a.num_kv_heads * ((a.group + BLOCK_M - 1) / BLOCK_M);
	const u32 blocks = a.schedule[SCHEDULE_BLOCKS] * heads;
	const u32 items = PARTIALS ? blocks * a.segments : blocks;
	u32 *counter = (u32 *)a.scratch + SCHEDULE_WORDS(a.seq_count);
	const int tickets = a.option[1];
	u32 item = blockIdx.x;
	if (tickets)
		item = take_ticket(counter, !threadIdx.x && stands_aside(a, counter));
	while (item < items) {
		block b;
		if (find_item(a, item % blocks, blocks, heads, item / blocks, b))
			attend_block(a, b, memory);
		__syncthreads(); /* its shared memory has been read */
		item = tickets ? take_ticket(counter, 0) : item + gridDim.x;
	}
}

#endif
