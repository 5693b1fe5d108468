/* ring.cu - decode at the rate at which memory is read. A block per (Q block, KV head, segment
 * of the keys), as segmented, but each of its warps has tiles of the keys to itself, copies them,
 * and meets the others only when all keys are in: ring_tile.h.
 *
 *   shared memory   that of ring_tile.h
 *                   with COMBINE { a box that counts parcels, 16 bytes; what segments found of
 *                     this block's share of the rows }
 *
 * From launch to first copy a block works alone and in vain, so that is kept short: pages are
 * looked up with the lengths, not after them, as if the sequence were long, among the entries that
 * the table has for sure; tiles go to segments and warps in turn, so that where one's begin does not
 * depend on lengths:
 *
 *   tiles                | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
 *   segment.warp (2, 2)   0.0 0.1 1.0 1.1 0.0 0.1 1.0 1.1 0.0
 *
 * A launch may begin before the one in front of it is over (EARLY), which may be writing Q and
 * this step's keys. First tiles that lie before those are then copied at once; every thread
 * waits for that launch before anything else is read, and before anything is written.
 *
 * Segments meet in partials that reduce.cu merges, or with COMBINE in shared memory: those of
 * a Q block and head are then a cluster, of which block i merges rows i, i + segments ... */
#include "ring_tile.h"

#define BOX_BYTES  16
#define BOX(found) ((unsigned char *)(found) + NUM_WARPS * WARP_BYTES)

enum { EARLY_COMBINE, BLOCK_Q, Q_BLOCKS, SEGMENT_MAGIC }; /* a.option, as ring.def passes it */

/* n / segments */
DEVICE u32 by_segments(const attune_args &a, u32 n)
{
	return gridDim.y == 1 ? n : __umulhi(n, (u32)a.option[SEGMENT_MAGIC]);
}

/* Sequence and heads of the block, as the grid says; its first token. */
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

/* The warp's tiles, as far as lengths do not tell. */
DEVICE void look_at_segment(const attune_args &a, const block &b, feed &f, int &is_beyond)
{
	f.pages = pages_of(a, b.q.seq);
	f.first = (blockIdx.y * NUM_WARPS + threadIdx.x / WARP) * TILE_SIZE;
	f.step = gridDim.y * (NUM_WARPS * TILE_SIZE);
	f.next = look_ahead(a, f, is_beyond);
	start_feed(a, f);
	aim_feed(a, b, f);
}

/* Looked up here: pages of a window, which do not begin with key 0, and those that are `is_beyond` the
 * table that the plan knew, of a sequence that is longer now. */
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

/* To the block that merges the row. There rows follow one another, all segments of each. */
DEVICE void send_piece(const attune_args &a, int row, int column, const piece &p, u32 box)
{
	const int segments = gridDim.y, turn = by_segments(a, row), rank = row - turn * segments;
	const u32 to = box + BOX_BYTES + (turn * segments + blockIdx.y) * MERGE_ROW * 4;
	parcel_put(to + column * 4, box, rank, p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		parcel_put(to + HEAD_SIZE * 4, box, rank, p.m, p.l, 0, 0);
}

/* Of the cluster's rows this block's share, once all segments of them are here. */
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

/* What the warps of the block left, at `found`; `combine`: to where segments meet. */
DEVICE void merge_warps(const attune_call &c, const block &b, const float *found, int combine)
{
	const attune_args &a = c.args;
	const unsigned char *box = BOX(found);
	__syncthreads();
	if (combine) {
		if (!threadIdx.x)
			parcels_expect(shared_address(box), own_rows(a, b) * gridDim.y * MERGE_ROW * 4);
		cluster_wait(); /* all its blocks run, and count */
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
		if (early) /* so that whoever waits for this launch has waited for that one */
			wait_for_last();
		return; /* and so does its cluster */
	}
	b.rows = b.tokens * b.row_heads;
	if (combine)
		cluster_arrive();
	start_segment(a, b, f, is_beyond);
	take_scales(c.more, b);
	attend(a, b, f, early, memory);
	merge_warps(c, b, FOUND(memory), combine);
}
