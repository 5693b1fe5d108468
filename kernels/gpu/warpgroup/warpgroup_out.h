/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_out.h - writes a warpgroup's results: outputs, or a segment's partials, and the LSE. */
#ifndef ATTUNE_WARPGROUP_OUT_H
#define ATTUNE_WARPGROUP_OUT_H

#include "../softmax.h"
#include "warpgroup_scores.h"
#include "warpgroup_team.h"

#define LN2 0.69314718056f

DEVICE float quad_sum(float x)
{
	x += shfl_xor(x, 1);
	return x + shfl_xor(x, 2);
}

/* The row's base of weights, in log2 units */
DEVICE float peak(const team &t, int r)
{
	return rounded_product(t.top[r], t.unit[r]) - P_SHIFT;
}

/* The factor of a row's outputs */
DEVICE float normaliser(const attune_args &a, const team &t, int r)
{
	const float l = quad_sum(t.sum[r]);
	if (l == 0)
		return 0;
	if (!a.sinks)
		return 1 / l;
	const float sink = sink_of(a, t.i.head + place_in(a, t, r).head);
	const float m = peak(t, r), top = fmaxf(m, sink);
	const float kept = exp2_fast(m - top);
	return kept / (l * kept + exp2_fast(sink - top));
}

/* Lane c of a quad has words x[0..3], word j of columns 8 j + 2 c; afterwards those of columns
 * 8 c .. 8 c + 7. */
DEVICE void transpose_quad(u32 (&x)[4])
{
	const int c = lane_id() % 4;
	UNROLL for (int j = 0; j < 2; j++)
	{
		const u32 there = shfl_xor(c & 2 ? x[j] : x[j + 2], 2);
		if (c & 2)
			x[j] = there;
		else
			x[j + 2] = there;
	}
	UNROLL for (int j = 0; j < 4; j += 2)
	{
		const u32 there = shfl_xor(c & 1 ? x[j] : x[j + 1], 1);
		if (c & 1)
			x[j] = there;
		else
			x[j + 1] = there;
	}
}

/* Converts the outputs and keeps them until put_held() */
DEVICE void hold_rows(const attune_args &a, team &t)
{
	UNROLL for (int r = 0; r < 2; r++)
	{
		const float factor = normaliser(a, t, r) * t.value;
		const place p = place_in(a, t, r);
		t.held.to[r] = (half16 *)a.out + (t.i.goes_to + p.token) * a.out_token_stride +
			       (t.i.head + p.head) * a.out_head_stride + lane_id() % 4 * 8;
		UNROLL for (int n = 0; n < HEAD_SIZE / 8; n++)
		{
			const float *o = t.o + 4 * n + 2 * r;
			t.held.x[r][n] = pack2(o[0] * factor, o[1] * factor);
		}
	}
	t.held.rows = t.i.rows;
}

/* Stores 32 columns of a row at a time, 16 bytes a lane. Scores may be under way meanwhile. */
DEVICE void put_held(team &t)
{
	UNROLL for (int r = 0; r < 2; r++)
	UNROLL for (int n = 0; n < HEAD_SIZE / 8; n += 4)
	{
		u32 x[4] = { t.held.x[r][n], t.held.x[r][n + 1], t.held.x[r][n + 2], t.held.x[r][n + 3] };
		transpose_quad(x);
		if (t.row + 8 * r < t.held.rows)
			*(uint4 *)(t.held.to[r] + n * 8) = make_uint4(x[0], x[1], x[2], x[3]);
	}
	t.held.rows = 0;
}

/* Marks that nothing is held, so that the compiler may drop what was. */
DEVICE void hold_nothing(team &t)
{
	UNROLL for (int r = 0; r < 2; r++)
	{
		t.held.to[r] = NULL;
		UNROLL for (int n = 0; n < HEAD_SIZE / 8; n++)
			t.held.x[r][n] = 0;
	}
	t.held.rows = 0;
}

/* The natural logarithm of the sum of a row's weights. It is at least the sink, which may be too
 * large for powers of two. */
DEVICE float lse_of(const attune_args &a, const team &t, int r)
{
	const float l = quad_sum(t.sum[r]), m = peak(t, r);
	if (l == 0)
		return MINUS_INF;
	if (!a.sinks)
		return (m + log2_fast(l)) * LN2;
	const int head = t.i.head + place_in(a, t, r).head;
	const float sink = sink_of(a, head), top = fmaxf(m, sink);
	const float sum = l * exp2_fast(m - top) + exp2_fast(sink - top);
	return fmaxf((top + log2_fast(sum)) * LN2, a.sinks[head]);
}

DEVICE void put_lse(const attune_call &c, const team &t)
{
	UNROLL for (int r = 0; r < 2; r++)
	{
		const place p = place_in(c.args, t, r);
		const float lse = lse_of(c.args, t, r);
		if (lane_id() % 4 == 0 && t.row + 8 * r < t.i.rows)
			c.more.lse[(t.i.goes_to + p.token) * c.more.lse_token_stride +
				   (t.i.head + p.head) * c.more.lse_head_stride] = lse;
	}
}

/* Writes a segment's partials, as in args.h: a quad has 8 columns of a row at a time. */
DEVICE void put_partials(const attune_args &a, const team &t)
{
	const int c = lane_id() % 4;
	UNROLL for (int r = 0; r < 2; r++)
	{
		const float l = quad_sum(t.sum[r]), factor = l > 0 ? t.value / l : 0;
		const place p = place_in(a, t, r);
		const long long at = t.i.goes_to + (p.token * a.num_query_heads + p.head) * a.segments;
		float *to = a.partial_out + at * HEAD_SIZE + 2 * c;
		if (t.row + 8 * r >= t.i.rows)
			continue;
		if (!c)
			*(float2 *)(a.partial_ml + at * 2) = make_float2(peak(t, r), l);
		UNROLL for (int n = 0; n < HEAD_SIZE / 8; n++)
			*(float2 *)(to + 8 * n) = make_float2(t.o[4 * n + 2 * r] * factor,
							      t.o[4 * n + 2 * r + 1] * factor);
	}
}

/* Writes the results of an item */
DEVICE void put_item(const attune_call &c, team &t)
{
	if (c.args.segments > 1) {
		put_partials(c.args, t);
		hold_nothing(t);
		return;
	}
	if (c.more.lse)
		put_lse(c, t);
	hold_rows(c.args, t);
}

#endif
