/* ring_list_body.h - decode as in ring, for batches with unequal lengths. The grid depends on the
 * device alone; keys are dealt evenly to its blocks (deal.h), by the lengths in device memory
 * when the launch begins. So a captured launch serves other lengths, too.
 *
 *   item = a Q block and a KV head; items by sequence, Q block of it, head
 *
 * With BESIDE each head has its own blocks: block i * heads + h of the grid is block i of head h.
 * The blocks of all heads are then neighbours and read the same pages at a time.
 *
 * Each block sums all units itself, a few sequences a thread: a list made beforehand would need
 * another launch, which takes longer. It then loops over its items. If it has all tiles of an item
 * it writes the output, else a partial. The last block to finish an item merges the partials, in
 * the order of blocks, so that the bits do not depend on which block is last.
 *
 *   shared memory   that of ring_tile.h
 *   args.scratch    [blocks of the grid] how many partials are there of the item that the block
 *                   begins and does not end
 *   partial_out     [2 slots a block][BLOCK_M][HEAD_SIZE], unnormalised
 *   partial_ml      [2 slots a block][BLOCK_M][2] */
#include "../../deal.h"
#include "ring_tile.h"
#include "../helpers/schedule.h"

/* a.option, as ring_list.def passes it; START and LEAST in tiles, REST: BESIDE + 2 EARLY + 8
 * LEAST */
enum { BLOCK_Q, Q_BLOCKS, START, REST };

/* How this block gets its share. */
struct dealer {
	deal d;
	u32 sides, side; /* with BESIDE the heads, and this block's head; else 1, 0 */
	u32 block;	 /* its number within the side */
	u32 items;	 /* items of a Q block, in this side */
};

/* Q block j of the launch. 0: none. */
DEVICE int find_block(const attune_args &a, int j, block &b)
{
	const int q_blocks = a.option[Q_BLOCKS];
	const int seq = q_blocks == 1 ? j : (u32)j / q_blocks;
	return find_queries(a, a.seq_begin + seq, (j - seq * q_blocks) * a.option[BLOCK_Q],
			    a.option[BLOCK_Q], b);
}

/* Tiles that an item of the Q block counts for: at least one. */
DEVICE u32 counted_tiles(const block &b)
{
	return max(count_tiles(b), 1u);
}

/* Units of all items of Q block j. */
DEVICE u32 count_units(const attune_args &a, int j, u32 items)
{
	block b;
	return find_block(a, j, b) ? items * (a.option[START] + counted_tiles(b)) : 0;
}

DEVICE dealer find_dealer(const attune_args &a)
{
	const u32 heads = a.num_kv_heads * ((a.group + BLOCK_M - 1) / BLOCK_M);
	dealer t;
	t.sides = a.option[REST] & 1 ? heads : 1;
	t.items = a.option[REST] & 1 ? 1 : heads;
	t.block = blockIdx.x / t.sides;
	t.side = blockIdx.x - t.block * t.sides;
	return t;
}

/* The grid's number of block i of the side. */
DEVICE u32 in_grid(const dealer &t, u32 i)
{
	return i * t.sides + t.side;
}

/* ---- where a block begins ------------------------------------------------------------------ */

struct place {
	int j;	   /* Q block */
	u32 begin; /* its first unit */
};

/* The first of the Q blocks that a thread sums. */
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

/* Deals the units. Returns the Q block of this block's first unit. */
DEVICE place find_place(const attune_args &a, dealer &t)
{
	__shared__ place found;
	const int first = share_begin(a, threadIdx.x), end = share_begin(a, threadIdx.x + 1);
	u32 mine = 0, all;
#pragma unroll 4
	for (int j = first; j < end; j++)
		mine += count_units(a, j, t.items);
	u32 begin = sum_up(mine, all);
	t.d = deal_units(all, gridDim.x / t.sides, a.option[REST] >> 3);
	const u32 unit = deal_begin(&t.d, t.block);
	if (unit == all)
		return { 0, 0 }; /* no unit is left for it */
	if (unit - begin < mine) { /* true in one thread */
		int j = first;
		u32 units = count_units(a, j, t.items);
		while (unit - begin >= units) {
			begin += units;
			units = count_units(a, ++j, t.items);
		}
		found.j = j;
		found.begin = begin;
	}
	__syncthreads();
	return found;
}

/* ---- partials ------------------------------------------------------------------------------ */

/* Row 0 of the partial that a block of this side left of the item. */
DEVICE long long partial_of(const dealer &t, const stretch &s, u32 block)
{
	return (long long)in_grid(t, deal_slot(block, s.owner)) * BLOCK_M;
}

DEVICE void put_partial(const attune_args &a, long long at, int column, const piece &p)
{
	*(float4 *)(a.partial_out + at * HEAD_SIZE + column) =
		make_float4(p.o[0], p.o[1], p.o[2], p.o[3]);
	if (!column)
		*(float2 *)(a.partial_ml + at * 2) = make_float2(p.m, p.l);
}

/* Over a warp */
DEVICE float warp_top(float x)
{
	for (int far = WARP / 2; far; far /= 2)
		x = fmaxf(x, shfl_xor(x, far));
	return x;
}

DEVICE float warp_total(float x)
{
	for (int far = WARP / 2; far; far /= 2)
		x += shfl_xor(x, far);
	return x;
}

/* Merges a row's partials by a whole warp, in the order of blocks. Lanes compute 32 weights at a
 * time, so that no load waits for the previous one. Columns from HEAD_SIZE up are not used. */
DEVICE piece join_parts(const attune_args &a, const dealer &t, const stretch &s, int row, int column)
{
	piece p = { { 0, 0, 0, 0 }, MINUS_INF, 0 };
	for (u32 first = 0; first < s.parts; first += WARP) {
		const u32 num = min(s.parts - first, (u32)WARP), mine = first + lane_id();
		float2 ml = make_float2(MINUS_INF, 0);
		if (mine < s.parts)
			ml = *(const float2 *)(a.partial_ml + (partial_of(t, s, s.owner + mine) + row) * 2);
		const float top = fmaxf(p.m, warp_top(ml.x)), safe = top == MINUS_INF ? 0.f : top;
		const float kept = exp2_fast(p.m - safe), weight = exp2_fast(ml.x - safe);
		p.m = top;
		p.l = p.l * kept + warp_total(weight * ml.y);
		UNROLL for (int k = 0; k < 4; k++)
			p.o[k] *= kept;
#pragma unroll 8
		for (u32 i = 0; i < num; i++) {
			const long long at = partial_of(t, s, s.owner + first + i) + row;
			const float w = shfl(weight, (int)i);
			const float4 o = *(const float4 *)(a.partial_out + at * HEAD_SIZE +
							   (column < HEAD_SIZE ? column : 0));
			p.o[0] += w * o.x;
			p.o[1] += w * o.y;
			p.o[2] += w * o.z;
			p.o[3] += w * o.w;
		}
	}
	return p;
}

/* A count of arrivals. The workspace may hold anything when a launch begins; clearing it would be
 * another launch, 2 us on an H200. So a count carries a mark, and a word without it counts as 0.
 * The last to arrive removes the mark. Random bytes match it once in 2^48. */
typedef unsigned long long arrivals;
#define MARK 0x617474756e650000ull /* "attune" */

DEVICE arrivals *arrivals_of(const attune_args &a, const dealer &t, const stretch &s)
{
	return (arrivals *)a.scratch + in_grid(t, s.owner);
}

/* seen: a recent value of *at. 1: this was the last of all parts. */
DEVICE int arrive(arrivals *at, arrivals seen, u32 parts)
{
	arrivals old;
	u32 came;
	do {
		old = seen;
		came = (old & ~0xffffull) == MARK ? (old & 0xffff) + 1 : 1;
		seen = atomicCAS(at, old, came == parts ? 0 : MARK | came);
	} while (seen != old);
	return came == parts;
}

/* Whether all other blocks of the item have left their partials, which all threads then see. */
DEVICE int last_to_arrive(arrivals *at, arrivals seen, u32 parts)
{
	__shared__ int last;
	__threadfence();
	__syncthreads();
	if (!threadIdx.x)
		last = arrive(at, seen, parts);
	__syncthreads();
	__threadfence();
	return last;
}

/* ---- items --------------------------------------------------------------------------------- */

/* Merges the warps' results into the output or a partial */
DEVICE void merge_warps(const attune_call &c, const block &b, const dealer &t, const stretch &s,
			const float *found)
{
	const long long partial = partial_of(t, s, t.block);
	for (int i = threadIdx.x; i < b.rows * (HEAD_SIZE / 4); i += THREADS) {
		const int row = i / (HEAD_SIZE / 4), column = i % (HEAD_SIZE / 4) * 4;
		const piece p = join(found + row * MERGE_ROW, column, NUM_WARPS, WARP_BYTES / 4);
		if (s.parts == 1)
			put_final(c, b, row, column, p);
		else
			put_partial(c.args, partial + row, column, p);
	}
}

/* Merges the item's partials, a row a warp */
DEVICE void merge_parts(const attune_call &c, const block &b, const dealer &t, const stretch &s)
{
	for (int row = threadIdx.x / WARP; row < b.rows; row += NUM_WARPS)
		for (int from = 0; from < HEAD_SIZE; from += 4 * WARP) {
			const int column = from + 4 * lane_id();
			const piece p = join_parts(c.args, t, s, row, column);
			if (column < HEAD_SIZE)
				put_final(c, b, row, column, p);
		}
}

/* The warp's share of the stretch */
DEVICE void start_stretch(const attune_args &a, const block &b, const stretch &s, feed &f)
{
	const int warp = threadIdx.x / WARP, num = min(s.tiles, count_tiles(b) - s.first);
	aim_feed(a, b, f);
	f.pages = pages_of(a, b.q.seq);
	f.first = (b.begin & ~7) + (s.first + warp) * TILE_SIZE;
	f.step = NUM_WARPS * TILE_SIZE;
	f.num = (u32)(num - warp + NUM_WARPS - 1) / NUM_WARPS;
	f.next = f.num ? look_up(a, b, f, 0) : 0;
}

DEVICE void run_stretch(const attune_call &c, const block &b, const dealer &t, const stretch &s,
			feed &f, int early, unsigned char *memory)
{
	arrivals *at = arrivals_of(c.args, t, s), seen = 0;
	start_stretch(c.args, b, s, f);
	attend(c.args, b, f, early, memory);
	if (s.parts > 1 && !threadIdx.x)
		seen = *(volatile arrivals *)at; /* in time for last_to_arrive() */
	__syncthreads(); /* all warps have written their results */
	merge_warps(c, b, t, s, FOUND(memory));
	if (s.parts > 1 && last_to_arrive(at, seen, s.parts))
		merge_parts(c, b, t, s);
	__syncthreads(); /* all results have been read */
}

/* grid: x = SMs x blocks of each. Blocks may run in several waves, since none waits for another:
 * shares are then small, and an SM that finishes early takes the next block */
KERNEL(THREADS) ENTRY(const attune_call c)
{
	const attune_args &a = c.args;
	extern __shared__ __align__(128) unsigned char memory[];
	const u32 start = a.option[START];
	int early = HAS_EARLY ? a.option[REST] >> 1 & 3 : 0; /* until a stretch has waited */
	feed f;
	if (early == 2)
		let_next_begin();
	start_feed(a, f);
	dealer t = find_dealer(a);
	place at = find_place(a, t);
	const u32 end = deal_begin(&t.d, t.block + 1);
	for (u32 unit = deal_begin(&t.d, t.block); unit < end; at.j++) {
		block b;
		if (!find_block(a, at.j, b))
			continue;
		const u32 tiles = counted_tiles(b), item = start + tiles;
		for (u32 i = (unit - at.begin) / item; i < t.items && unit < end; i++) {
			const stretch s = deal_stretch(&t.d, t.block, at.begin + i * item, start, tiles, unit);
			take_heads(a, t.side + i, b);
			b.rows = b.tokens * b.row_heads;
			if (s.tiles) {
				take_scales(c.more, b);
				run_stretch(c, b, t, s, f, early, memory);
				early = 0;
			}
			unit = s.next;
		}
		at.begin += t.items * item;
	}
	if (early) /* a block without work */
		wait_for_last();
}
