/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_16bit.h - the copying threads of warpgroup.cu, for a cache of Q's type;
 * warpgroup_e4m3.h has the same names for E4M3. Each warp finds the block's items by itself.
 *
 *   warp 0       K, a tile at a time, from the last that some row sees down
 *   warp 1       V, the same
 *   warps 2, 3   Q of the next item, and the item's slot */
#ifndef ATTUNE_WARPGROUP_16BIT_H
#define ATTUNE_WARPGROUP_16BIT_H

#include "../paged.h"
#include "warpgroup_gates.h"
#include "warpgroup_items.h"
#include "warpgroup_nvidia.h"
#include "warpgroup_registers.h"
#include "warpgroup_tile.h"

#define COMERS_TO_TILES	  1 /* arrivals at `full` of a tile, and of Q */
#define COMERS_TO_QUERIES 2

/* Copies K or V of an item: a box a lane. groups: of 8 slots, in a page. */
DEVICE void bring_keys(const attune_args &a, const item &i, const attune_map &map, int groups,
		       u32 ring, unsigned long long *full, unsigned long long *empty, cursor &to)
{
	const int ahead = lane_id() * box_of(a), head = i.head / a.group, begin = begin_of(a, i);
	const int *pages = a.block_table + (long long)i.seq * a.block_table_stride;
	_Pragma("unroll 1") for (int tile = i.last - 1; tile >= i.first; tile--)
	{
		const int key = tile * TILE_SIZE + ahead;
		const int place = page_of(a, max(min(key, i.end - 1), begin));
		const int is_seen = key < i.end && key + box_of(a) > begin;
		const int page = ahead < TILE_SIZE ? pages[place] : 0;
		const int group = page * groups + (key - place * a.page_size) / 8;
		gate_wait(gate(empty, to.at), to.parity ^ 1);
		if (!lane_id())
			gate_expect(gate(full, to.at), TILE_BYTES);
		__syncwarp();
		if (ahead < TILE_SIZE)
			box_copy(ring + to.at * TILE_BYTES + ahead * (HEAD_SIZE * 2), map, group,
				 is_seen ? head : a.num_kv_heads, gate(full, to.at));
		advance(to, NUM_STAGES);
	}
}

/* Offset of a row of q from row 0, in elements */
DEVICE long long row_offset(const attune_args &a, int row)
{
	const place p = place_of(a, row);
	return p.token * a.q_token_stride + (PACKED ? p.head * a.q_head_stride : 0);
}

/* Copies Q by 64 threads, some whole rows of a group of 8 at a time, so that a thread's places are
 * alike in all groups. Rows beyond the last are zeros. */
DEVICE void copy_rows(const attune_args &a, const item &i, u32 to)
{
	constexpr int at_once = CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 4 : 2;
	constexpr int together = budget::copying < 48 ? 1 : 16 / at_once;
	const int thread = threadIdx.x % 64;
	const int first = thread / CHUNKS, chunk = thread % CHUNKS;
	const half16 *q = (const half16 *)a.q + i.token * a.q_token_stride + i.head * a.q_head_stride;
	const half16 *from = q + row_offset(a, first) + chunk * 8;
	if (first >= at_once)
		return;
	_Pragma("unroll together") for (int n = 0; n < BLOCK_M; n += at_once)
	{
		const u32 place = tile_chunk(HEAD_SIZE, PIECE, n % 8 + first, chunk);
		copy16_async(to + place + n / 8 * GROUP_BYTES(HEAD_SIZE), from, n + first < i.rows);
		from = PACKED ? q + row_offset(a, n + first + at_once) + chunk * 8 :
				from + at_once * a.q_token_stride;
	}
}

/* By two warps: copies an item's queries and fills its slot; a slot without rows ends the work. */
DEVICE void bring_queries(const attune_args &a, const item &i, header &h, u32 buffers, cursor &to)
{
	if (is_early(a) && !i.rows)
		let_next_begin();
	gate_wait(gate(h.q_empty, to.at), to.parity ^ 1);
	if (threadIdx.x == 64)
		h.slot[to.at] = i;
	if (i.rows)
		copy_rows(a, i, buffers + to.at * Q_BYTES);
	copies_commit();
	copies_wait<0>();
	shared_written();
	__syncwarp();
	if (!lane_id())
		gate_come(gate(h.q_full, to.at));
	advance(to, a.option[Q_BUFFERS]);
}

/* The warp's copies for all items of the block, from the first, i, to the slot that ends the work.
 * The code that finds items is long, so it occurs only once here. */
DEVICE void bring(const attune_mapped &c, const order &o, item &i, header &h, u32 keys, u32 values,
		  u32 queries, int warp)
{
	const attune_args &a = c.call.args;
	cursor to = { 0, 0 };
	if (is_early(a))
		wait_for_last();
	_Pragma("unroll 1") for (int round = 1, more = 1; more; round++)
	{
		more = i.rows;
		if (warp >= 2)
			bring_queries(a, i, h, queries, to);
		else if (more)
			bring_keys(a, i, warp ? c.v : c.k, warp ? c.v_groups : c.k_groups,
				   warp ? values : keys, warp ? h.v_full : h.k_full,
				   warp ? h.v_empty : h.k_empty, to);
		if (more)
			find_item<0>(a, o, round, i);
	}
}

#endif
