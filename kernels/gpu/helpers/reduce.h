/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h - merges the segments of one (query token, query head) with one warp: o = sum_s w_s l_s
 * o_s / sum_s w_s l_s with w_s = 2^(m_s - max m); the partials o_s are normalised. It sums in
 * segment order, so repeats agree bit for bit. */
#ifndef ATTUNE_GPU_REDUCE_H
#define ATTUNE_GPU_REDUCE_H

#include "../paged.h"
#include "../softmax.h"

#define PIECES ((HEAD_SIZE + WARP - 1) / WARP)

DEVICE float warp_max(float v)
{
	UNROLL for (int mask = WARP / 2; mask; mask /= 2)
		v = fmaxf(v, shfl_xor(v, mask));
	return v;
}

/* row: of the partials. token: in its sequence, which begins at query token `first`. */
DEVICE void reduce_row(const attune_args &a, int row, int first, int token, int head)
{
	const int lane = lane_id();
	const long long index = ((long long)row * a.num_query_heads + head) * a.segments;
	const float *ml = a.partial_ml + index * 2;
	const float *parts = a.partial_out + index * HEAD_SIZE;
	float m = MINUS_INF;
	for (int s = lane; s < a.segments; s += WARP)
		m = fmaxf(m, ml[2 * s]);
	m = warp_max(m);
	const float sink = a.sinks ? sink_of(a, head) : MINUS_INF;
	const float top = fmaxf(m, sink), safe = top == MINUS_INF ? 0.f : top;
	float sum = m == MINUS_INF ? 0.f : exp2_fast(sink - safe), o[PIECES];
	UNROLL for (int i = 0; i < PIECES; i++)
		o[i] = 0;
	for (int s0 = 0; s0 < a.segments; s0 += WARP) {
		/* each lane computes the weight of one segment, then all lanes sum the segments */
		const int mine = s0 + lane, n = min(WARP, a.segments - s0);
		float weight = 0;
		if (mine < a.segments && ml[2 * mine + 1] > 0)
			weight = exp2_fast(ml[2 * mine] - safe) * ml[2 * mine + 1];
#pragma unroll 4
		for (int s = 0; s < n; s++) {
			const float w = shfl(weight, s);
			sum += w;
			if (w > 0)
				UNROLL for (int i = 0; i < PIECES; i++)
					if (i * WARP + lane < HEAD_SIZE)
						o[i] += w * parts[(long long)(s0 + s) * HEAD_SIZE + i * WARP + lane];
		}
	}
	const float factor = sum > 0 ? 1 / sum : 0.f;
	half16 *out = (half16 *)a.out + (first + token) * a.out_token_stride +
		      head * a.out_head_stride;
	UNROLL for (int i = 0; i < PIECES; i++)
		if (i * WARP + lane < HEAD_SIZE)
			out[i * WARP + lane] = (half16)pack2(o[i] * factor, 0.f);
}

#endif
