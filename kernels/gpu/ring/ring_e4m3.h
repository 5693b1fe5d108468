/* SPDX-License-Identifier: Apache-2.0 */
/* ring_e4m3.h - keys and values of 8 bits for ring_tile.h; ring_16bit.h has the same names for 16
 * bits. Matrix steps are in F16, which has all values of E4M3, so only P is rounded, to F16. One
 * instruction converts two elements to F16; there is none for BF16.
 *
 * A load of matrices moves pairs of bytes, of which lane 4 g + t gets two pairs:
 *
 *   keys            row g: dimensions 4t, 4t+1 | 4t+2, 4t+3. The order of a depth is free, if
 *                   Q has the same: these are the step's columns 2t, 2t+1 | 2t+8, 2t+9
 *   values, turned  key 2t: dimensions 2g, 2g+1 | key 2t+1: the same. With the inner bytes
 *                   exchanged the pairs are one dimension's: rows g and g+8 of the step are
 *                   dimensions 2g and 2g+1
 *
 * Q of BF16 is converted to F16 by a power of two for each row that brings its largest element to
 * 2^14 or more: exact, except for elements below 2^-31 of the largest. P is at most 2^15 (P_SHIFT),
 * so that weights down to 2^-29 keep all bits. The scale of K is part of the rows' factors, that of
 * V is applied to the warps' results. */
#ifndef ATTUNE_GPU_RING_E4M3_H
#define ATTUNE_GPU_RING_E4M3_H

#include "ring_rows.h"

#define KV_BYTES     1
#define DEPTH_LOADED 2
#define P_SHIFT	     15.f
#define Q_FACTORS    (BLOCK_M * 4) /* bytes of shared memory, behind shared queries */

struct queries {
	u32 held[Q_HELD ? DEPTH : 1][EIGHTS][2];
	float factor[EIGHTS][2]; /* of the lane's rows: score / product */
};

/* If a row is an odd number of 64 bytes, 2 rows share a line of banks, and the 4 chunks of each
 * half are permuted. */
DEVICE u32 key_at(int row, int chunk)
{
	const int turn = ROW % 128 ? (row >> 1) & 3 : row & 7;
	return (u32)(row * ROW + ((chunk ^ turn) << 4));
}

DEVICE void take_scales(const attune_more &m, block &b)
{
	b.k_scale = m.k_scale ? m.k_scale[b.q.seq * m.k_scale_seq_stride +
					  b.kv_head * m.k_scale_head_stride] : 1.f;
	b.v_scale = m.v_scale ? m.v_scale[b.q.seq * m.v_scale_seq_stride +
					  b.kv_head * m.v_scale_head_stride] : 1.f;
}

/* ---- queries ------------------------------------------------------------------------------ */

DEVICE float largest_of(u32 two)
{
	return fmaxf(fabsf(to_float((half16)two)), fabsf(to_float((half16)(two >> 16))));
}

/* The power of two for a row with this largest element, and its inverse. */
DEVICE float power_up(float largest, float &down)
{
	const u32 exponent = max(__float_as_uint(largest) >> 23, 15u);
	down = DTYPE == F16 ? 1.f : __uint_as_float((exponent - 14) << 23);
	return DTYPE == F16 ? 1.f : __uint_as_float((268 - exponent) << 23);
}

DEVICE u32 as_f16(u32 two, float up)
{
	return pack2_f16(to_float((half16)two) * up, to_float((half16)(two >> 16)) * up);
}

/* Rows beyond the last are zeros. */
DEVICE void hold_q(const attune_args &a, const block &b, queries &q)
{
	const int l = lane_id();
	UNROLL for (int n = 0; n < EIGHTS; n++)
	{
		const int row = n * 8 + l / 4, valid = row < b.rows;
		const half16 *src = query_at(a, b, valid ? row : 0) + 4 * (l & 3);
		float largest = 0, down;
		UNROLL for (int d = 0; d < DEPTH; d++)
		{
			const uint2 x = valid ? *(const uint2 *)(src + d * 16) : make_uint2(0, 0);
			q.held[d][n][0] = x.x;
			q.held[d][n][1] = x.y;
			largest = fmaxf(largest, fmaxf(largest_of(x.x), largest_of(x.y)));
		}
		largest = fmaxf(largest, shfl_xor(largest, 1));
		largest = fmaxf(largest, shfl_xor(largest, 2));
		const float up = power_up(largest, down);
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int i = 0; i < 2; i++)
			q.held[d][n][i] = as_f16(q.held[d][n][i], up);
		UNROLL for (int e = 0; e < 2; e++)
			q.factor[n][e] = shfl(down, (2 * (l & 3) + e) * 4) * b.k_scale;
	}
}

/* 16 lanes a row, 16 dimensions each, in the order of keys. */
DEVICE void share_q(const attune_args &a, const block &b, unsigned char *memory)
{
	const int d = threadIdx.x % 16;
	for (int row = threadIdx.x / 16; row < BLOCK_M; row += THREADS / 16) {
		const int valid = row < b.rows && d < DEPTH;
		const uint4 *src = (const uint4 *)query_at(a, b, valid ? row : 0) + 2 * d;
		const uint4 none = make_uint4(0, 0, 0, 0);
		const uint4 x = valid ? src[0] : none, y = valid ? src[1] : none;
		float down, largest = fmaxf(fmaxf(largest_of(x.x), largest_of(x.y)),
					    fmaxf(largest_of(x.z), largest_of(x.w)));
		largest = fmaxf(largest, fmaxf(fmaxf(largest_of(y.x), largest_of(y.y)),
					       fmaxf(largest_of(y.z), largest_of(y.w))));
		UNROLL for (int lanes = 1; lanes < 16; lanes *= 2)
			largest = fmaxf(largest, shfl_xor(largest, lanes));
		const float up = power_up(largest, down);
		if (d < DEPTH) {
			*(uint4 *)(memory + chunk_at(row, 2 * d)) = make_uint4(
				as_f16(x.x, up), as_f16(x.z, up), as_f16(y.x, up), as_f16(y.z, up));
			*(uint4 *)(memory + chunk_at(row, 2 * d + 1)) = make_uint4(
				as_f16(x.y, up), as_f16(x.w, up), as_f16(y.y, up), as_f16(y.w, up));
		}
		if (!d)
			((float *)(memory + Q_ROWS))[row] = down;
	}
}

/* Reads the factors of shared queries, once all are written. */
DEVICE void find_factors(const block &b, queries &q, const unsigned char *memory)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
		q.factor[n][e] = ((const float *)(memory + Q_ROWS))[row_of(n, e)] * b.k_scale;
}

DEVICE float scaled_score(const queries &q, int n, int e, float x)
{
	return x * q.factor[n][e];
}

DEVICE float scaled_value(const block &b, float x)
{
	return x * b.v_scale;
}

/* ---- keys and values ---------------------------------------------------------------------- */

/* The lane's row of 16 keys x 32 dimensions. A row with an odd number of chunks has room for one
 * more, which is read but not used. */
DEVICE u32 lane_row(u32 tile, int keys, int step)
{
	const int l = lane_id();
	return tile + key_at(keys + (l & 15), step + (l >> 4));
}

DEVICE void load_keys(u32 (&k)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	u32 x[4];
	load_matrices(x, lane_row(tile, keys, step));
	UNROLL for (int i = 0; i < 2; i++)
	UNROLL for (int eight = 0; eight < 2; eight++)
		widen4(k[i][eight], k[i][eight + 2], x[2 * i + eight]);
}

DEVICE void load_values(u32 (&v)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	u32 x[4];
	load_matrices_transposed(x, lane_row(tile, keys, step));
	UNROLL for (int i = 0; i < 2; i++)
	UNROLL for (int eight = 0; eight < 2; eight++)
		widen4(v[i][2 * eight], v[i][2 * eight + 1], paired(x[2 * i + eight]));
}

/* The dimension of the lane's row among a step's 16, or of the row 8 below */
DEVICE int dimension_of(int step, int below)
{
	return step * 16 + lane_id() / 4 * 2 + below;
}

DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	mma_f16(c, a, b0, b1);
}

DEVICE u32 pack_weights(float lo, float hi)
{
	return pack2_f16(lo, hi);
}

#endif
