/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_items.h - the work list of warpgroup_mixed.cu: blocks take items of prefills, most work
 * first. A block without decodes gets its first item by its number. All others are taken in
 * turn. */
#ifndef ATTUNE_MIXED_ITEMS_H
#define ATTUNE_MIXED_ITEMS_H

#include "mixed_shape.h"

#include "mixed_blocks.h"
#include "warpgroup_gates.h"
#include "warpgroup_items.h"

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
		find_item<1>(a, o, next_number(a, round, items), i);
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

#endif
