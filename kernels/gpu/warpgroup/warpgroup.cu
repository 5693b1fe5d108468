/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup.cu - prefill on Hopper: Q blocks of BLOCK_M rows, matrix products by whole warpgroups,
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
 * may hold anything, even NaN: they are masked in K and overwritten with zeros in V.
 *
 * Tried, and slower: Q in registers, 1 to 8 %; scores issued a step ahead, 4 to 19 %; the products
 * of weights waited for in the next softmax, 1 to 8 %; all warpgroups in step (TURNS=0), 5 to 20 %.
 * Rescaling outputs only if the maximum has grown by much gained nothing. */
#include "warpgroup_copies.h"
#include "warpgroup_gates.h"
#include "warpgroup_items.h"
#include "warpgroup_registers.h"
#include "warpgroup_rows.h"

/* Whether to find the first item while the gates are initialised: 0.3 us sooner, but with an E4M3
 * cache the compiler (nvcc 13.0) then waits for each product. */
#define EARLY_ITEM (KV_DTYPE != E4M3)

DEVICE void find_first(const attune_args &a, order &o, item &i)
{
	find_order(a, o);
	find_item<0>(a, o, 0, i);
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
	if (threadIdx.x == WARPGROUP) {
		if (KV_DTYPE != E4M3) {
			map_prefetch(c.k);
			map_prefetch(c.v);
		}
		open_gates(h);
	}
	if (EARLY_ITEM && warp < TEAM_WARPS)
		find_first(c.call.args, o, first);
	__syncthreads();
	if (warp >= TEAM_WARPS) {
		registers_more<budget::computing>();
		compute<put_item>(c.call, h, keys, values, queries, warp / TEAM_WARPS - 1);
	} else {
		registers_fewer<budget::copying>();
		if (!EARLY_ITEM)
			find_first(c.call.args, o, first);
		bring(c, o, first, h, keys, values, queries, warp);
	}
}
