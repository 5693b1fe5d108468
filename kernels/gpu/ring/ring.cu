/* SPDX-License-Identifier: Apache-2.0 */
/* ring.cu - decode at the rate of memory reads. A block computes one (Q block, KV head, segment of
 * the keys), as in segmented, but each warp has its own tiles of the keys and copies them itself.
 * The warps meet only when all keys are in: ring_tile.h.
 *
 *   shared memory   that of ring_tile.h
 *                   with COMBINE { a box that counts parcels, 16 bytes; the segments' results
 *                     for this block's share of the rows }
 *
 * Nothing overlaps the latency before a block's first copy, so it is kept short. Page numbers are
 * loaded together with the lengths, not after them, as if the sequence were long, but only from
 * entries that the table is known to have. Tiles go to segments and warps in turn, so a warp's
 * first tile does not depend on lengths:
 *
 *   tiles                | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
 *   segment.warp (2, 2)   0.0 0.1 1.0 1.1 0.0 0.1 1.0 1.1 0.0
 *
 * With EARLY a launch may begin before the preceding one is over, which may still write Q and this
 * step's keys. Each warp then copies at once the first tiles that lie before those keys. Every
 * thread waits for the preceding launch before it reads anything else or writes anything.
 *
 * Segments leave partials that reduce.cu merges. With COMBINE the blocks of a Q block and head are
 * a cluster and merge in shared memory: block i merges rows i, i + segments ...
 *
 * Tried without gain: clusters of 16 blocks; shares that get smaller to the end; blocks spread over
 * the GPCs by clusters along the KV heads, 0 to 5 % slower. */
#include "ring_tile.h"

#define BOX_BYTES  16
#define BOX(found) ((unsigned char *)(found) + NUM_WARPS * WARP_BYTES)

enum { EARLY_COMBINE, BLOCK_Q, Q_BLOCKS, SEGMENT_MAGIC }; /* a.option, as ring.def passes it */

/* n / segments */
DEVICE u32 by_segments(const attune_args &a, u32 n)
{
	return gridDim.y == 1 ? n : __umulhi(n, (u32)a.option[SEGMENT_MAGIC]);
}

/* Sequence and heads of the block, by its place in the grid. Returns its first token. */
DEVICE int find_place(const attune_args &a, block &b)
{
	const int q_blocks = a.option[Q_BLOCKS];
	int seq = blockIdx.z, token = 0;
	if (q_blocks != 1) {
		seq = blockIdx.z / q_blocks;
		token = (blockIdx.z - seq * q_blocks) * a.option[BLOCK_Q];
	}
	b.q.seq = a.seq_begin + seq;
	take_heads(a, blockIdx.x, b);
	return token;
}

/* The warp's tiles, as far as they do not depend on lengths. */
DEVICE void look_at_segment(const attune_args &a, const block &b, feed &f, int &is_beyond)
{
	f.pages = pages_of(a, b.q.seq);
	f.first = (blockIdx.y * NUM_WARPS + threadIdx.x / WARP) * TILE_SIZE;
	f.step = gridDim.y * (NUM_WARPS * TILE_SIZE);
	f.next = look_ahead(a, f, is_beyond);
	start_feed(a, f);
	aim_feed(a, b, f);
}

/* Loads page numbers that look_at_segment could not: with a window keys do not begin with 0, and a
 * sequence that has grown since the plan has pages beyond the table that the plan knew
 * (is_beyond). */
DEVICE void start_segment(const attune_args &a, const block &b, feed &f, int is_beyond)
{
	const u32 tiles = count_tiles(b), before = f.first / TILE_SIZE;
	f.num = tiles <= before ? 0 : by_segments(a, (tiles - before - 1) / NUM_WARPS) + 1;
	if (a.window)
		f.first += b.begin & ~7;
	if (a.window || (is_beyond & (lane_key(f, 0) < b.end)))
		f.next = f.num ? look_up(a, b, f, 0) : 0;
}

/* ---- segments ----------------------------------------------------------------------------- */

/* This segment's partial, for reduce.cu */
DEVICE void put_partial(const attune_args &a, const block &b, int row, int column, const piece &p)
{
	const long long token = (b.q.seq - a.seq_begin) * a.max_query + row_token(b, row);
	const long long at =
		(token * a.num_query_heads + row_head(b, row)) * a.segments + blockIdx.y;
	const float factor = p.l > 0 ? 1 / p.l : 0;
	float *dst = a.partial_out + at * HEAD_SIZE + column;
	((float2 *)dst)[0] = make_float2(p.o[0] * factor, p.o[1] * factor);
	((float2 *)dst)[1] = make_float2(p.o[2] * factor, p.o[3] * factor);
	if (!column)
		*(float2 *)(a.partial_ml + at * 2) = make_float2(p.m, p.l);
}

/* Rows of the cluster that this block merges. */
DEVICE int own_rows(const attune_args &a, const block &b)
{
	return by_segments(a, b.rows - blockIdx.y + gridDim.y - 1);
}

/* Sends a piece to the block that merges its row. Its buffer is [row][segment]. */
DEVICE void send_piece(const attune_args &a, int row, int column, const piece &p, u32 box)
{
	const int segments = gridDim.y, turn = by_segments(a, row), rank = row - turn * segments;
	const u32 to = box + BOX_BYTES + (turn * segments + blockIdx.y) * MERGE_ROW * 4;
	parcel_put(to + column * 4, box, rank, p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		parcel_put(to + HEAD_SIZE * 4, box, rank, p.m, p.l, 0, 0);
}

/* Merges this block's share of the cluster's rows, once all segments have arrived. */
DEVICE void merge_cluster(const attune_call &c, const block &b, const unsigned char *box)
{
	const int segments = gridDim.y, rows = own_rows(c.args, b);
	const float *found = (const float *)(box + BOX_BYTES);
	if (rows)
		parcels_wait(shared_address(box));
	for (int i = threadIdx.x; i < rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		put_final(c, b, row * segments + blockIdx.y, column,
			  join(found + row * segments * MERGE_ROW, column, segments, MERGE_ROW));
	}
}

/* Merges the warps' results at `found`; with `combine` also the segments'. */
DEVICE void merge_warps(const attune_call &c, const block &b, const float *found, int combine)
{
	const attune_args &a = c.args;
	const unsigned char *box = BOX(found);
	__syncthreads();
	if (combine) {
		if (!threadIdx.x)
			parcels_expect(shared_address(box), own_rows(a, b) * gridDim.y * MERGE_ROW * 4);
		cluster_wait(); /* all its blocks run and have set up their boxes */
	}
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		const piece p = join(found + row * MERGE_ROW, column, NUM_WARPS, WARP_BYTES / 4);
		if (combine)
			send_piece(a, row, column, p, shared_address(box));
		else if (a.segments > 1)
			put_partial(a, b, row, column, p);
		else
			put_final(c, b, row, column, p);
	}
	if (combine)
		merge_cluster(c, b, box);
}

/* grid: x = KV heads x head blocks, y = segments, z = sequences x Q blocks of the longest query;
 * option: whether segments are a cluster, and 2 x EARLY; tokens of a Q block; Q blocks of a
 * sequence; 2^32 / segments + 1 */
KERNEL(THREADS) ENTRY(const attune_call c)
{
	const attune_args &a = c.args;
	extern __shared__ __align__(128) unsigned char memory[];
	const int combine = HAS_CLUSTERS && a.option[EARLY_COMBINE] & 1;
	const int early = HAS_EARLY ? a.option[EARLY_COMBINE] >> 1 : 0;
	block b;
	feed f;
	if (early == 2)
		let_next_begin();
	int is_beyond;
	const int token = find_place(a, b);
	look_at_segment(a, b, f, is_beyond);
	if (combine && !threadIdx.x)
		parcels_begin(shared_address(BOX(FOUND(memory))));
	if (!find_queries(a, b.q.seq, token, a.option[BLOCK_Q], b)) {
		if (early) /* so that a dependent launch also waits for our predecessor */
			wait_for_last();
		return; /* as do all blocks of its cluster */
	}
	b.rows = b.tokens * b.row_heads;
	if (combine)
		cluster_arrive();
	start_segment(a, b, f, is_beyond);
	take_scales(c.more, b);
	attend(a, b, f, early, memory);
	merge_warps(c, b, FOUND(memory), combine);
}
