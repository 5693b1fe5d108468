/* SPDX-License-Identifier: Apache-2.0 */
/* ring_out.h - merges the results of a block's warps, in order, and writes rows. */
#ifndef ATTUNE_GPU_RING_OUT_H
#define ATTUNE_GPU_RING_OUT_H

#include "ring_step.h"

#define LN2 0.69314718056f

/* Writes a warp's results, unnormalised, m in units of log2; each lane has a part of the sum. */
DEVICE void leave(const block &b, state &t, float unit, float *to)
{
	const int l = lane_id();
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
	{
		float *row = to + row_of(n, e) * MERGE_ROW;
		float sum = t.l[n][e];
		sum += shfl_xor(sum, 4);
		sum += shfl_xor(sum, 8);
		sum += shfl_xor(sum, 16);
		if (row_of(n, e) >= b.rows)
			continue;
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int h = 0; h < 2; h++)
			row[dimension_of(d, h)] = scaled_value(b, t.o[d][n][2 * h + e]);
		if (l < 4)
			*(float2 *)(row + HEAD_SIZE) = make_float2(rounded_product(t.m[n][e], unit) - P_SHIFT, sum);
	}
}

/* Four outputs of a row, and its m and l. */
struct piece {
	float o[4], m, l;
};

/* Merges n results of leave(), in order. */
DEVICE piece join(const float *row, int column, int n, int stride)
{
	piece p = { { 0, 0, 0, 0 }, MINUS_INF, 0 };
	for (int i = 0; i < n; i++)
		p.m = fmaxf(p.m, row[i * stride + HEAD_SIZE]);
	const float safe = p.m == MINUS_INF ? 0.f : p.m;
	for (int i = 0; i < n; i++) {
		const float *part = row + i * stride;
		const float weight = exp2_fast(part[HEAD_SIZE] - safe);
		p.l += weight * part[HEAD_SIZE + 1];
		UNROLL for (int k = 0; k < 4; k++)
			p.o[k] += weight * part[column + k];
	}
	return p;
}

/* Adds the sink's logit, which has no value. */
DEVICE void add_sink(const attune_args &a, int head, piece &p)
{
	if (!a.sinks || p.l == 0)
		return;
	const float sink = sink_of(a, head), m = fmaxf(p.m, sink);
	const float kept = exp2_fast(p.m - m);
	p.m = m;
	p.l = p.l * kept + exp2_fast(sink - m);
	UNROLL for (int k = 0; k < 4; k++)
		p.o[k] *= kept;
}

/* Writes the natural logarithm of the sum of the row's weights. It is at least the sink, which may
 * be too large for powers of two. */
DEVICE void put_lse(const attune_call &c, const block &b, int row, const piece &p)
{
	const attune_more &more = c.more;
	const int head = row_head(b, row);
	float lse = (p.m + log2_fast(p.l)) * LN2;
	if (c.args.sinks)
		lse = fmaxf(lse, c.args.sinks[head]);
	more.lse[(b.q.first_row + row_token(b, row)) * more.lse_token_stride +
		 head * more.lse_head_stride] = p.l > 0 ? lse : MINUS_INF;
}

/* Writes the final output */
DEVICE void put_final(const attune_call &c, const block &b, int row, int column, piece p)
{
	const attune_args &a = c.args;
	half16 *dst = (half16 *)a.out + (b.q.first_row + row_token(b, row)) * a.out_token_stride +
		      row_head(b, row) * a.out_head_stride + column;
	add_sink(a, row_head(b, row), p);
	const float factor = p.l > 0 ? 1 / p.l : 0;
	((u32 *)dst)[0] = pack2(p.o[0] * factor, p.o[1] * factor);
	((u32 *)dst)[1] = pack2(p.o[2] * factor, p.o[3] * factor);
	if (c.more.lse && !column)
		put_lse(c, b, row, p);
}

#endif
