/* SPDX-License-Identifier: Apache-2.0 */
/* ragged_nvidia.h - how warpgroup_ragged.cu copies K and V: by maps that end where they end.
 *
 *   [KV head][piece of a head][slot][column of the piece]
 *
 * warpgroup's maps cannot. A tile has pieces between its groups of 8 slots, so in a map of whole pages
 * slots take two dimensions, and the copy engine compares each dimension alone with its size. Here a
 * box has 8 slots, from any one on, and a copying thread goes through the groups of its page. Included
 * in front of warpgroup's headers. */
#ifndef ATTUNE_RAGGED_NVIDIA_H
#define ATTUNE_RAGGED_NVIDIA_H

#include "../warpgroup/warpgroup_nvidia.h"
#include "../warpgroup/warpgroup_shape.h"

/* Copies 8 slots of one head, zeros for those behind the last; their bytes count at `gate`. */
DEVICE void slots_copy(u32 to, const attune_map &map, int slot, int head, u32 gate)
{
	const unsigned long long evict_last = 0x14f0000000000000ull;
	asm volatile("cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
		     ".L2::cache_hint [%0], [%1, {%2, %3, %2, %4}], [%5], %6;" ::"r"(to),
		     "l"(&map), "r"(0), "r"(slot), "r"(head), "r"(gate), "l"(evict_last)
		     : "memory");
}

DEVICE void page_copy(u32 to, const attune_map &map, int slot, int head, int slots, u32 gate)
{
	for (int i = 0; i < slots; i += 8)
		slots_copy(to + i * (HEAD_SIZE * 2), map, slot + i, head, gate);
}

/* In bring_keys: its box is a page here, and its group the page's first slot. */
#define box_copy(to, map, group, head, gate) page_copy(to, map, group, head, box_of(a), gate)

#endif
