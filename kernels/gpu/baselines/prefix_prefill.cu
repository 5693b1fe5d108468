/* SPDX-License-Identifier: Apache-2.0 */
/* prefix_prefill.cu - the prefill half of the split plan: a block per (sequence, query head,
 * BLOCK_M query tokens). Rows are tokens of one head. Heads of a group are not packed, so each of
 * them reads K and V again; qblock improves on this.
 *
 *   grid  x = sequences, y = query heads, z = blocks of a query, the last ones first
 *
 * Keys are in two spans. No tile has keys of both:
 *
 *            context                       new tokens
 *   key  0 . . . . . . . . . . . . | . . . . . . . . . . seq_len
 *        [edge][inner][inner][edge][inner][inner][edge]
 *         window      full    ragged     full     diagonal
 *
 * Keys of the context are in pages. Keys of the new tokens are rows of k_new and v_new, as the
 * projection writes them, without a block table. If every row sees a whole tile, it is an inner
 * tile, and its code masks nothing. Inner tiles have loops of their own; the context's is unrolled
 * UNROLL_CONTEXT times.
 *
 * Two tiles are on chip: one is computed while the next arrives.
 *
 * The original point is BLOCK_M 128, BLOCK_N 64, four warps. A warp then has 32 rows. At head size
 * 128 their outputs and scores need 192 registers; the compiler uses 255 and spills 192 bytes
 * (NVRTC 13.0, sm_90). Eight warps of 16 rows use 239 registers, queries included, and spill
 * nothing. */
#define PARTIALS   0
#define TILE_SIZE  BLOCK_N
#define NUM_STAGES 2
#include "../attend/attend_body.inc"

struct span {
	int begin, end;	  /* its keys */
	int first, after; /* its tiles; tiles are numbered through both spans */
	int inner, outer; /* of these, inner .. outer - 1 are inner ones */
};

/* The state of a block as it walks through its keys. */
struct walk {
	block b;
	span context, fresh;
	copier c;
	shared_place q_tile, ring;
	int warp_row, warp_n;
	int bent;
	float unit;
	rows r;
	held_q q;
	state t;
};

/* A softcap or bias costs more than a mask, so then all tiles take the code of the edges. */
DEVICE span span_of(const attune_args &a, const walk &w, int begin, int end, int first_tile)
{
	const int row0 = w.b.q.seq_len - w.b.q.query_len + w.b.q.token;
	/* keys before those that the last row sees, and up to those that the first one sees */
	const int hidden = a.window ? max(row0 + w.b.rows - a.window - begin, 0) : 0;
	const int seen = max((a.causal ? min(row0 + 1, end) : end) - begin, 0);
	span s;
	s.begin = begin;
	s.end = max(begin, end);
	s.first = first_tile;
	s.after = s.first + (s.end - begin + BLOCK_N - 1) / BLOCK_N;
	s.inner = min(s.first + (hidden + BLOCK_N - 1) / BLOCK_N, s.after);
	s.outer = w.bent ? s.inner : max(s.first + seen / BLOCK_N, s.inner);
	return s;
}

/* The block, restricted to the keys of one span. */
DEVICE block block_in(const walk &w, int begin, int end)
{
	block b = w.b;
	b.begin = begin;
	b.end = end;
	return b;
}

/* copier_copy() of the new tokens. */
DEVICE void copy_new(const attune_args &a, walk &w, int tile, shared_place stage)
{
	const block &b = w.b;
	const int zero = b.q.first_row - (b.q.seq_len - b.q.query_len); /* row of position 0 */
	const half16 *k = (const half16 *)a.k_new + b.kv_head * a.k_new_head_stride;
	const half16 *v = (const half16 *)a.v_new + b.kv_head * a.v_new_head_stride;
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int row = w.c.row0 + i * ROWS_A_PASS, end = w.fresh.end;
		const int key = w.fresh.begin + tile * BLOCK_N + row;
		const int token = zero + min(key, end - 1);
		const shared_place to = stage + chunk_at(row, w.c.chunk);
		if (w.c.active && row < BLOCK_N) {
			take_keys(w.c, i, to, k + token * a.k_new_token_stride + w.c.chunk * 8, key < end);
			take_values(w.c, i, to, v + token * a.v_new_token_stride + w.c.chunk * 8,
				    key < end);
		}
	}
}

DEVICE shared_place stage_of(const walk &w, int tile)
{
	return w.ring + (tile & (SHARED_TILES - 1)) * STAGE_BYTES;
}

DEVICE void copy_tile(const attune_args &a, walk &w, int tile)
{
	if (tile < w.context.after) {
		const block b = block_in(w, w.context.begin, w.context.end);
		copier_copy(a, b, w.c, tile, stage_of(w, tile));
		copier_pages(a, b, w.c, tile + 1);
	} else if (tile < w.fresh.after) {
		copy_new(a, w, tile - w.fresh.first, stage_of(w, tile));
	}
	copies_commit();
}

template <int EDGE> DEVICE void step(const attune_args &a, walk &w, int tile)
{
	const shared_place k_tile = stage_of(w, tile);
	const int warp_key = w.warp_n * WARP_KEYS;
	logits p;
	stage_ready(w.c, k_tile);
	copy_tile(a, w, tile + 1);
	scores(p, w.q, w.q_tile, w.warp_row, k_tile, warp_key);
	if (EDGE) {
		const int old = tile < w.context.after;
		const int begin = old ? w.context.begin : w.fresh.begin;
		const int key = begin + (tile - (old ? 0 : w.fresh.first)) * BLOCK_N + warp_key;
		if (w.bent)
			bend(a, w.b, p, w.r, w.warp_row, key);
		mask(a, block_in(w, begin, old ? w.context.end : w.fresh.end), p, w.r, key);
	}
	soften(w.t, p, w.unit);
	accumulate(w.t, p, k_tile + TILE_BYTES, warp_key);
}

/* Runs the inner tiles of a span, if they come next. */
template <int TIMES>
DEVICE void inner_tiles(const attune_args &a, walk &w, const span &s, int &tile)
{
	const int stop = tile < s.inner ? tile : s.outer;
#pragma unroll TIMES
	for (; tile < stop; tile++)
		step<0>(a, w, tile);
}

DEVICE void start_walk(const attune_args &a, shared_place memory, walk &w)
{
	const block &b = w.b;
	const int context = b.q.seq_len - b.q.query_len, warp = threadIdx.x / WARP;
	w.bent = a.softcap > 0 || a.alibi_slopes;
	w.unit = w.bent ? 1.f : a.scale * LOG2E;
	w.context = span_of(a, w, b.begin, min(context, b.end), 0);
	w.fresh = span_of(a, w, max(b.begin, context), b.end, w.context.after);
	w.q_tile = memory;
	w.ring = memory + Q_BYTES;
	w.warp_row = warp % WARPS_M * (MFRAGS * 16);
	w.warp_n = warp / WARPS_M;
	w.r = find_rows(b, w.warp_row);
	start_state(w.t);
	copier_start(a, b, w.c);
	if (w.context.after)
		copier_pages(a, block_in(w, w.context.begin, w.context.end), w.c, 0);
	copy_q(a, b, w.q_tile); /* in the first tile's group */
	copy_tile(a, w, 0);
	q_ready();
	UNROLL for (int i = 0; i < Q_HELD; i++)
		hold_q(a, b, w.q[i], w.q_tile, w.warp_row, i);
}

DEVICE int find_tokens(const attune_args &a, block &b)
{
	const int token = (gridDim.z - 1 - blockIdx.z) * BLOCK_M;
	if (!q_block_at(a, a.seq_begin + blockIdx.x, token, b.q))
		return 0;
	b.segment = 0;
	b.head = blockIdx.y;
	b.kv_head = b.head / a.group;
	b.row_heads = 1;
	b.rows = min(BLOCK_M, b.q.query_len - token);
	visible_keys(a, b.q, token, token + b.rows - 1, b.begin, b.end);
	return 1;
}

KERNEL(THREADS) ENTRY(const attune_args a)
{
	walk w;
	if (!find_tokens(a, w.b))
		return;
	start_walk(a, shared_address(shared_memory()), w);
	for (int tile = 0; tile < w.fresh.after;) {
		inner_tiles<UNROLL_CONTEXT>(a, w, w.context, tile);
		inner_tiles<1>(a, w, w.fresh, tile);
		if (tile < w.fresh.after)
			step<1>(a, w, tile++);
	}
	copies_wait<0>();
	finish_sums(w.t);
	write<0>(a, w.b, w.t, w.warp_row, w.warp_n, w.unit, (float *)shared_memory());
}
