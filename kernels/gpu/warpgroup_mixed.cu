/* warpgroup_mixed.cu - a whole mixed batch in one launch on Hopper: a block an SM, DECODE_UNITS of
 * which begin with the decodes, by ring_list.cu, while the others begin with the prefills, by
 * warpgroup.cu. Who is done with decodes goes on to prefills, so that all SMs end at about the same
 * time.
 *
 *   block 0         | decode ............... | prefill | prefill |
 *   block 1         | decode ............... | prefill | prefill |
 *   block 2         | prefill | prefill | prefill | prefill |
 *   block 3         | prefill | prefill | prefill | prefill |
 *
 * Decodes read memory and multiply little, prefills multiply and read little; a few SMs take
 * all the bandwidth that there is, and the others need none of it. Keys of the decodes are dealt
 * to these blocks beforehand, each the same number, so nobody takes any of them later. Items of
 * prefills come in warpgroup's order, most work first. A block that does not decode has its first
 * by its number; all others are taken in turn, one when the copies of the one before are under way.
 *
 * Which SMs decode matters. Those of one GPC, 16 or 18, read 1.25 TB/s together on an H200, and a
 * launch may fill one GPC after the other: its first 64 blocks then read 3.3 TB/s, its first 32 2.5.
 * Numbers of SMs go round the GPCs: 0 to 63 read 4.4, 0 to 31 4.0. So blocks are numbered anew, those
 * on the first DECODE_UNITS SMs from 0 up, all others from the last down.
 *
 * With as many items as SMs a block that comes late has one too many: PREFILL_SEGMENTS cuts their
 * keys. The last team to be done with a segment of its 64 rows joins all of them in their order, so
 * that the bits do not depend on who that is, nor on who takes what.
 *
 *   args.scratch   8 bytes that count the blocks | 8 that count the items taken in turn |
 *                  ring_list's arrivals | with segments [sequence][Q block][query head][team]
 *                  arrivals of these
 *   partials       with segments those of the prefills, as args.h has them | ring_list's
 *   shared memory  ring_list's, then warpgroup's in the same place
 *
 * Both texts are included to the letter, since what was measured of them is known by it; what they
 * know of the grid is replaced: ring_list has one of DECODE_UNITS blocks, and of warpgroup's items
 * each block is told the numbers. Registers are split among warps when the decodes are over.
 * Arguments that computing warps get as a copy make the compiler keep what follows from them in
 * registers, and then it waits for each product: these have the launch's own. */
#include "../args_more.h"
#include "../deal.h"
#include "paged.h"
#include "softmax.h"
#include "ring_nvidia.h"
#include "schedule.h"

#define KV_DTYPE DTYPE
#include "warpgroup_nvidia.h"
#include "warpgroup_products.h"

#define PREFILL_M     128
#define PREFILL_TEAMS (PREFILL_M / 64)
#define ALL_THREADS   ((1 + PREFILL_TEAMS) * 128)
#define DECODE_BARRIER 8 /* of the warps that decode */
#define SHORT	      64 /* keys that the start of a decode counts for, and that a block is dealt */

/* a.option, as warpgroup_mixed.def passes it: the first two are warpgroup's; BESIDE + 256 tokens of
 * a decode's Q block + 65536 Q blocks of a sequence; blocks that begin with decodes + 65536
 * PREFILL_SEGMENTS, where warpgroup has what only PACKED needs, since prefills ask for it, too */
enum { MIXED_BOX, MIXED_BUFFERS, MIXED_DECODE, MIXED_SHARES };

DEVICE void run(const attune_mapped &c);

/* First, since words of it mean something else below. grid: x = SMs */
KERNEL_BESIDE(ALL_THREADS, 1) ENTRY(const __grid_constant__ attune_mapped c)
{
	run(c);
}

/* Number of this block, once it has one */
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

/* Of a prefill's keys */
DEVICE int segments_of(const attune_args &a)
{
	return a.option[MIXED_SHARES] >> 16;
}

/* The launch as one phase sees it */
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

/* Rows of the prefills' partials; Q blocks of a sequence, as those are counted that arrive */
DEVICE long long partial_rows(const attune_args &a)
{
	const int segments = segments_of(a);
	return segments > 1 ? (long long)a.prefill.seq_count * a.prefill.max_query *
				      a.num_query_heads * segments : 0;
}

DEVICE int most_blocks(const attune_args &a)
{
	return (a.prefill.max_query + PREFILL_M - 1) / PREFILL_M;
}

/* ---- what blocks count together -------------------------------------------------------------- */

/* Like ring_list's arrivals a count bears a mark, and what bears none is 0, since the workspace may
 * hold anything. All add to it at once and see whether it was marked: only the first few then find
 * that it is not, of whom one marks it. Who is the last takes the mark away. */
typedef unsigned long long counter;
#define COUNTS	0x617474756e000000ull /* "attun" */
#define COUNTED 0xffffffull

/* Counters are the first words of args.scratch. */
enum { BLOCKS_COUNT, ITEMS_COUNT, COUNTERS };

DEVICE int is_count(counter c)
{
	return (c & ~COUNTED) == COUNTS;
}

/* What it was */
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

/* By one thread. The count: blocks on SMs that come first + LATER_BLOCK x the others. */
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
#include "ring_list.cu"
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
/* Of a.option, as warpgroup.cu has them below */
enum { HEADS = 2, INVERSE };

/* A round is then an item's number. */
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

/* What warp 0 finds for all that copy: the item of this round and of the next */
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

/* The number of the block's next item, of `items`; that or more: there is none. Each block asks
 * until it is told so, hence the last to ask is known, who takes the mark away. */
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

/* The block's item of that round, by each of the four warps that copy. 0: there is none. */
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
#include "warpgroup.cu"

/* Segments of the team's rows that are there: marked counts, behind ring_list's. */
DEVICE decode::arrivals *arrivals_of(const attune_args &a, const team &t)
{
	const int token = t.i.token - a.query_start[t.i.seq];
	const int block = (t.i.seq - a.prefill.seq_begin) * most_blocks(a) + token / BLOCK_M;
	return (decode::arrivals *)a.scratch + COUNTERS + units_of(a) +
	       ((long long)block * a.num_query_heads + t.i.head) * TEAMS + t.number;
}

/* Whether all other segments of the team's rows are there; all its threads learn it, and then see
 * them. */
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

/* All segments of a row, in their order, as if one item had had them. at: the first's partial */
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

/* What an item leaves: the output, if it is a segment only when all are there. */
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

/* K of all items, or V; Q of all. Loops of their own, since of one that all warps go through the
 * compiler (nvcc 13.0) waits for each product. */
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

/* By all threads. Decodes end with a barrier: nobody reads their shared memory any more. */
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
	if (warp == 0) { /* said so that the others have no text of finding items */
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
