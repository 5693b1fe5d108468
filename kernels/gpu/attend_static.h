/* attend_static.h - the body of the persistent kernels: a grid that depends on the device
 * alone goes through all blocks that attend.h's grid would have, in that order, by the list
 * of ../schedule.h. So a captured launch serves any batch, and a launch may leave SMs to
 * others.
 *
 *   item = segment * blocks + x, x as find_block() has it; block i takes i, i + grid, ... */
#include "attend.h"
#include "schedule.h"

/* b.q's rows and keys for a head, of the KV heads x head blocks: find_block()'s second half,
 * again, since a function of both would change the machine code of those that were measured. */
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

DEVICE void attend_static(const attune_args &launch)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	attune_args a = launch;
	if (PARTIALS)
		a.segments = a.schedule[SCHEDULE_SEGMENTS];
	const int heads = a.num_kv_heads * ((a.group + BLOCK_M - 1) / BLOCK_M);
	const u32 blocks = a.schedule[SCHEDULE_BLOCKS] * heads;
	const u32 items = PARTIALS ? blocks * a.segments : blocks;
	for (u32 item = blockIdx.x; item < items; item += gridDim.x) {
		block b;
		if (find_item(a, item % blocks, blocks, heads, item / blocks, b))
			attend_block(a, b, memory);
		__syncthreads(); /* its shared memory has been read */
	}
}
