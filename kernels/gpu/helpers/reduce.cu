/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.cu - merges the segments of each (query token, query head), with a warp for each.
 * grid: x = partial rows x (query heads / NUM_WARPS), heads fastest. */
#include "reduce.h"

KERNEL(NUM_WARPS * WARP) ENTRY(const attune_args a)
{
	const int head_blocks = (a.num_query_heads + NUM_WARPS - 1) / NUM_WARPS;
	const int row = blockIdx.x / head_blocks;
	const int head = blockIdx.x % head_blocks * NUM_WARPS + threadIdx.x / WARP;
	const int seq = a.seq_begin + row / a.max_query, token = row % a.max_query;
	const int first = a.query_start[seq], query_len = a.query_start[seq + 1] - first;
	if (head >= a.num_query_heads || token >= query_len || query_len < a.min_query ||
	    query_len > a.max_query)
		return;
	reduce_row(a, row, first, token, head);
}
