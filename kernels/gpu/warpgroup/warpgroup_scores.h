/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_scores.h - turns a warpgroup's scores into weights: softcap, ALiBi, masks, running
 * maximum and sum. */
#ifndef ATTUNE_WARPGROUP_SCORES_H
#define ATTUNE_WARPGROUP_SCORES_H

#include "../softmax.h"
#include "warpgroup_team.h"

/* Weights are 2^P_SHIFT at most; from COARSE on units of scores are coarse (softmax.h). */
#if KV_DTYPE == E4M3
#define P_SHIFT 15.f
#define COARSE	0.f /* scores are below 2^24 (attune.h): registers are short here */
#else
#define P_SHIFT 0.f
#define COARSE	COARSE_16BIT
#endif

/* Score n of a thread: its key relative to score 0's, and which of the two rows */
#define KEY_OF(n) (8 * ((n) / 4) + ((n) & 1))
#define ROW_OF(n) ((n) >> 1 & 1)

/* Token and head of row r of this thread's two */
DEVICE place place_in(const attune_args &a, const team &t, int r)
{
	return place_of(a, t.row + 8 * r);
}

/* Tokens from the item's first row to row r */
DEVICE int down(const attune_args &a, const team &t, int r)
{
	return PACKED ? place_in(a, t, r).token - place_in(a, t, 0).token : 8 * r;
}

/* Applies softcap and ALiBi; scores are then in log2 units. key: that of score 0. */
template <int KEYS> DEVICE void bend(const attune_args &a, const team &t, scores &s, int key)
{
	const float cap = a.softcap;
	float slope[2] = { 0, 0 }, before[2], inward[2];
	UNROLL for (int r = 0; r < 2; r++)
	{
		const place p = place_in(a, t, r);
		before[r] = key - t.i.position - p.token;
		inward[r] = cap > 0 ? scale_of(a, t, r) / cap : 0;
		if (a.alibi_slopes)
			slope[r] = a.alibi_slopes[t.i.head + p.head];
	}
	if (cap > 0)
		UNROLL for (int n = 0; n < KEYS / 2; n++)
			s[n] = cap * tanh_exact(s[n] * inward[ROW_OF(n)]);
	else
		UNROLL for (int n = 0; n < KEYS / 2; n++)
			s[n] *= scale_of(a, t, ROW_OF(n));
	UNROLL for (int n = 0; n < KEYS / 2; n++)
		s[n] = LOG2E * (s[n] + slope[ROW_OF(n)] * (before[ROW_OF(n)] + KEY_OF(n)));
}

template <int KEYS> DEVICE void mask(const attune_args &a, const team &t, scores &s, int key)
{
	const int position = t.i.position + place_in(a, t, 0).token - key;
	const int last = t.i.seq_len - 1 - key;
	int highest[2], lowest[2];
	UNROLL for (int r = 0; r < 2; r++)
	{
		const int below = down(a, t, r);
		highest[r] = a.causal ? min(position + below, last) : last;
		lowest[r] = position + below - a.window + 1;
	}
	UNROLL for (int n = 0; n < KEYS / 2; n++)
		if (KEY_OF(n) > highest[ROW_OF(n)])
			s[n] = MINUS_INF;
	if (!a.window)
		return;
	UNROLL for (int n = 0; n < KEYS / 2; n++)
		if (KEY_OF(n) < lowest[ROW_OF(n)])
			s[n] = MINUS_INF;
}

DEVICE float quad_max(float x)
{
	x = fmaxf(x, shfl_xor(x, 1));
	return fmaxf(x, shfl_xor(x, 2));
}

/* Turns scores into weights, updating maximum and sum. EDGE: a row may have seen no key so far. */
template <int EDGE, int KEYS> DEVICE void soften(team &t, scores &s)
{
	float top[2] = { t.top[0], t.top[1] }, sum[2] = { 0, 0 };
	exponent x[2];
	UNROLL for (int n = 0; n < KEYS / 2; n += 2) /* pairs: half as many wait for each other */
		top[ROW_OF(n)] = fmaxf(top[ROW_OF(n)], fmaxf(s[n], s[n + 1]));
	UNROLL for (int r = 0; r < 2; r++)
	{
		top[r] = quad_max(top[r]);
		x[r] = exponent_of(EDGE && top[r] == MINUS_INF ? 0 : top[r], t.unit[r], COARSE, P_SHIFT);
		t.fade[r] = fade_of(x[r], t.top[r], P_SHIFT);
		t.top[r] = top[r];
	}
	UNROLL for (int n = 0; n < KEYS / 2; n += 2)
	{
		s[n] = weight_of(x[ROW_OF(n)], s[n]);
		s[n + 1] = weight_of(x[ROW_OF(n)], s[n + 1]);
		sum[ROW_OF(n)] += s[n] + s[n + 1];
	}
	UNROLL for (int r = 0; r < 2; r++)
		t.sum[r] = t.sum[r] * t.fade[r] + sum[r];
}

/* For the tile's first KEYS; other weights become zeros. EDGE 2: a mask but no softcap or ALiBi. */
template <int EDGE, int KEYS>
DEVICE void weigh(const attune_args &a, team &t, scores &s, int tile)
{
	const int key = tile * TILE_SIZE + 2 * (lane_id() % 4);
	if (EDGE) {
		if (EDGE == 1 && t.bent)
			bend<KEYS>(a, t, s, key);
		mask<KEYS>(a, t, s, key);
	}
	soften<EDGE, KEYS>(t, s);
	UNROLL for (int n = KEYS / 2; n < TILE_SIZE / 2; n++)
		s[n] = 0;
}

DEVICE void pack(weights &p, const scores &s)
{
	UNROLL for (int n = 0; n < TILE_SIZE / 4; n++)
		p[n] = pack_weights(s[2 * n], s[2 * n + 1]);
}

#endif
