/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - writes the list of Q blocks (schedule_list.h) and finds a Q block in it. */
#ifndef ATTUNE_GPU_SCHEDULE_H
#define ATTUNE_GPU_SCHEDULE_H

#include "schedule_list.h"
#include "../paged.h"

#define SCHEDULE_MAX_WARPS 32

/* Q blocks of sequence i of the part */
DEVICE int scheduled_blocks(const attune_args &a, int i, int tokens)
{
	const int seq = a.seq_begin + i;
	const int query = a.query_start[seq + 1] - a.query_start[seq];
	return query >= a.min_query && query <= a.max_query ? (query + tokens - 1) / tokens : 0;
}

/* Sum over the lanes up to this one. */
DEVICE int warp_running_sum(int v)
{
	UNROLL for (int far = 1; far < WARP; far *= 2)
	{
		const int below = shfl_up(v, far);
		v += lane_id() >= far ? below : 0;
	}
	return v;
}

/* Runs on one block of whole warps, which takes a chunk of sequences at a time, one for each
 * thread. sums: shared memory, [SCHEDULE_MAX_WARPS]. */
DEVICE void schedule_write(const attune_args &a, int tokens, int segments, int variant,
			   int *schedule, int *sums)
{
	const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
	int *prefix = schedule + SCHEDULE_PREFIX;
	int before = 0; /* blocks of earlier chunks */
	for (int first = 0; first < a.seq_count; first += blockDim.x) {
		const int i = first + threadIdx.x;
		const int up_to = warp_running_sum(i < a.seq_count ? scheduled_blocks(a, i, tokens) : 0);
		int below = before;
		if (lane_id() == WARP - 1)
			sums[warp] = up_to;
		__syncthreads();
		for (int w = 0; w < warps; w++) {
			below += w < warp ? sums[w] : 0;
			before += sums[w];
		}
		if (i < a.seq_count)
			prefix[i + 1] = below + up_to;
		__syncthreads(); /* sums are read */
	}
	if (threadIdx.x)
		return;
	prefix[0] = 0;
	schedule[SCHEDULE_BLOCKS] = before;
	schedule[SCHEDULE_SEGMENTS] = segments;
	schedule[SCHEDULE_VARIANT] = variant;
	schedule[SCHEDULE_TOKENS] = tokens;
}

/* Finds Q block `index`: the last sequence with a first block at or before it. The first guess is
 * right if each sequence has one block. 0: no such block. */
DEVICE int find_scheduled(const attune_args &a, const int *schedule, int index, int tokens,
			  q_block &b)
{
	const int *prefix = schedule + SCHEDULE_PREFIX;
	int lo = 0, hi = a.seq_count - 1;
	if (index < a.seq_count && prefix[index] == index && prefix[index + 1] > index)
		lo = hi = index;
	while (lo < hi) {
		const int mid = (lo + hi + 1) / 2;
		if (prefix[mid] <= index)
			lo = mid;
		else
			hi = mid - 1;
	}
	b.seq = a.seq_begin + lo;
	b.token = (index - prefix[lo]) * tokens;
	b.first_row = a.query_start[b.seq];
	b.query_len = a.query_start[b.seq + 1] - b.first_row;
	b.seq_len = a.seq_lens[b.seq];
	return b.query_len >= a.min_query && b.query_len <= a.max_query && b.token >= 0 &&
	       b.token < b.query_len;
}

#endif
