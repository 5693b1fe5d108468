/* SPDX-License-Identifier: Apache-2.0 */
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
 * ring_list sees a grid of DECODE_UNITS blocks (mixed_decode.h); prefills run by the headers of
 * warpgroup, which get item numbers (mixed_items.h). Registers are split among warps when the
 * decodes are over. If computing warps got a copy of the arguments, the compiler would keep what
 * follows from them in registers and then wait for each product: so they use the launch's own. */
#include "mixed_shape.h"

#include "mixed_blocks.h"
#include "mixed_decode.h"
#include "mixed_items.h"
#include "mixed_out.h"
#include "warpgroup_copies.h"
#include "warpgroup_gates.h"
#include "warpgroup_nvidia.h"
#include "warpgroup_registers.h"
#include "warpgroup_rows.h"

/* ---- prefills ----------------------------------------------------------------------------- */

namespace prefill
{
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
	if (warp >= TEAM_WARPS) {
		registers_more<budget::computing>();
		compute<put_or_join>(c.call, h, keys, values, queries, warp / TEAM_WARPS - 1);
		return;
	}
	registers_fewer<budget::copying>();
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

/* ---- the block ---------------------------------------------------------------------------- */

/* grid: x = SMs */
KERNEL_BESIDE(THREADS, 1) ENTRY(const __grid_constant__ attune_mapped c)
{
	if (!threadIdx.x)
		this_block() = number_block(c.call.args);
	__syncthreads();
	if (this_block() < units_of(c.call.args))
		decode::run(c.call);
	prefill::run(c, prefill::view_of(c.call.args));
}
