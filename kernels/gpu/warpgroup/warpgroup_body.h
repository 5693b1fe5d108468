/* warpgroup_body.h - prefill on Hopper: Q blocks of BLOCK_M rows, matrix products by whole warpgroups,
 * K and V by the copy engine. Rows are tokens of one query head; the heads of a group run at the
 * same time and find K and V in the L2 cache. PACKED: rows are tokens x the heads of a group, so
 * that short chunks fill rows. If Q blocks are few, keys are cut into segments, which reduce.cu
 * merges. With an E4M3 cache the copying threads convert tiles to F16 (warpgroup_e4m3.h).
 *
 *   warps 0..3   copy K and V, a tile at a time, from the last tile that some row sees down to the
 *                first; find the next item and copy its Q
 *   the others   compute, in warpgroups of 64 rows, each thread with its share of two rows
 *
 * Each tile of a ring has two gates (mbarriers): `full` opens when all its boxes are there, `empty`
 * when all warpgroups are done with it. So have Q's buffers. There is no other synchronisation.
 *
 * A warpgroup's step, which keeps the matrix units busy while it computes weights:
 *
 *   S  = Q K(n)^T      issued together; then the next warpgroup may issue (TURNS)
 *   O += P V(n + 1)
 *   wait for S:  mask, running maximum, P' = 2^(S - m)
 *   wait for O:  O *= 2^(m of before - m),  P = P'
 *
 *   shared memory:  gates, slots | K tiles | V tiles | Q buffers, one or two
 *
 * With EARLY a launch may begin before the preceding one is over, which may still write Q and this
 * step's keys. Copying warps find their first item, then wait for that launch before they copy.
 * Warpgroups need not wait: they write nothing before they have queries. The next launch may begin
 * when no item is left.
 *
 * Boxes of keys that no row sees are filled with zeros. In a box with some visible keys the others
 * may hold anything, even NaN: they are masked in K and overwritten with zeros in V. */
#include "../paged.h"
#include "../softmax.h"

#define E4M3 3 /* DTYPE numbers 0 .. 2 are F32 .. BF16 */
#ifndef KV_DTYPE
#define KV_DTYPE DTYPE
#endif

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
#define WIDE	    (HEAD_SIZE / 2 + TILE_SIZE * 3 / 4 > 170) /* a computing thread needs many registers */
/* Registers of threads that copy and of threads that compute */
#if KV_DTYPE == E4M3
#define FEW  (TEAMS == 1 && BLOCKS_PER_SM == 1 ? 96 : TEAMS == 3 ? 80 : TEAMS == 2 ? 88 : 64)
#define MANY (TEAMS == 3 ? 144 : TEAMS == 2 ? 208 : BLOCKS_PER_SM == 2 ? 192 : 240)
#define HEADER 2048
#else
#define FEW  (BLOCKS_PER_SM == 2 ? 48 : TEAMS == 2 && WIDE ? 40 : 56)
#define MANY (TEAMS == 3 ? 152 : BLOCKS_PER_SM == 2 ? 208 : TEAMS == 1 ? 240 : WIDE ? 232 : 224)
#define HEADER 1024
#endif
#define PIECE	    MAP_PIECE(HEAD_SIZE)
#define CHUNKS	    (HEAD_SIZE / 8)
#define TILE_BYTES  (TILE_SIZE * HEAD_SIZE * 2)
#define Q_BYTES	    (BLOCK_M * HEAD_SIZE * 2)

static_assert(TILE_SIZE % 16 == 0 && HEAD_SIZE % 32 == 0, "whole products, whole pieces");

/* Tokens of a box */
DEVICE int box_of(const attune_args &a)
{
	return a.option[BOX] & 255;
}

/* Whether the preceding launch may still run */
DEVICE int is_early(const attune_args &a)
{
	return a.option[BOX] >> 8;
}

#include "warpgroup_items.h"

#if KV_DTYPE == E4M3
/* Factors of an item: of the products of each row, and of the values */
struct scales {
	float row[BLOCK_M], value;
};
#endif

/* At the beginning of shared memory */
struct header {
	unsigned long long k_full[NUM_STAGES], k_empty[NUM_STAGES];
	unsigned long long v_full[NUM_STAGES], v_empty[NUM_STAGES];
	unsigned long long q_full[2], q_empty[2];
	item slot[2]; /* the items in Q's buffers */
#if KV_DTYPE == E4M3
	scales scale[2]; /* of these items */
#endif
};
static_assert(sizeof(header) <= HEADER, "gates and slots");

/* A place of a ring, and the parity of the next phase of its gates. */
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

#if KV_DTYPE == E4M3
#include "warpgroup_e4m3.h"
#else
#include "warpgroup_16bit.h"
#endif
#include "warpgroup_rows.h"

/* ---- the block -------------------------------------------------------------------------- */

DEVICE void open_gates(header &h)
{
	for (int i = 0; i < NUM_STAGES; i++) {
		gate_init(gate(h.k_full, i), COMERS_TO_TILES);
		gate_init(gate(h.v_full, i), COMERS_TO_TILES);
		gate_init(gate(h.k_empty, i), TEAMS);
		gate_init(gate(h.v_empty, i), TEAMS);
	}
	for (int i = 0; i < 2; i++) {
		gate_init(gate(h.q_full, i), COMERS_TO_QUERIES);
		gate_init(gate(h.q_empty, i), TEAMS * 4);
	}
	gates_ready();
}

/* Whether to find the first item while the gates are initialised: 0.3 us sooner, but with an E4M3
 * cache the compiler (nvcc 13.0) then waits for each product. */
#define EARLY_ITEM (KV_DTYPE != E4M3)

DEVICE void find_first(const attune_args &a, order &o, item &i)
{
	find_order(a, o);
	find_item(a, o, 0, i);
}

/* grid: x = blocks, which take items in turn; option: tokens of a box + 256 x EARLY, buffers of Q,
 * heads that run together, 2^16 / group rounded up */
KERNEL_BESIDE(THREADS, BLOCKS_PER_SM) ENTRY(const __grid_constant__ attune_mapped c)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	header &h = *(header *)memory;
	const u32 keys = shared_address(memory) + HEADER, values = keys + NUM_STAGES * TILE_BYTES;
	const u32 queries = values + NUM_STAGES * TILE_BYTES;
	const int warp = shfl((int)threadIdx.x / WARP, 0);
	order o;
	item first;
	if (threadIdx.x == 128) {
		if (KV_DTYPE != E4M3) {
			map_prefetch(c.k);
			map_prefetch(c.v);
		}
		open_gates(h);
	}
	if (EARLY_ITEM && warp < 4)
		find_first(c.call.args, o, first);
	__syncthreads();
	if (warp >= 4) {
		registers_more<MANY>();
		compute(c.call, h, keys, values, queries, warp / 4 - 1);
	} else {
		registers_fewer<FEW>();
		if (!EARLY_ITEM)
			find_first(c.call.args, o, first);
		bring(c, o, first, h, keys, values, queries, warp);
	}
}
