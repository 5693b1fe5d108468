/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_wide.cu - merges segments like reduce.cu, but with a block for each (query token, query
 * head). It suits few rows with many segments, where memory latency dominates: a single warp that
 * walks through the segments takes 0.2 us a segment on an H200. Here each warp has every
 * NUM_WARPS'th segment and issues all its loads before it uses any:
 *
 *   segments    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
 *   warp         w0  w1  w2  w3  w0  w1  w2  w3  w0
 *
 * Warps combine their sums in shared memory. The order of every sum is fixed, so repeats agree bit
 * for bit. grid: x = partial rows x query heads, heads fastest. */
#include "reduce.h"

#define AT_A_TIME 16			      /* segments of a warp */
#define PAIRS	  ((HEAD_SIZE / 2 + WARP - 1) / WARP) /* dimensions of a lane, by twos */

/* A warp's sum over its segments: o, not normalised, relative to 2^top. */
struct share {
	float2 o[PAIRS];
	float top, sum;
};

DEVICE float warp_sum(float v)
{
	UNROLL for (int mask = WARP / 2; mask; mask /= 2)
		v += shfl_xor(v, mask);
	return v;
}

DEVICE float not_below(float top)
{
	return top == MINUS_INF ? 0.f : top;
}

/* Loads the lane's dimensions of the warp's segments from `first` on, up to the last. */
DEVICE void load_parts(float2 (&part)[AT_A_TIME][PAIRS], const float *parts, int first, int segments)
{
	UNROLL for (int i = 0; i < AT_A_TIME; i++)
	UNROLL for (int n = 0; n < PAIRS; n++)
	{
		const int s = first + i * NUM_WARPS, pair = n * WARP + lane_id();
		part[i][n] = make_float2(0, 0);
		if (s < segments && pair < HEAD_SIZE / 2)
			part[i][n] = ((const float2 *)(parts + (long long)s * HEAD_SIZE))[pair];
	}
}

/* ml, parts: of the row's segment 0. Each lane computes the weight of one segment for all lanes. */
DEVICE share join_share(const float2 *ml, const float *parts, int segments)
{
	share t = { {}, MINUS_INF, 0 };
	for (int first = threadIdx.x / WARP; first < segments; first += NUM_WARPS * AT_A_TIME) {
		const int mine = first + lane_id() * NUM_WARPS;
		float2 part[AT_A_TIME][PAIRS], own = make_float2(MINUS_INF, 0);
		load_parts(part, parts, first, segments);
		if (lane_id() < AT_A_TIME && mine < segments)
			own = ml[mine];
		const float top = fmaxf(t.top, warp_max(own.y > 0 ? own.x : MINUS_INF));
		const float kept = exp2_fast(t.top - not_below(top));
		const float weight = own.y > 0 ? exp2_fast(own.x - not_below(top)) * own.y : 0.f;
		t.top = top;
		t.sum = t.sum * kept + warp_sum(weight);
		UNROLL for (int n = 0; n < PAIRS; n++)
			t.o[n] = make_float2(t.o[n].x * kept, t.o[n].y * kept);
		UNROLL for (int i = 0; i < AT_A_TIME; i++)
		{
			const float w = shfl(weight, i);
			if (w > 0) /* a segment of weight 0 has no partial */
				UNROLL for (int n = 0; n < PAIRS; n++)
				{
					t.o[n].x += w * part[i][n].x;
					t.o[n].y += w * part[i][n].y;
				}
		}
	}
	return t;
}

/* The sums of all warps, which the whole block reads. */
struct shares {
	float2 o[NUM_WARPS][HEAD_SIZE / 2];
	float top[NUM_WARPS], sum[NUM_WARPS];
};

DEVICE void put_share(shares &all, const share &t)
{
	const int warp = threadIdx.x / WARP;
	UNROLL for (int n = 0; n < PAIRS; n++)
		if (n * WARP + lane_id() < HEAD_SIZE / 2)
			all.o[warp][n * WARP + lane_id()] = t.o[n];
	if (!lane_id()) {
		all.top[warp] = t.top;
		all.sum[warp] = t.sum;
	}
}

/* Two dimensions of the output */
DEVICE u32 join_shares(const shares &all, int pair, float sink)
{
	float top = sink, sum = 0;
	float2 o = make_float2(0, 0);
	UNROLL for (int w = 0; w < NUM_WARPS; w++)
		top = fmaxf(top, all.top[w]);
	UNROLL for (int w = 0; w < NUM_WARPS; w++)
	{
		const float kept = exp2_fast(all.top[w] - not_below(top));
		sum += kept * all.sum[w];
		o.x += kept * all.o[w][pair].x;
		o.y += kept * all.o[w][pair].y;
	}
	/* a row that saw nothing gives 0, whatever the sink */
	const float factor = sum > 0 ? 1 / (sum + exp2_fast(sink - not_below(top))) : 0.f;
	return pack2(o.x * factor, o.y * factor);
}

KERNEL(NUM_WARPS * WARP) ENTRY(const attune_args a)
{
	__shared__ shares all;
	const int row = blockIdx.x / a.num_query_heads, head = blockIdx.x % a.num_query_heads;
	const int seq = a.seq_begin + row / a.max_query, token = row % a.max_query;
	const int first = a.query_start[seq], query_len = a.query_start[seq + 1] - first;
	if (token >= query_len || query_len < a.min_query || query_len > a.max_query)
		return;
	const long long at = (long long)blockIdx.x * a.segments;
	put_share(all, join_share((const float2 *)a.partial_ml + at, a.partial_out + at * HEAD_SIZE,
				  a.segments));
	__syncthreads();
	if (threadIdx.x < HEAD_SIZE / 2) {
		half16 *out = (half16 *)a.out + (first + token) * a.out_token_stride +
			      head * a.out_head_stride;
		((u32 *)out)[threadIdx.x] =
			join_shares(all, threadIdx.x, a.sinks ? sink_of(a, head) : MINUS_INF);
	}
}
