/* SPDX-License-Identifier: Apache-2.0 */
/* ring_rows.h - the rows of a block of ring_tile.h: sizes that follow from the tunables, a Q block
 * and its heads, and where rows lie. */
#ifndef ATTUNE_GPU_RING_ROWS_H
#define ATTUNE_GPU_RING_ROWS_H

#include "../../args_more.h"
#include "../paged.h"
#include "../softmax.h"
#include "ring_nvidia.h"

#define E4M3 3 /* DTYPE numbers 0 .. 2 are F32 .. BF16 */
#ifndef KV_DTYPE
#define KV_DTYPE DTYPE
#endif

#define THREADS	     (NUM_WARPS * WARP)
#define EIGHTS	     (BLOCK_M / 8)   /* rows of a matrix step */
#define STEPS	     (TILE_SIZE / 16) /* of keys */
#define DEPTH	     (HEAD_SIZE / 16)
#define ROW	     ((HEAD_SIZE + 63) / 64 * 64) /* elements of a row in shared memory */
#define CHUNKS	     (HEAD_SIZE / 8)		  /* 16-byte pieces of it, if of 16 bits */
#define KV_CHUNKS    (HEAD_SIZE * KV_BYTES / 16)
#define MERGE_ROW    (HEAD_SIZE + 4)
#define MERGE_BYTES  (BLOCK_M * MERGE_ROW * 4)
#define Q_HELD	     (BLOCK_M * HEAD_SIZE <= 2048)
#define Q_ROWS	     (BLOCK_M * ROW * 2)
#define CHAINS	     (STEPS * EIGHTS == 1 ? 2 : 1) /* of dependent sums */

static_assert(HEAD_SIZE % 16 == 0 && HEAD_SIZE <= 256, "the depth of a matrix step");
static_assert(BLOCK_M % 8 == 0 && TILE_SIZE % 16 == 0, "rows and keys of a matrix step");
static_assert(NUM_STAGES >= 2, "a tile is computed while another one arrives");

/* Byte offset of a 16-byte chunk in rows of 16-bit elements. */
DEVICE u32 chunk_at(int row, int chunk)
{
	return (u32)(row * (ROW * 2) + ((chunk ^ (row & 7)) << 4));
}

/* Offset of the chunk `chunks` (even) after chunk 0 or 1 of the same row, which is at `at`. */
DEVICE u32 chunk_on(u32 at, int chunks)
{
	return (at ^ ((chunks & 7) << 4)) + ((chunks & ~7) << 4);
}

struct block {
	q_block q;
	int kv_head, head; /* head: first query head of the block's rows */
	int row_heads;	   /* heads of a token in the block: group, or a part of it */
	int tokens;	   /* of its sequence */
	int rows;	   /* in use: tokens x row_heads */
	int begin, end;	   /* keys that some row sees */
	float k_scale, v_scale; /* of an 8-bit cache */
};

typedef float logits[STEPS][EIGHTS][4];

/* Positions in the sequence of the tokens of the lane's rows. */
typedef int positions[EIGHTS][2];

/* The running softmax: o = sum p v, l = sum p, m = maximum. */
struct state {
	float o[DEPTH][EIGHTS][4];
	float m[EIGHTS][2], l[EIGHTS][2];
};

/* ---- rows ----------------------------------------------------------------------------- */

DEVICE int row_token(const block &b, int row)
{
	return b.tokens == 1 ? b.q.token : b.q.token + row / b.row_heads;
}

DEVICE int row_head(const block &b, int row)
{
	return b.head + (b.tokens == 1 ? row : row % b.row_heads);
}

/* The lane's two of the eight rows of matrix step n; e: 0 or 1 */
DEVICE int row_of(int n, int e)
{
	return n * 8 + 2 * (lane_id() & 3) + e;
}

/* Sets the Q block: at most `tokens` tokens of a sequence from `token` on, and the keys that they
 * see. 0: no token. */
DEVICE int find_queries(const attune_args &a, int seq, int token, int tokens, block &b)
{
	const int is_there = q_block_at(a, seq, token, b.q);

	if (!(is_there & (b.q.seq_len >= 0))) /* so that all are loaded at once */
		return 0;
	b.tokens = min(tokens, b.q.query_len - b.q.token);
	visible_keys(a, b.q, b.q.token, b.q.token + b.tokens - 1, b.begin, b.end);
	return 1;
}

/* index: of KV heads x head blocks */
DEVICE void take_heads(const attune_args &a, int index, block &b)
{
	const int head_blocks = (a.group + BLOCK_M - 1) / BLOCK_M;
	b.kv_head = head_blocks == 1 ? index : index / head_blocks;
	const int first = (index - b.kv_head * head_blocks) * BLOCK_M;
	b.head = b.kv_head * a.group + first;
	b.row_heads = min(a.group - first, BLOCK_M);
}

/* ---- queries ------------------------------------------------------------------------------ */

DEVICE const half16 *query_at(const attune_args &a, const block &b, int row)
{
	return (const half16 *)a.q + (b.q.first_row + row_token(b, row)) * a.q_token_stride +
	       row_head(b, row) * a.q_head_stride;
}

#endif
