/* ring.cu - decode at the rate at which memory is read. A block per (Q block, KV head, segment
 * of the keys), as segmented, but each of its warps has tiles of the keys to itself, copies them,
 * and meets the others only when all keys are in: ring_tile.h.
 *
 *   shared memory   that of ring_tile.h
 *                   with COMBINE what segments found of this block's share of the rows
 *
 * A launch may begin before the one in front of it is over (EARLY), which may be writing Q and
 * this step's keys. First tiles that lie before those are then copied at once; every thread
 * waits for that launch before anything else is read, and before anything is written.
 *
 * Segments meet in partials that reduce.cu merges, or with COMBINE in shared memory: those of
 * a Q block and head are then a cluster, of which block i merges rows i, i + segments ... */
#include "ring_tile.h"

/* The block's rows, as the grid says. 0: nothing to do. */
DEVICE int find_rows(const attune_args &a, block &b)
{
	const int block_q = a.option[1], q_blocks = a.option[2];
	const int seq = q_blocks == 1 ? blockIdx.z : blockIdx.z / q_blocks;
	const int token = (blockIdx.z - seq * q_blocks) * block_q;
	if (!find_queries(a, a.seq_begin + seq, token, block_q, b))
		return 0;
	take_heads(a, blockIdx.x, b);
	return 1;
}

/* The segment's tiles */
DEVICE void start_segment(const attune_args &a, const block &b, feed &f)
{
	const u32 tiles = count_tiles(b);
	const u32 each = gridDim.y == 1 ? tiles : tiles / gridDim.y, more = tiles - each * gridDim.y;
	start_feed(a, b, f, blockIdx.y * each + min(blockIdx.y, more), each + (blockIdx.y < more));
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

/* To the block that merges the row. There rows follow one another, all segments of each. */
DEVICE void send_piece(const block &b, int row, int column, const piece &p, u32 area)
{
	const int segments = gridDim.y, place = row / segments * segments + blockIdx.y;
	const u32 at = area + place * MERGE_ROW * 4;
	cluster_put(at + column * 4, row % segments, p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		cluster_put(at + HEAD_SIZE * 4, row % segments, p.m, p.l, 0, 0);
}

/* Of the cluster's rows this block's share. */
DEVICE void merge_cluster(const attune_call &c, const block &b, const float *area)
{
	const int segments = gridDim.y, mine = blockIdx.y;
	const int rows = (b.rows - mine + segments - 1) / segments;
	for (int i = threadIdx.x; i < rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		put_final(c, b, row * segments + mine, column,
			  join(area + row * segments * MERGE_ROW, column, segments, MERGE_ROW));
	}
}

/* What the warps of the block left, at `found`; `combine`: to where segments meet. */
DEVICE void merge_warps(const attune_call &c, const block &b, const float *found, int combine)
{
	const float *area = found + NUM_WARPS * (WARP_BYTES / 4);
	__syncthreads();
	if (combine)
		cluster_wait(); /* all its blocks run */
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		const piece p = join(found + row * MERGE_ROW, column, NUM_WARPS, WARP_BYTES / 4);
		if (combine)
			send_piece(b, row, column, p, shared_address(area));
		else if (c.args.segments > 1)
			put_partial(c.args, b, row, column, p);
		else
			put_final(c, b, row, column, p);
	}
	if (combine) {
		cluster_arrive();
		cluster_wait();
		merge_cluster(c, b, area);
	}
}

/* grid: x = KV heads x head blocks, y = segments, z = sequences x Q blocks of the longest query;
 * option: whether these are a cluster, and 2 x EARLY, tokens of a Q block, Q blocks of a sequence */
KERNEL(THREADS) ENTRY(const attune_call c)
{
	const attune_args &a = c.args;
	extern __shared__ __align__(1024) unsigned char memory[];
	const int combine = HAS_CLUSTERS && a.option[0] & 1;
	const int early = HAS_EARLY ? a.option[0] >> 1 : 0;
	block b;
	feed f;
	if (early == 2)
		let_next_begin();
	if (!find_rows(a, b)) {
		if (early) /* so that whoever waits for this launch has waited for that one */
			wait_for_last();
		return; /* and so does its cluster */
	}
	if (combine)
		cluster_begin();
	start_segment(a, b, f);
	take_scales(c.more, b);
	attend(a, b, f, early, memory);
	merge_warps(c, b, FOUND(memory), combine);
}
