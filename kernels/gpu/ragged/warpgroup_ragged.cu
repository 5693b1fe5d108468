/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_ragged.cu - warpgroup over ragged K and V of 16 bits that end with their memory: its maps
 * end there as well (ragged_nvidia.h), so that nothing behind is read. */
#include "ragged_nvidia.h"
#include "../warpgroup/warpgroup_copies.h"
#include "../warpgroup/warpgroup_gates.h"
#include "../warpgroup/warpgroup_items.h"
#include "../warpgroup/warpgroup_registers.h"
#include "../warpgroup/warpgroup_rows.h"

/* grid, option: as of warpgroup; it never begins early */
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
		map_prefetch(c.k);
		map_prefetch(c.v);
		open_gates(h);
	}
	if (warp < TEAM_WARPS) {
		find_order(c.call.args, o);
		find_item<0>(c.call.args, o, 0, first);
	}
	__syncthreads();
	if (warp >= TEAM_WARPS) {
		registers_more<budget::computing>();
		compute<put_item>(c.call, h, keys, values, queries, warp / TEAM_WARPS - 1);
	} else {
		registers_fewer<budget::copying>();
		bring(c, o, first, h, keys, values, queries, warp);
	}
}
