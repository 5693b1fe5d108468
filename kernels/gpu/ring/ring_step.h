/* SPDX-License-Identifier: Apache-2.0 */
/* ring_step.h - what a warp computes of a tile: scores, mask, softmax, outputs. */
#ifndef ATTUNE_GPU_RING_STEP_H
#define ATTUNE_GPU_RING_STEP_H

#include "ring_width.h"

/* Loads 16 dimensions of all rows, 16 rows at a time. */
DEVICE void load_q(u32 (&q)[EIGHTS][2], u32 q_tile, int step)
{
	const int l = lane_id();
	UNROLL for (int n = 0; n + 1 < EIGHTS; n += 2)
	{
		u32 two[4];
		load_matrices(two, q_tile + chunk_at(n * 8 + (l & 7) + ((l >> 4) << 3),
						     step * 2 + ((l >> 3) & 1)));
		UNROLL for (int i = 0; i < 4; i++)
			q[n + i / 2][i % 2] = two[i];
	}
}

/* The same for a step, from registers or shared memory. */
DEVICE void get_q(u32 (&q)[EIGHTS][2], const queries &held, u32 q_tile, int step)
{
	if (Q_HELD)
		UNROLL for (int n = 0; n < EIGHTS; n++)
		UNROLL for (int i = 0; i < 2; i++)
			q[n][i] = held.held[Q_HELD ? step : 0][n][i];
	else
		load_q(q, q_tile, step);
}

/* ---- a tile --------------------------------------------------------------------------------- */

/* s = K Q^T */
DEVICE void scores(logits &s, const queries &held, u32 q_tile, u32 k_tile)
{
	float sums[CHAINS][STEPS][EIGHTS][4] = {};
	UNROLL for (int step = 0; step < DEPTH; step += DEPTH_LOADED)
	{
		u32 q[DEPTH_LOADED][EIGHTS][2];
		UNROLL for (int i = 0; i < DEPTH_LOADED && step + i < DEPTH; i++)
			get_q(q[i], held, q_tile, step + i);
		UNROLL for (int j = 0; j < STEPS; j++)
		{
			u32 k[DEPTH_LOADED][4];
			load_keys(k, k_tile, j * 16, step);
			UNROLL for (int i = 0; i < DEPTH_LOADED && step + i < DEPTH; i++)
			UNROLL for (int n = 0; n < EIGHTS; n++)
				multiply(sums[(step + i) % CHAINS][j][n], k[i], q[i][n][0],
					 q[i][n][1]);
		}
	}
	UNROLL for (int j = 0; j < STEPS; j++)
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int i = 0; i < 4; i++) {
		const float sum = CHAINS == 2 ? sums[0][j][n][i] + sums[CHAINS - 1][j][n][i] :
						sums[0][j][n][i];
		s[j][n][i] = scaled_score(held, n, i % 2, sum);
	}
}

/* Applies softcap and ALiBi, if the layer has them; scores are then in log2 units. */
DEVICE void bend(const attune_args &a, const block &b, logits &s, const positions &at, int first)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
	{
		const int row = row_of(n, e), key = first + lane_id() / 4 - at[n][e];
		const float slope = a.alibi_slopes && row < b.rows ?
					    a.alibi_slopes[row_head(b, row)] : 0.f;
		UNROLL for (int j = 0; j < STEPS; j++)
		UNROLL for (int h = 0; h < 2; h++)
		{
			float x = s[j][n][2 * h + e] * a.scale;
			if (a.softcap > 0)
				x = a.softcap * tanh_exact(x / a.softcap);
			s[j][n][2 * h + e] = (x + slope * (key + j * 16 + h * 8)) * LOG2E;
		}
	}
}

/* Whether the tile holds a key that some row must not see. */
DEVICE int has_unseen(const attune_args &a, const block &b, int first)
{
	const int context = b.q.seq_len - b.q.query_len, last = first + TILE_SIZE - 1;
	const int last_token = row_token(b, b.rows - 1);
	if (last >= b.end || first < b.begin || (a.causal && last > context + b.q.token))
		return 1;
	return a.window && first < context + last_token - a.window + 1;
}

/* -infinity for keys that a row does not see */
DEVICE void mask(const attune_args &a, const block &b, logits &s, const positions &at, int first)
{
	const int key = first + lane_id() / 4;
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
	{
		const int most = min(a.causal ? at[n][e] : b.end - 1, b.end - 1) - key;
		const int least = max(a.window ? at[n][e] - a.window + 1 : 0, b.begin) - key;
		UNROLL for (int j = 0; j < STEPS; j++)
		UNROLL for (int h = 0; h < 2; h++)
			if (j * 16 + h * 8 > most || j * 16 + h * 8 < least)
				s[j][n][2 * h + e] = MINUS_INF;
	}
}

/* Updates the running maximum and sum; s becomes p = 2^(unit * (s - m) + P_SHIFT). It subtracts
 * first, so that scores of any size work. */
DEVICE void soften(state &t, logits &s, float unit)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
	{
		float m = t.m[n][e], sum = 0;
		UNROLL for (int j = 0; j < STEPS; j++)
			m = fmaxf(m, fmaxf(s[j][n][e], s[j][n][2 + e]));
		m = fmaxf(m, shfl_xor(m, 4));
		m = fmaxf(m, shfl_xor(m, 8));
		m = fmaxf(m, shfl_xor(m, 16));
		/* a row without any key so far: m = -infinity, every p is 0 */
		const float top = m == MINUS_INF ? 0.f : m;
		const float old = exp2_fast((t.m[n][e] - top) * unit);
		UNROLL for (int j = 0; j < STEPS; j++)
		UNROLL for (int h = 0; h < 2; h++)
		{
			const float p = exp2_fast(fmaf(s[j][n][2 * h + e] - top, unit, P_SHIFT));
			s[j][n][2 * h + e] = p;
			sum += p;
		}
		t.l[n][e] = t.l[n][e] * old + sum;
		t.m[n][e] = m;
		UNROLL for (int d = 0; d < DEPTH; d++)
		{
			t.o[d][n][e] *= old;
			t.o[d][n][2 + e] *= old;
		}
	}
}

/* o += V^T P^T */
DEVICE void accumulate(state &t, const logits &s, u32 v_tile)
{
	UNROLL for (int j = 0; j < STEPS; j++)
	{
		u32 p[EIGHTS][2];
		UNROLL for (int n = 0; n < EIGHTS; n++)
		UNROLL for (int h = 0; h < 2; h++)
			p[n][h] = transposed(pack_weights(s[j][n][2 * h], s[j][n][2 * h + 1]));
		UNROLL for (int d = 0; d < DEPTH; d += DEPTH_LOADED)
		{
			u32 v[DEPTH_LOADED][4];
			load_values(v, v_tile, j * 16, d);
			UNROLL for (int i = 0; i < DEPTH_LOADED && d + i < DEPTH; i++)
			UNROLL for (int n = 0; n < EIGHTS; n++)
				multiply(t.o[d + i][n], v[i], p[n][0], p[n][1]);
		}
	}
}

#endif
