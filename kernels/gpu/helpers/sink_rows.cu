/* SPDX-License-Identifier: Apache-2.0 */
/* sink_rows.cu - the LSE of rows that see no key, whose kernel left minus infinity: their head's sink, if
 * it has one. Only a query's first tokens see no key, those before the sequence's first; without
 * causal all tokens or none. grid: x = sequences. */
#include "sinks_args.h"
#include "../gpu.h"

#define NO_SINK -3.402823466e38f /* the lowest float means none, too */

KERNEL(NUM_WARPS * 32) ENTRY(const attune_sink_rows_args a)
{
	const int first = a.query_start[blockIdx.x], query = a.query_start[blockIdx.x + 1] - first;
	const int keys = max(a.seq_lens[blockIdx.x], 0);
	const int rows = a.causal ? query - keys : keys ? 0 : query;
	for (int i = threadIdx.x; i < rows * a.num_heads; i += blockDim.x) {
		const int token = i / a.num_heads, head = i - token * a.num_heads;
		const float sink = a.sinks[head];
		if (sink > NO_SINK)
			a.lse[(first + token) * a.lse_token_stride + head * a.lse_head_stride] = sink;
	}
}
