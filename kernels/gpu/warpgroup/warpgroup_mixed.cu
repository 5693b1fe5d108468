/* warpgroup_mixed.cu - a whole mixed batch in one launch on Hopper, one block an SM. DECODE_UNITS
 * blocks begin with the decodes, by ring_list.cu; the others begin with the prefills, by
 * warpgroup.cu. When the decodes are done, their blocks go on to prefills, so that all SMs end at
 * about the same time.
 *
 *   block 0         | decode ............... | prefill | prefill |
 *   block 1         | decode ............... | prefill | prefill |
 *   block 2         | prefill | prefill | prefill | prefill |
 *   block 3         | prefill | prefill | prefill | prefill |
 *
 * Decodes read memory and multiply little, prefills multiply and read little: a few SMs use the
 * whole bandwidth, and the others need none of it. The keys of the decodes are dealt evenly to the
 * first blocks beforehand; no block takes any later. Items of prefills are taken in warpgroup's
 * order, most work first. A block without decodes gets its first item by its number; all others are
 * taken in turn, while the copies of the previous item are under way.
 *
 * Which SMs decode matters. The 16 or 18 SMs of one GPC together read 1.25 TB/s on an H200, and a
 * launch may fill one GPC after the other: its first 64 blocks then read 3.3 TB/s, its first 32
 * 2.5. SM numbers go round the GPCs: SMs 0 to 63 read 4.4 TB/s, 0 to 31 4.0. So blocks are
 * renumbered: those on the first DECODE_UNITS SMs from 0 up, all others from the last down.
 *
 * If there are about as many items as SMs, a block that comes late has one item too many:
 * PREFILL_SEGMENTS cuts their keys. The last team to finish a segment of its 64 rows merges all of
 * them in order, so that the bits depend neither on which team is last nor on which block took
 * which item.
 *
 *   args.scratch   8 bytes that count the blocks | 8 that count the items taken in turn |
 *                  ring_list's arrivals | with segments [sequence][Q block][query head][team]
 *                  arrivals of these
 *   partials       with segments those of the prefills, as args.h has them | ring_list's
 *   shared memory  ring_list's, then warpgroup's in the same place
 *
 * Both sources are included unchanged, since measurements are tied to their text. Only their view
 * of the grid is replaced: ring_list sees a grid of DECODE_UNITS blocks, and each block of
 * warpgroup gets item numbers. Registers are split among warps when the decodes are over. If
 * computing warps got a copy of the arguments, the compiler would keep what follows from them in
 * registers and then wait for each product: so they use the launch's own. */
#include "../../args_more.h"
#include "../../deal.h"
#include "../paged.h"
#include "../softmax.h"
#include "../ring/ring_nvidia.h"
#include "../helpers/schedule.h"

#define KV_DTYPE DTYPE
#include "warpgroup_nvidia.h"
#include "warpgroup_products.h"

#define PREFILL_M     128
#define PREFILL_TEAMS (PREFILL_M / 64)
#define ALL_THREADS   ((1 + PREFILL_TEAMS) * 128)
#define DECODE_BARRIER 8 /* of the warps that decode */
#define SHORT	      64 /* keys that a decode's start counts for; least keys of a block */

/* a.option, as warpgroup_mixed.def passes it:
 *
 *   BOX, BUFFERS  as in warpgroup
 *   DECODE        BESIDE + 256 x tokens of a decode's Q block + 65536 x Q blocks of a sequence
 *   SHARES        blocks that begin with decodes + 65536 x PREFILL_SEGMENTS; prefills read it, too.
 *                 In this place warpgroup has INVERSE, which only PACKED needs */
enum { MIXED_BOX, MIXED_BUFFERS, MIXED_DECODE, MIXED_SHARES };

DEVICE void run(const attune_mapped &c);

/* Comes first, since its macros are redefined below. grid: x = SMs */
KERNEL_BESIDE(ALL_THREADS, 1) ENTRY(const __grid_constant__ attune_mapped c)
{
	run(c);
}

/* Number of this block, set by number_block() */
DEVICE int &this_block()
{
	__shared__ int number;
	return number;
}

DEVICE int all_blocks()
{
	return gridDim.x;
}

/* Blocks that begin with decodes */
DEVICE int units_of(const attune_args &a)
{
	return a.option[MIXED_SHARES] & 65535;
}

/* Segments of a prefill's keys */
DEVICE int segments_of(const attune_args &a)
{
	return a.option[MIXED_SHARES] >> 16;
}

/* The arguments of one phase */
DEVICE attune_args view(const attune_args &a, const attune_range &r, int segments)
{
	attune_args v = a;
	v.seq_begin = r.seq_begin;
	v.seq_count = r.seq_count;
	v.min_query = r.min_query;
	v.max_query = r.max_query;
	v.segments = segments;
	return v;
}

/* Rows of the prefills' partials */
DEVICE long long partial_rows(const attune_args &a)
{
	const int segments = segments_of(a);
	return segments > 1 ? (long long)a.prefill.seq_count * a.prefill.max_query *
				      a.num_query_heads * segments : 0;
}

/* Q blocks of the longest prefill, by which arrivals are numbered */
DEVICE int most_blocks(const attune_args &a)
{
	return (a.prefill.max_query + PREFILL_M - 1) / PREFILL_M;
}

/* ---- counters that all blocks share ---------------------------------------------------------- */

/* The workspace may hold anything. So, like ring_list's arrivals, a counter carries a mark, and a
 * word without it counts as 0. Blocks add at once and see whether the word was marked: only the
 * first few find it unmarked, and one of them marks it. The last block removes the mark. */
typedef unsigned long long counter;
#define COUNTS	0x617474756e000000ull /* "attun" */
#define COUNTED 0xffffffull

/* Counters are the first words of args.scratch. */
enum { BLOCKS_COUNT, ITEMS_COUNT, COUNTERS };

DEVICE int is_count(counter c)
{
	return (c & ~COUNTED) == COUNTS;
}

/* Adds; returns the count before */
DEVICE int count_on(counter *at, counter by)
{
	counter seen = atomicAdd(at, by);
	if (is_count(seen))
		return seen & COUNTED;
	for (seen += by;;) {
		const counter old = atomicCAS(at, seen, COUNTS | by);
		if (old == seen)
			return 0;
		if (is_count(old))
			return atomicAdd(at, by) & COUNTED;
		seen = old;
	}
}

/* Called by one thread. The counter: blocks on SMs that begin with decodes + LATER_BLOCK x
 * others. */
#define LATER_BLOCK 4096
DEVICE int number_block(const attune_args &a)
{
	counter *at = (counter *)a.scratch + BLOCKS_COUNT;
	const int is_later = (int)sm_id() >= units_of(a);
	const int before = count_on(at, is_later ? LATER_BLOCK : 1);
	const int first = before % LATER_BLOCK, later = before / LATER_BLOCK, last = all_blocks() - 1;
	if (first + later == last)
		*at = 0;
	return is_later ? last - later : first;
}

/* ---- decodes ------------------------------------------------------------------------------ */

#define BLOCK_M	   8
#define TILE_SIZE  DECODE_TILE
#define NUM_WARPS  DECODE_WARPS
#define NUM_STAGES DECODE_STAGES
namespace decode
{
struct line {
	u32 x;
};
DEVICE line blocks_that_decode(const attune_args &a)
{
	return { (u32)a.segments }; /* ring_list has no segments */
}
#undef gridDim
#undef blockIdx
#undef KERNEL
#define gridDim		blocks_that_decode(a)
#define blockIdx	(line{ (u32)this_block() })
#define KERNEL(threads) DEVICE void
#define __syncthreads() barrier(DECODE_BARRIER, THREADS)
#include "../ring/ring_list_body.h"
#undef __syncthreads

DEVICE void run(const attune_call &whole)
{
	const attune_args &a = whole.args;
	const int packed = a.option[MIXED_DECODE];
	const long long rows = partial_rows(a);
	attune_call c = { view(a, a.decode, units_of(a)), whole.more };
	c.args.scratch = (counter *)a.scratch + COUNTERS;
	c.args.partial_ml = a.partial_ml + rows * 2;
	c.args.partial_out = a.partial_out + rows * HEAD_SIZE;
	c.args.option[BLOCK_Q] = packed >> 8 & 255;
	c.args.option[Q_BLOCKS] = packed >> 16;
	c.args.option[START] = SHORT / TILE_SIZE;
	c.args.option[REST] = (packed & 1) + SHORT / TILE_SIZE * 8;
	if (threadIdx.x < THREADS)
		ENTRY(c);
}
}
#undef BLOCK_M
#undef TILE_SIZE
#undef NUM_WARPS
#undef NUM_STAGES
#undef THREADS
#undef CHUNKS
#undef TILE_BYTES
#undef Q_BYTES
#undef P_SHIFT

/* ---- prefills ----------------------------------------------------------------------------- */

#define BLOCK_M	      PREFILL_M
#define TILE_SIZE     PREFILL_TILE
#define NUM_STAGES    2
#define BLOCKS_PER_SM 1
#define TURNS	      1
#define PACKED	      0
namespace numbered
{
/* Places in a.option, as in warpgroup.cu below */
enum { HEADS = 2, INVERSE };

/* With a grid of one block, a round is an item's number. */
struct alone {
	int x;
};
#undef gridDim
#undef blockIdx
#define gridDim	 (alone{ 1 })
#define blockIdx (alone{ 0 })
#include "warpgroup_items.h"
}

namespace prefill
{
using namespace numbered;

/* The items of this round and of the next, which warp 0 finds for all copying warps */
struct found {
	unsigned long long full[2], empty[2];
	item i[2];
};

DEVICE found &finds()
{
	__shared__ found f;
	return f;
}

DEVICE u32 gate_of(unsigned long long *gates, int round)
{
	return shared_address(gates + (round & 1));
}

DEVICE void open_finds()
{
	found &f = finds();
	for (int i = 0; i < 2; i++) {
		gate_init(gate_of(f.full, i), 1);
		gate_init(gate_of(f.empty, i), 3);
	}
}

/* The number of the block's next item; `items` or more: none is left. Each block asks until none is
 * left, so the last to ask is known; it removes the mark. */
DEVICE int next_number(const attune_args &a, int round, int items)
{
	const int units = units_of(a), first = this_block() - units;
	const int given = all_blocks() - units;
	if (!round && first >= 0 && first < items)
		return first;
	int n = 0;
	if (!lane_id()) {
		counter *at = (counter *)a.scratch + ITEMS_COUNT;
		n = count_on(at, 1);
		if (n == max(items - given, 0) + all_blocks() - 1)
			*at = 0;
	}
	return given + shfl(n, 0);
}

/* The block's item of a round, for each of the four copying warps. 0: none. */
DEVICE int next_item(const attune_args &a, const order &o, int round, item &i)
{
	found &f = finds();
	const u32 parity = round >> 1 & 1;
	if (threadIdx.x < WARP) {
		const int items = o.blocks * a.num_query_heads * a.segments;
		find_item(a, o, next_number(a, round, items), i);
		gate_wait(gate_of(f.empty, round), parity ^ 1);
		if (!lane_id()) {
			f.i[round & 1] = i;
			gate_come(gate_of(f.full, round));
		}
		return i.rows;
	}
	gate_wait(gate_of(f.full, round), parity);
	i = f.i[round & 1];
	__syncwarp();
	if (!lane_id())
		gate_come(gate_of(f.empty, round));
	return i.rows;
}

struct team;
DEVICE void put_or_join(const attune_call &c, team &t);

#undef KERNEL_BESIDE
#undef __grid_constant__
#define KERNEL_BESIDE(threads, blocks) DEVICE void
#define __grid_constant__
#define find_item next_item
#define PUT_ITEM  put_or_join
#include "warpgroup_body.h"

/* Counter of the finished segments of the team's rows: marked, after those of ring_list. */
DEVICE decode::arrivals *arrivals_of(const attune_args &a, const team &t)
{
	const int token = t.i.token - a.query_start[t.i.seq];
	const int block = (t.i.seq - a.prefill.seq_begin) * most_blocks(a) + token / BLOCK_M;
	return (decode::arrivals *)a.scratch + COUNTERS + units_of(a) +
	       ((long long)block * a.num_query_heads + t.i.head) * TEAMS + t.number;
}

/* Whether all other segments of the team's rows are finished; all its threads then see them. */
DEVICE int last_to_arrive(const attune_args &a, const team &t, int segments)
{
	__shared__ int last[TEAMS];
	__threadfence();
	barrier(OWN(t.number), 128);
	if (is_first(t))
		last[t.number] = decode::arrive(arrivals_of(a, t), 0, segments);
	barrier(OWN(t.number), 128);
	__threadfence();
	return last[t.number];
}

/* Merges all segments of a row, in order, as if one item had computed them. at: partial of the
 * first */
DEVICE void join_row(const attune_args &v, team &t, int r, long long at)
{
	const float *ml = v.partial_ml + at * 2;
	float sum = 0, top = MINUS_INF;
	for (int s = 0; s < v.segments; s++)
		top = fmaxf(top, ml[2 * s]);
	UNROLL for (int n = 0; n < HEAD_SIZE / 4; n++)
		t.o[n / 2 * 4 + n % 2 + 2 * r] = 0;
	const float base = top == MINUS_INF ? 0 : top;
	for (int s = 0; s < v.segments; s++) {
		const float weight = exp2_fast(ml[2 * s] - base) * ml[2 * s + 1];
		const float *o = v.partial_out + (at + s) * HEAD_SIZE + 2 * (lane_id() % 4);
		sum += weight;
		UNROLL for (int n = 0; n < HEAD_SIZE / 8; n++)
		{
			const float2 two = *(const float2 *)(o + 8 * n);
			t.o[4 * n + 2 * r] += weight * two.x;
			t.o[4 * n + 2 * r + 1] += weight * two.y;
		}
	}
	t.top[r] = top;
	t.sum[r] = lane_id() % 4 ? 0 : sum;
	t.unit[r] = 1;
}

/* Writes the output of an item. A segment writes a partial; the last one merges them. */
DEVICE void put_or_join(const attune_call &c, team &t)
{
	const int segments = segments_of(c.args);
	if (segments > 1) {
		const attune_args v = view(c.args, c.args.prefill, segments);
		const long long first = t.i.goes_to - t.i.segment; /* partial of row 0 */
		const long long row = v.num_query_heads * segments;
		put_partials(v, t);
		if (!last_to_arrive(c.args, t, segments)) {
			hold_nothing(t);
			return;
		}
		UNROLL for (int r = 0; r < 2; r++)
			if (t.row + 8 * r < t.i.rows)
				join_row(v, t, r, first + (t.row + 8 * r) * row);
		t.i.goes_to = t.i.token;
	}
	if (c.more.lse)
		put_lse(c, t);
	hold_rows(c.args, t);
}

DEVICE attune_args view_of(const attune_args &a)
{
	attune_args v = view(a, a.prefill, segments_of(a));
	v.option[BOX] = a.option[MIXED_BOX] & 255; /* it never begins early */
	v.option[Q_BUFFERS] = a.option[MIXED_BUFFERS];
	v.option[HEADS] = a.num_query_heads;
	return v;
}

/* Copies K of all items, or V; the next function copies Q. These are separate loops, since with one
 * loop for all warps the compiler (nvcc 13.0) waits for each product. */
DEVICE void bring_items(const attune_args &a, const order &o, item &i, const attune_map &map,
			int groups, u32 ring, unsigned long long *full, unsigned long long *empty)
{
	cursor to = { 0, 0 };
	for (int round = 1; i.rows; round++) {
		bring_keys(a, i, map, groups, ring, full, empty, to);
		next_item(a, o, round, i);
	}
}

DEVICE void bring_items(const attune_args &a, const order &o, item &i, header &h, u32 buffers)
{
	cursor to = { 0, 0 };
	for (int round = 1, more = 1; more; round++) {
		more = i.rows;
		bring_queries(a, i, h, buffers, to);
		if (more)
			next_item(a, o, round, i);
	}
}

/* Called by all threads. Decodes end with a barrier, so their shared memory is free. */
DEVICE void run(const attune_mapped &c, const attune_args &a)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	header &h = *(header *)memory;
	const u32 keys = shared_address(memory) + HEADER, values = keys + NUM_STAGES * TILE_BYTES;
	const u32 queries = values + NUM_STAGES * TILE_BYTES;
	const int warp = shfl((int)threadIdx.x / WARP, 0);
	shared_written();
	if (!threadIdx.x) {
		open_finds();
		open_gates(h);
		map_prefetch(c.k);
		map_prefetch(c.v);
	}
	__syncthreads();
	if (warp >= 4) {
		registers_more<224>();
		compute(c.call, h, keys, values, queries, warp / 4 - 1);
		return;
	}
	registers_fewer<56>();
	order o;
	item first;
	find_order(a, o);
	if (warp == 0) { /* lets the compiler drop the code that finds items from the others */
		__builtin_assume(threadIdx.x < WARP);
		next_item(a, o, 0, first);
		bring_items(a, o, first, c.k, c.k_groups, keys, h.k_full, h.k_empty);
		return;
	}
	__builtin_assume(threadIdx.x >= WARP);
	next_item(a, o, 0, first);
	if (warp == 1)
		bring_items(a, o, first, c.v, c.v_groups, values, h.v_full, h.v_empty);
	else
		bring_items(a, o, first, h, queries);
}
}

DEVICE void run(const attune_mapped &c)
{
	if (!threadIdx.x)
		this_block() = number_block(c.call.args);
	__syncthreads();
	if (this_block() < units_of(c.call.args))
		decode::run(c.call);
	prefill::run(c, prefill::view_of(c.call.args));
}
