/* ring_list.cu - decode as by ring, of batches whose lengths differ: a grid that the device alone
 * decides, to whose blocks keys are dealt evenly (../deal.h), from the lengths as they are when
 * the launch begins. So a captured launch serves other lengths, too.
 *
 *   item = a Q block and a KV head; items by sequence, Q block of it, head
 *
 * Each block adds up all units by itself, a few sequences a thread: a list made beforehand would
 * be a launch more, which takes longer. It then goes through its items. Where it has all tiles
 * of one it writes the output, else a partial; the block of an item that comes last merges the
 * partials in the order of blocks, so that the bits do not depend on who that is.
 *
 *   shared memory   that of ring_tile.h
 *   args.scratch    [blocks of the grid] of the item that a block begins last: blocks that left
 *                   their partials; zeros at the start
 *   partial_out     [2 slots a block][BLOCK_M][HEAD_SIZE], unnormalised
 *   partial_ml      [2 slots a block][BLOCK_M][2] */
#include "../deal.h"
#include "ring_tile.h"
#include "schedule.h"

/* a.option, as ring_list.def passes it; START and LEAST in tiles */
enum { BLOCK_Q, Q_BLOCKS, START, LEAST };

/* Q block j of the launch. 0: there is none. */
DEVICE int find_block(const attune_args &a, int j, block &b)
{
	const int q_blocks = a.option[Q_BLOCKS];
	const int seq = q_blocks == 1 ? j : (u32)j / q_blocks;
	return find_queries(a, a.seq_begin + seq, (j - seq * q_blocks) * a.option[BLOCK_Q],
			    a.option[BLOCK_Q], b);
}

/* Tiles that an item of the Q block counts. */
DEVICE u32 counted_tiles(const block &b)
{
	return max(count_tiles(b), 1u);
}

DEVICE u32 count_items(const attune_args &a)
{
	return a.num_kv_heads * ((a.group + BLOCK_M - 1) / BLOCK_M);
}

/* Units of all items of Q block j. */
DEVICE u32 count_units(const attune_args &a, int j)
{
	block b;
	return find_block(a, j, b) ? count_items(a) * (a.option[START] + counted_tiles(b)) : 0;
}

/* ---- where a block begins ------------------------------------------------------------------ */

struct place {
	int j;	   /* Q block */
	u32 begin; /* its first unit */
};

/* The share of Q blocks that a thread adds up. */
DEVICE int share_begin(const attune_args &a, int thread)
{
	const int all = a.seq_count * a.option[Q_BLOCKS], each = (all + THREADS - 1) / THREADS;
	return min(thread * each, all);
}

/* Units before the thread's share, and of all. */
DEVICE u32 sum_up(u32 mine, u32 &all)
{
	__shared__ u32 sums[NUM_WARPS];
	const int warp = threadIdx.x / WARP;
	const u32 up_to = warp_running_sum(mine);
	u32 before = up_to - mine;
	if (lane_id() == WARP - 1)
		sums[warp] = up_to;
	__syncthreads();
	all = 0;
	UNROLL for (int w = 0; w < NUM_WARPS; w++)
	{
		before += w < warp ? sums[w] : 0;
		all += sums[w];
	}
	return before;
}

/* How units are dealt, and the Q block of this block's first one. */
DEVICE place find_place(const attune_args &a, deal &d)
{
	__shared__ place found;
	const int first = share_begin(a, threadIdx.x), end = share_begin(a, threadIdx.x + 1);
	u32 mine = 0, all;
#pragma unroll 4
	for (int j = first; j < end; j++)
		mine += count_units(a, j);
	u32 begin = sum_up(mine, all);
	d = deal_units(all, gridDim.x, a.option[LEAST]);
	const u32 unit = deal_begin(&d, blockIdx.x);
	if (unit == all)
		return { 0, 0 }; /* nothing is left for it */
	if (unit - begin < mine) { /* one thread's */
		int j = first;
		u32 units = count_units(a, j);
		while (unit - begin >= units) {
			begin += units;
			units = count_units(a, ++j);
		}
		found.j = j;
		found.begin = begin;
	}
	__syncthreads();
	return found;
}

/* ---- partials ------------------------------------------------------------------------------ */

DEVICE void put_partial(const attune_args &a, u32 slot, int row, int column, const piece &p)
{
	const long long at = (long long)slot * BLOCK_M + row;
	*(float4 *)(a.partial_out + at * HEAD_SIZE + column) =
		make_float4(p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		*(float2 *)(a.partial_ml + at * 2) = make_float2(p.m, p.l);
}

/* A row's partials, in the order of the blocks that left them. */
DEVICE piece join_parts(const attune_args &a, const stretch &s, int row, int column)
{
	piece p = { { 0, 0, 0, 0 }, MINUS_INF, 0 };
	for (u32 i = 0; i < s.parts; i++)
		p.m = fmaxf(p.m, a.partial_ml[(deal_slot(s.owner + i, s.owner) * BLOCK_M + row) * 2]);
	const float safe = p.m == MINUS_INF ? 0.f : p.m;
#pragma unroll 4
	for (u32 i = 0; i < s.parts; i++) {
		const long long at = deal_slot(s.owner + i, s.owner) * BLOCK_M + row;
		const float2 ml = *(const float2 *)(a.partial_ml + at * 2);
		const float4 o = *(const float4 *)(a.partial_out + at * HEAD_SIZE + column);
		const float weight = exp2_fast(ml.x - safe);
		p.l += weight * ml.y;
		p.o[0] += weight * o.x;
		p.o[1] += weight * o.y;
		p.o[2] += weight * o.z;
		p.o[3] += weight * o.w;
	}
	return p;
}

/* Whether all other blocks of the item have left theirs; all threads learn it, and then see
 * these. */
DEVICE int last_to_arrive(u32 *arrived, u32 parts)
{
	__shared__ int last;
	__threadfence();
	__syncthreads();
	if (!threadIdx.x)
		last = atomicAdd(arrived, 1) == parts - 1;
	__syncthreads();
	__threadfence();
	return last;
}

/* ---- items --------------------------------------------------------------------------------- */

/* What the warps left */
DEVICE void merge_warps(const attune_args &a, const block &b, const stretch &s, const float *found)
{
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		const piece p = join(found + row * MERGE_ROW, column, NUM_WARPS, WARP_BYTES / 4);
		if (s.parts == 1)
			put_final(a, b, row, column, p);
		else
			put_partial(a, deal_slot(blockIdx.x, s.owner), row, column, p);
	}
}

DEVICE void merge_parts(const attune_args &a, const block &b, const stretch &s)
{
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		put_final(a, b, row, column, join_parts(a, s, row, column));
	}
}

DEVICE void run_stretch(const attune_args &a, const block &b, const stretch &s,
			unsigned char *memory)
{
	feed f;
	start_feed(a, b, f, s.first, min(s.tiles, count_tiles(b) - s.first));
	attend(a, b, f, 0, memory);
	__syncthreads(); /* all warps have left what they found */
	merge_warps(a, b, s, FOUND(memory));
	if (s.parts > 1 && last_to_arrive((u32 *)a.scratch + s.owner, s.parts))
		merge_parts(a, b, s);
	__syncthreads(); /* and it has been read */
}

/* grid: x = SMs x blocks of each */
KERNEL(THREADS) ENTRY(const attune_args a)
{
	extern __shared__ __align__(128) unsigned char memory[];
	const u32 heads = count_items(a), start = a.option[START];
	deal d;
	place at = find_place(a, d);
	const u32 end = deal_begin(&d, blockIdx.x + 1);
	for (u32 unit = deal_begin(&d, blockIdx.x); unit < end; at.j++) {
		block b;
		if (!find_block(a, at.j, b))
			continue;
		const u32 tiles = counted_tiles(b), item = start + tiles;
		u32 head = (unit - at.begin) / item;
		for (; head < heads && unit < end; head++) {
			const stretch s = deal_stretch(&d, at.begin + head * item, start, tiles, unit, end);
			take_heads(a, head, b);
			if (s.tiles)
				run_stretch(a, b, s, memory);
			unit = s.next;
		}
		at.begin += heads * item;
	}
}
