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
 * Rows are packed as in attend.h: row r = token r / group, query head r % group. 16-byte chunks
 * of a row in shared memory are permuted by chunk ^ (row % 8), so that 8 rows read at once lie in
 * different banks. ring_16bit.h and ring_e4m3.h have the code for the two widths of K and V.
 *
 *   shared memory   Q [BLOCK_M][ROW], and its factors, unless registers hold it
 *                   of each warp WARP_BYTES: { K, V }[TILE_SIZE][ROW] by stages; afterwards
 *                     its result, [BLOCK_M][MERGE_ROW] = o.., m, l, -, - */
#ifndef ATTUNE_GPU_RING_TILE_H
#define ATTUNE_GPU_RING_TILE_H

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

#if KV_DTYPE == E4M3
#include "ring_e4m3.h"
#else
#include "ring_16bit.h"
#endif
#define TILE_BYTES   (TILE_SIZE * ROW * KV_BYTES)
#define STAGE_BYTES  (2 * TILE_BYTES)
#define RING_BYTES   (NUM_STAGES * STAGE_BYTES)
#define WARP_BYTES   (RING_BYTES > MERGE_BYTES ? RING_BYTES : MERGE_BYTES)
#define Q_BYTES	     (Q_HELD ? 0 : Q_ROWS + Q_FACTORS)
#define FOUND(memory)	((float *)((memory) + Q_BYTES))
#include "ring_keys.h"

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

#include "ring_out.h"

/* ---- all tiles of a block ------------------------------------------------------------------ */

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
