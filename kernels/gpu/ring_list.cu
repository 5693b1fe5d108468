/* ring_list.cu - decode as by ring, of batches whose lengths differ: a grid that the device alone
 * decides, to whose blocks keys are dealt evenly (../deal.h), from the lengths as they are when
 * the launch begins. So a captured launch serves other lengths, too.
 *
 *   item = a Q block and a KV head; items by sequence, Q block of it, head
 *
 * With BESIDE each head is dealt to blocks of its own, so that those of all heads, neighbours in
 * the grid, read the same pages at a time: block i * heads + h is block i of head h's.
 *
 * Each block adds up all units by itself, a few sequences a thread: a list made beforehand would
 * be a launch more, which takes longer. It then goes through its items. Where it has all tiles
 * of one it writes the output, else a partial; the block of an item that comes last merges the
 * partials in the order of blocks, so that the bits do not depend on who that is.
 *
 *   shared memory   that of ring_tile.h
 *   args.scratch    [blocks of the grid] how many left a partial of the item that the block
 *                   begins and does not end, while there are any
 *   partial_out     [2 slots a block][BLOCK_M][HEAD_SIZE], unnormalised
 *   partial_ml      [2 slots a block][BLOCK_M][2] */
#include "../deal.h"
#include "ring_tile.h"
#include "schedule.h"

/* a.option, as ring_list.def passes it; START and LEAST in tiles, REST: BESIDE + 2 EARLY + 8 LEAST */
enum { BLOCK_Q, Q_BLOCKS, START, REST };

/* What deals this block its share. */
struct dealer {
	deal d;
	u32 sides, side; /* heads that are dealt beside each other; this block's */
	u32 block;	 /* of that side's */
	u32 items;	 /* of a Q block, in the side's order */
};

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

/* Block i's of its side, in the order of the grid. */
DEVICE u32 in_grid(const dealer &t, u32 i)
{
	return i * t.sides + t.side;
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

/* Deals; the Q block of this block's first unit. */
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
		return { 0, 0 }; /* nothing is left for it */
	if (unit - begin < mine) { /* one thread's */
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

/* Row 0 of what a block of this side left of the item. */
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

/* Of a warp's */
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

/* A row's partials, by a whole warp, in the order of the blocks that left them. Lanes find the
 * weights of 32 at a time, so that no load waits for the one before; columns from HEAD_SIZE up are
 * nobody's. */
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

/* A count of arrivals. The workspace may hold anything when a launch begins, and to clear it first
 * would be a launch more, 2 us on an H200. So a count bears a mark, and what bears none is 0;
 * the last to arrive takes the mark away. Other bytes look like it once in 2^48. */
typedef unsigned long long arrivals;
#define MARK 0x617474756e650000ull /* "attune" */

DEVICE arrivals *arrivals_of(const attune_args &a, const dealer &t, const stretch &s)
{
	return (arrivals *)a.scratch + in_grid(t, s.owner);
}

/* seen: what is there, or was lately. 1: of all parts the last. */
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

/* Whether all other blocks of the item have left theirs; all threads learn it, and then see
 * these. */
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

/* What the warps left */
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

/* A row a warp */
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
	__syncthreads(); /* all warps have left what they found */
	merge_warps(c, b, t, s, FOUND(memory));
	if (s.parts > 1 && last_to_arrive(at, seen, s.parts))
		merge_parts(c, b, t, s);
	__syncthreads(); /* and it has been read */
}

/* grid: x = SMs x blocks of each; these may come in several waves, since none waits for another:
 * shares are then small, and an SM that is done earlier takes the next */
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
	if (early) /* a block that had nothing to do */
		wait_for_last();
}
