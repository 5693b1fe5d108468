/* warpgroup.cu - prefill on Hopper: Q blocks of BLOCK_M rows, matrix products by whole warpgroups,
 * K and V by the copy engine. Rows are tokens of one query head, and heads of a group run beside
 * each other and find K and V in the L2 cache; or, PACKED, tokens x the heads of a group, so that
 * short chunks fill rows. Where Q blocks are few, keys are cut into segments, which reduce.cu
 * merges.
 *
 *   warp 0       K, a tile at a time, from the last that some row sees down
 *   warp 1       V, the same
 *   warps 2, 3   Q of the next item, and what the item is
 *   the others   in warpgroups of 64 rows, each thread with its share of two rows
 *
 * Each tile of a ring has two gates: `full` opens when all its boxes are there, `empty` when all
 * warpgroups are through with it. Q's buffers have the same. Nobody else waits for anybody.
 *
 * A warpgroup's step, which keeps the matrix units busy while it computes weights:
 *
 *   S  = Q K(n)^T      issued together, then the next warpgroup may issue: by turns
 *   O += P V(n + 1)
 *   wait for S:  mask, running maximum, P' = 2^(S - m)
 *   wait for O:  O *= 2^(m of before - m),  P = P'
 *
 *   shared memory:  gates, slots | K tiles | V tiles | Q buffers, one or two
 *
 * A tile's keys that no row sees come as zeros, by whole boxes. What a box has beyond the end of
 * its sequence is anything, perhaps NaN: of K masked, of V overwritten with zeros. */
#include "paged.h"

#include "warpgroup_nvidia.h"
#include "warpgroup_products.h"
#include "warpgroup_tile.h"

/* args.option */
enum { BOX, Q_BUFFERS, HEADS, INVERSE };

#ifndef PACKED
#define PACKED 0
#endif
#define TEAMS	    (BLOCK_M / 64)
#define THREADS	    ((1 + TEAMS) * 128)
/* Registers: of threads that copy, and of those that compute */
#define FEW  (TEAMS == 3 || (TEAMS == 1 && BLOCKS_PER_SM == 1) ? 56 : 40)
#define MANY (TEAMS == 3 ? 152 : TEAMS == 2 ? 232 : BLOCKS_PER_SM == 2 ? 216 : 240)
#define PIECE	    MAP_PIECE(HEAD_SIZE)
#define CHUNKS	    (HEAD_SIZE / 8)
#define TILE_BYTES  (TILE_SIZE * HEAD_SIZE * 2)
#define Q_BYTES	    (BLOCK_M * HEAD_SIZE * 2)
#define HEADER	    1024

static_assert(TILE_SIZE % 16 == 0 && HEAD_SIZE % 32 == 0, "whole products, whole pieces");

#include "warpgroup_items.h"

/* At the beginning of shared memory */
struct header {
	unsigned long long k_full[NUM_STAGES], k_empty[NUM_STAGES];
	unsigned long long v_full[NUM_STAGES], v_empty[NUM_STAGES];
	unsigned long long q_full[2], q_empty[2];
	item slot[2]; /* what is in Q's buffers */
};
static_assert(sizeof(header) <= HEADER, "gates and slots");

/* A place of a ring, and the parity of its gates' next time. */
struct cursor {
	u32 at, parity;
};

DEVICE void advance(cursor &c, u32 places)
{
	if (++c.at == places) {
		c.at = 0;
		c.parity ^= 1;
	}
}

DEVICE u32 gate(unsigned long long *gates, u32 at)
{
	return shared_address(gates) + at * 8;
}

/* ---- those that copy, each of which finds the block's items by itself --------------------- */

/* K of the block's items, or V: a box a lane. groups: of 8 slots, of a page. */
DEVICE void bring_keys(const attune_args &a, const attune_map &map, int groups, u32 ring,
		       unsigned long long *full, unsigned long long *empty)
{
	const int ahead = lane_id() * a.option[BOX];
	cursor to = { 0, 0 };
	order o;
	item i;
	find_order(a, o);
	for (int round = 0; find_item(a, o, round, i); round++) {
		const int *pages = a.block_table + (long long)i.seq * a.block_table_stride;
		for (int tile = i.last - 1; tile >= i.first; tile--) {
			const int key = tile * TILE_SIZE + ahead;
			const int place = page_of(a, min(key, i.end - 1));
			const int page = ahead < TILE_SIZE ? pages[place] : 0;
			const int group = page * groups + (key - place * a.page_size) / 8;
			gate_wait(gate(empty, to.at), to.parity ^ 1);
			if (!lane_id())
				gate_expect(gate(full, to.at), TILE_BYTES);
			__syncwarp();
			if (ahead < TILE_SIZE)
				box_copy(ring + to.at * TILE_BYTES + ahead * (HEAD_SIZE * 2), map, group,
					 key < i.end ? i.head / a.group : a.num_kv_heads,
					 gate(full, to.at));
			advance(to, NUM_STAGES);
		}
	}
}

/* Elements of q from row 0 to that one */
DEVICE long long row_offset(const attune_args &a, int row)
{
	const place p = place_of(a, row);
	return p.token * a.q_token_stride + (PACKED ? p.head * a.q_head_stride : 0);
}

/* By 64 threads, some whole rows at a time. Rows that are not there are zeros. */
DEVICE void copy_rows(const attune_args &a, const item &i, u32 to)
{
	constexpr int at_once = 64 / CHUNKS, together = PACKED || 64 % CHUNKS ? 2 : 8;
	const int thread = threadIdx.x % 64;
	const int first = thread / CHUNKS, chunk = thread % CHUNKS;
	const half16 *q = (const half16 *)a.q + i.token * a.q_token_stride + i.head * a.q_head_stride;
	const half16 *from = q + row_offset(a, first) + chunk * 8;
	if (first >= at_once)
		return;
	_Pragma("unroll together") for (int n = 0; n < BLOCK_M; n += at_once)
	{
		const int row = n + first;
		if (BLOCK_M % at_once == 0 || row < BLOCK_M)
			copy16_async(to + tile_chunk(HEAD_SIZE, PIECE, row, chunk),
				     row < i.rows ? from : q, row < i.rows);
		from = PACKED ? q + row_offset(a, row + at_once) + chunk * 8 :
				from + at_once * a.q_token_stride;
	}
}

/* By two warps. The slot after the last item's says that there is none. */
DEVICE void bring_queries(const attune_args &a, header &h, u32 buffers)
{
	cursor to = { 0, 0 };
	order o;
	item i;
	find_order(a, o);
	for (int round = 0, more = 1; more; round++) {
		more = find_item(a, o, round, i);
		gate_wait(gate(h.q_empty, to.at), to.parity ^ 1);
		if (threadIdx.x == 64)
			h.slot[to.at] = i;
		if (more)
			copy_rows(a, i, buffers + to.at * Q_BYTES);
		copies_commit();
		copies_wait<0>();
		shared_written();
		__syncwarp();
		if (!lane_id())
			gate_come(gate(h.q_full, to.at));
		advance(to, a.option[Q_BUFFERS]);
	}
}

#include "warpgroup_rows.h"

/* ---- the block -------------------------------------------------------------------------- */

DEVICE void open_gates(header &h)
{
	for (int i = 0; i < NUM_STAGES; i++) {
		gate_init(gate(h.k_full, i), 1);
		gate_init(gate(h.v_full, i), 1);
		gate_init(gate(h.k_empty, i), TEAMS);
		gate_init(gate(h.v_empty, i), TEAMS);
	}
	for (int i = 0; i < 2; i++) {
		gate_init(gate(h.q_full, i), 2);
		gate_init(gate(h.q_empty, i), TEAMS * 4);
	}
	gates_ready();
}

/* grid: x = as many blocks as take items in turn; option: tokens of a box, buffers of Q, heads that
 * are gone through together, 2^16 / group rounded up */
KERNEL_BESIDE(THREADS, BLOCKS_PER_SM) ENTRY(const __grid_constant__ attune_mapped c)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	header &h = *(header *)memory;
	const u32 keys = shared_address(memory) + HEADER, values = keys + NUM_STAGES * TILE_BYTES;
	const u32 queries = values + NUM_STAGES * TILE_BYTES;
	const int warp = shfl((int)threadIdx.x / WARP, 0);
	if (!threadIdx.x) {
		open_gates(h);
		map_prefetch(c.k);
		map_prefetch(c.v);
	}
	__syncthreads();
	if (warp >= 4) {
		registers_more<MANY>();
		compute(c.args, h, keys, values, queries, warp / 4 - 1);
		return;
	}
	registers_fewer<FEW>();
	if (warp == 0)
		bring_keys(c.args, c.k, c.k_groups, keys, h.k_full, h.k_empty);
	else if (warp == 1)
		bring_keys(c.args, c.v, c.v_groups, values, h.v_full, h.v_empty);
	else
		bring_queries(c.args, h, queries);
}
