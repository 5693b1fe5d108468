/* SPDX-License-Identifier: Apache-2.0 */
/* ring_tile.h - decode by independent warps, the body of ring.cu and ring_list.cu. These two
 * determine the rows of a block and the keys that it reads.
 *
 *   tiles of a block     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |     TILE_SIZE keys each
 *   warp (of 4)           w0  w1  w2  w3  w0  w1  w2  w3  w0
 *
 * A warp's ring has NUM_STAGES stages: one is computed while the others arrive. Each warp copies
 * and waits for itself, so the loop has no barrier. Page numbers are loaded for groups of 8 keys,
 * one lane a group, up to 32 groups ahead of their copies.
 *
 * Rows are few, so they are the short side of a matrix step; keys or dimensions are the long side:
 *
 *   S^T [keys][rows] = K Q^T        O^T [dimensions][rows] = V^T P^T
 *
 * P is transposed within registers from sums to an operand.
 *
 * Rows are packed as in attend_body.inc: row r = token r / group, query head r % group. 16-byte
 * chunks of a row in shared memory are permuted by chunk ^ (row % 8), so that 8 rows read at once
 * lie in different banks. ring_16bit.h and ring_e4m3.h have the code for the two widths of K and V.
 *
 *   shared memory   Q [BLOCK_M][ROW], and its factors, unless registers hold it
 *                   of each warp WARP_BYTES: { K, V }[TILE_SIZE][ROW] by stages; afterwards
 *                     its result, [BLOCK_M][MERGE_ROW] = o.., m, l, -, - */
#ifndef ATTUNE_GPU_RING_TILE_H
#define ATTUNE_GPU_RING_TILE_H

#include "ring_keys.h"
#include "ring_step.h"
#include "ring_out.h"

DEVICE void find_positions(const block &b, positions &at)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	UNROLL for (int e = 0; e < 2; e++)
		at[n][e] = b.q.seq_len - b.q.query_len + row_token(b, row_of(n, e));
}

DEVICE void start_state(state &t)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	{
		UNROLL for (int e = 0; e < 2; e++)
		{
			t.m[n][e] = MINUS_INF;
			t.l[n][e] = 0;
		}
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int i = 0; i < 4; i++)
			t.o[d][n][i] = 0;
	}
}

/* Attention of the block's rows over the feed's keys. Each warp leaves its result at FOUND.
 * `early`: the preceding launch may still run; 1: the next launch may begin when all keys are
 * copied. */
DEVICE void attend(const attune_args &a, const block &b, feed &f, int early, unsigned char *memory)
{
	const int warp = threadIdx.x / WARP, bent = a.softcap > 0 || a.alibi_slopes;
	const float unit = bent ? 1.f : a.scale * LOG2E;
	const u32 q_tile = shared_address(memory);
	const u32 ring = q_tile + Q_BYTES + warp * WARP_BYTES;
	queries q;
	positions at;
	state t;
	if (!Q_HELD && !early)
		share_q(a, b, memory);
	fill_ring(a, b, f, early, ring);
	if (Q_HELD) /* while the first keys arrive */
		hold_q(a, b, q);
	else if (early)
		share_q(a, b, memory);
	if (TILES_A_LOOK < f.num)
		f.next = look_up(a, b, f, TILES_A_LOOK);
	start_state(t);
	find_positions(b, at);
	if (!Q_HELD) {
		if (early) /* the copy of Q was not the first */
			copies_wait<0>();
		else
			copies_wait<NUM_STAGES - 1>();
		__syncthreads();
		find_factors(b, q, memory);
	}
	int stage = 0;
	for (int tile = 0; tile < f.num; tile++) {
		const int free = stage ? stage - 1 : NUM_STAGES - 1, first = first_key(f, tile);
		const u32 k_tile = ring + stage * STAGE_BYTES;
		logits s;
		copy_tile(a, b, f, tile + NUM_STAGES - 1, ring + free * STAGE_BYTES);
		copies_wait<NUM_STAGES - 1>();
		__syncwarp(); /* copies of all lanes are there */
		scores(s, q, q_tile, k_tile);
		if (bent)
			bend(a, b, s, at, first);
		if (has_unseen(a, b, first))
			mask(a, b, s, at, first);
		soften(t, s, unit);
		accumulate(t, s, k_tile + TILE_BYTES);
		__syncwarp(); /* the stage has been read */
		stage = stage + 1 == NUM_STAGES ? 0 : stage + 1;
	}
	if (early == 1)
		let_next_begin();
	leave(b, t, unit, FOUND(memory) + warp * (WARP_BYTES / 4));
}

#endif
