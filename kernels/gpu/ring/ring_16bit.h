/* SPDX-License-Identifier: Apache-2.0 */
/* ring_16bit.h - keys and values of 16 bits for ring_tile.h; ring_e4m3.h has the same names for 8
 * bits. */
#ifndef ATTUNE_GPU_RING_16BIT_H
#define ATTUNE_GPU_RING_16BIT_H

#include "ring_rows.h"

#define KV_BYTES     2
#define DEPTH_LOADED 1 /* steps of the depth whose keys or values come by one load */
#define P_SHIFT	     0.f
#define Q_FACTORS    0

struct queries {
	u32 held[Q_HELD ? DEPTH : 1][EIGHTS][2];
};

DEVICE u32 key_at(int row, int chunk)
{
	return chunk_at(row, chunk);
}

DEVICE void take_scales(const attune_more &, block &)
{
}

/* Rows beyond the last are zeros. */
DEVICE void hold_q(const attune_args &a, const block &b, queries &q)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	{
		const int row = n * 8 + lane_id() / 4, valid = row < b.rows;
		const half16 *src = query_at(a, b, valid ? row : 0) + 2 * (lane_id() & 3);
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int i = 0; i < 2; i++)
			q.held[d][n][i] = valid ? *(const u32 *)(src + d * 16 + i * 8) : 0;
	}
}

DEVICE void share_q(const attune_args &a, const block &b, unsigned char *memory)
{
	const u32 to = shared_address(memory);
	for (int i = threadIdx.x; i < BLOCK_M * CHUNKS; i += THREADS) {
		const int row = i / CHUNKS, chunk = i % CHUNKS, valid = row < b.rows;
		copy16_async(to + chunk_at(row, chunk), query_at(a, b, valid ? row : 0) + chunk * 8,
			     valid);
	}
	copies_commit();
}

/* Nothing to do; see ring_e4m3.h. */
DEVICE void find_factors(const block &, queries &, const unsigned char *)
{
}

DEVICE float scaled_score(const queries &, int, int, float x)
{
	return x;
}

DEVICE float scaled_value(const block &, float x)
{
	return x;
}

/* 16 dimensions of 16 keys, with keys as rows */
DEVICE void load_keys(u32 (&k)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	const int l = lane_id();
	load_matrices(k[0], chunk_on(tile + key_at(l & 15, l >> 4), step * 2) + keys * (ROW * 2));
}

/* The same with dimensions as rows */
DEVICE void load_values(u32 (&v)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	const int l = lane_id(), key = (l & 7) + ((l >> 4) << 3);
	load_matrices_transposed(v[0], chunk_on(tile + key_at(key, l >> 3 & 1), step * 2) +
				       keys * (ROW * 2));
}

/* The dimension of the lane's row among a step's 16, or of the row 8 below */
DEVICE int dimension_of(int step, int below)
{
	return step * 16 + below * 8 + lane_id() / 4;
}

DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	mma(c, a, b0, b1);
}

DEVICE u32 pack_weights(float lo, float hi)
{
	return pack2(lo, hi);
}

#endif
