/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_e4m3.h - the copying threads of warpgroup.cu, for an E4M3 cache, which they convert to
 * F16, a type with all its values. Has the names of warpgroup_16bit.h.
 *
 *   warps 0, 1   K, and warps 2, 3   V: every second batch of a tile, from global memory to
 *                registers, converted two elements at a time, to the place in a box's layout
 *   all four     Q, when all loads of the previous item's keys are issued
 *
 * A load of a warp is ROWS keys of one piece of a head, 16 bytes a lane; a batch is of all pieces.
 * Stores then fill whole lines of banks:
 *
 *   pieces of 64:  lane l has of key l / 4 columns 16 (l % 4) ..    8 keys, a group
 *   pieces of 32:                    l / 2         16 (l % 2) ..    16
 *
 * DEPTH batches are under way, also from one tile to the next of an item.
 *
 * Q of BF16 is converted to F16 by a power of two for each row that brings its largest element to
 * 2^14 or more: exact, except for elements below 2^-31 of the largest. Weights are at most 2^15
 * (P_SHIFT), so that those down to 2^-29 keep all bits. */
#ifndef ATTUNE_WARPGROUP_E4M3_H
#define ATTUNE_WARPGROUP_E4M3_H

#include "../../args_more.h"
#include "../paged.h"
#include "warpgroup_gates.h"
#include "warpgroup_items.h"
#include "warpgroup_nvidia.h"
#include "warpgroup_tile.h"

#define COMERS_TO_TILES 2 /* arrivals at `full` of a tile, and of Q */
#define COMERS_TO_QUERIES TEAM_WARPS

#define ROW_LANES (PIECE / 16)
#define ROWS (WARP / ROW_LANES)
#define PIECES (HEAD_SIZE / PIECE)
#define BATCHES (TILE_SIZE / ROWS)
#define DEPTH (PIECES == 1 ? 8 : PIECES == 2 ? 4 : 2)
#define OWN_BATCHES (((BATCHES + 1) / 2 + DEPTH - 1) / DEPTH * DEPTH)

static_assert(TILE_SIZE % ROWS == 0, "whole batches");

typedef uint4 batch[PIECES];

/* A lane's share of its warp's tensor, K or V. A byte of the cache is an element. */
struct feed {
	int is_v, member;          /* member: which of the tensor's two warps */
	const unsigned char *from; /* first_row() */
	u32 ring;                  /* where row 0 goes in the first tile */
	u32 full, empty;           /* the first tile's gates */
	cursor to;
	const int *pages; /* of the sequence */
	long long group;  /* offset of group number `lane` of the tile */
	int next;         /* page of the same group of the next tile */
};

/* The lane's row in a load, and the first chunk of 8 that it writes there */
DEVICE int own_row()
{
	return lane_id() / ROW_LANES;
}

DEVICE int own_chunk()
{
	return lane_id() % ROW_LANES * 2;
}

DEVICE void open_feed(header &h, u32 keys, u32 values, int warp, feed &f)
{
	f.is_v = warp >> 1;
	f.member = warp & 1;
	f.ring = (f.is_v ? values : keys) + tile_chunk(HEAD_SIZE, PIECE, own_row(), own_chunk());
	f.full = gate(f.is_v ? h.v_full : h.k_full, 0);
	f.empty = gate(f.is_v ? h.v_empty : h.k_empty, 0);
	f.to = cursor{ 0, 0 };
}

/* The lane's 16 bytes of its row, for a group at slot 0 of page 0 */
DEVICE const unsigned char *first_row(const attune_args &a, const feed &f, int kv_head)
{
	const int row = own_row() % 8;
	const unsigned char *cache = (const unsigned char *)(f.is_v ? a.v_cache : a.k_cache);
	return cache + own_chunk() * 8 +
	       (f.is_v ? kv_head * a.v_head_stride + row * a.v_slot_stride
		       : kv_head * a.k_head_stride + row * a.k_slot_stride);
}

/* ---- keys and values ---------------------------------------------------------------------- */

/* The first key of the lane's group of 8. It stays within the sequence's live keys, whose pages exist,
 * and below the item's end, but may lie before the item's first key: the first key's group in its
 * place can have slots beyond the end, in rows that clear_rows() does not clear. */
DEVICE int group_key(const item &i, int tile)
{
	const int key = tile * TILE_SIZE + min(lane_id(), TILE_SIZE / 8 - 1) * 8;
	return max(min(key, (i.end - 1) & ~7), i.dead & ~7);
}

DEVICE int look_up(const attune_args &a, const item &i, const feed &f, int tile)
{
	return f.pages[page_of(a, group_key(i, tile))];
}

/* Uses the loaded pages for this tile, and loads the next tile's. */
DEVICE void aim(const attune_args &a, const item &i, feed &f, int tile)
{
	const int key = group_key(i, tile), slot = key - page_of(a, key) * a.page_size;
	f.group = f.is_v ? f.next * a.v_page_stride + slot * a.v_slot_stride
			 : f.next * a.k_page_stride + slot * a.k_slot_stride;
	if (tile > i.first)
		f.next = look_up(a, i, f, tile - 1);
}

/* The warp's batch n of a tile: whether there is one, and its number in the tile */
DEVICE int has_batch(const feed &f, int n)
{
	return 2 * n + 1 < BATCHES || (2 * n < BATCHES && !f.member);
}

DEVICE void load_batch(const feed &f, int n, batch &x)
{
	const int group = (2 * n + f.member) * (ROWS / 8) + own_row() / 8;
	const unsigned char *from = f.from + shfl_long(f.group, group);
	if (has_batch(f, n))
		UNROLL for (int p = 0; p < PIECES; p++) x[p] = load16_now(from + p * PIECE);
}

DEVICE void put_batch(const feed &f, u32 tile, int n, const batch &x)
{
	const u32 at = tile + (2 * n + f.member) * (ROWS / 8 * GROUP_BYTES(HEAD_SIZE));
	if (!has_batch(f, n))
		return;
	UNROLL for (int p = 0; p < PIECES; p++)
	{
		const u32 to = at + p * PIECE_BYTES(PIECE);
		u32 w[8];
		widen4(w[0], w[1], x[p].x);
		widen4(w[2], w[3], x[p].y);
		widen4(w[4], w[5], x[p].z);
		widen4(w[6], w[7], x[p].w);
		shared_put16(to, w[0], w[1], w[2], w[3]);
		shared_put16(to ^ 16, w[4], w[5], w[6], w[7]);
	}
}

/* Writes zeros to the lane's rows before the sequence's first live key and beyond the item's
 * last */
DEVICE void clear_rows(const item &i, const feed &f, int tile, u32 to)
{
	for (int b = f.member; b < BATCHES; b += 2) {
		const u32 at = to + b * (ROWS / 8 * GROUP_BYTES(HEAD_SIZE));
		const int key = tile * TILE_SIZE + b * ROWS + own_row();
		if (key >= i.dead && key < i.end)
			continue;
		for (int p = 0; p < PIECES; p++) {
			shared_clear16(at + p * PIECE_BYTES(PIECE));
			shared_clear16((at + p * PIECE_BYTES(PIECE)) ^ 16);
		}
	}
}

/* Copies an item's keys; the first pages are loaded already */
DEVICE void bring_keys(const attune_args &a, const item &i, feed &f)
{
	batch x[DEPTH];
	int tile = i.last - 1;
	aim(a, i, f, tile);
	UNROLL for (int n = 0; n < DEPTH; n++) load_batch(f, n, x[n]);
	for (; tile >= i.first; tile--) {
		const u32 to = f.ring + f.to.at * TILE_BYTES;
		gate_wait(f.empty + f.to.at * 8, f.to.parity ^ 1);
		UNROLL for (int n = 0; n < OWN_BATCHES; n++)
		{
			const int later = n + DEPTH;
			put_batch(f, to, n, x[n % DEPTH]);
			if (later == OWN_BATCHES && tile > i.first)
				aim(a, i, f, tile - 1);
			if (later < OWN_BATCHES || tile > i.first)
				load_batch(f, later % OWN_BATCHES, x[n % DEPTH]);
		}
		if ((tile + 1) * TILE_SIZE > i.end || tile * TILE_SIZE < i.dead)
			clear_rows(i, f, tile, to);
		shared_written();
		__syncwarp();
		if (!lane_id())
			gate_come(f.full + f.to.at * 8);
		advance(f.to, NUM_STAGES);
	}
}

/* ---- queries ------------------------------------------------------------------------------ */

DEVICE float largest_of(u32 two)
{
	return fmaxf(fabsf(to_float((half16)two)), fabsf(to_float((half16)(two >> 16))));
}

DEVICE float largest_of(const uint4 &x)
{
	return fmaxf(fmaxf(largest_of(x.x), largest_of(x.y)),
		     fmaxf(largest_of(x.z), largest_of(x.w)));
}

/* The power of two for a row with this largest element, and its inverse. */
DEVICE float power_up(float largest, float &down)
{
	const u32 exponent = max(__float_as_uint(largest) >> 23, 15u);
	down = DTYPE == F16 ? 1.f : __uint_as_float((exponent - 14) << 23);
	return DTYPE == F16 ? 1.f : __uint_as_float((268 - exponent) << 23);
}

DEVICE u32 as_f16(u32 two, float up)
{
	return pack2_f16(to_float((half16)two) * up, to_float((half16)(two >> 16)) * up);
}

/* By 4 lanes, every fourth chunk each. Rows beyond the last are zeros. */
DEVICE void put_query(const attune_args &a, const item &i, int row, u32 to, float &down)
{
	const place p = place_of(a, row);
	const half16 *q = (const half16 *)a.q + (i.token + p.token) * a.q_token_stride +
			  (i.head + p.head) * a.q_head_stride;
	const int lane = lane_id() % 4;
	uint4 x[CHUNKS / 4];
	float largest = 0;
	UNROLL for (int n = 0; n < CHUNKS / 4; n++) x[n] =
	    row < i.rows ? *(const uint4 *)(q + (4 * n + lane) * 8) : make_uint4(0, 0, 0, 0);
	UNROLL for (int n = 0; n < CHUNKS / 4; n++) largest = fmaxf(largest, largest_of(x[n]));
	largest = fmaxf(largest, shfl_xor(largest, 1));
	largest = fmaxf(largest, shfl_xor(largest, 2));
	const float up = power_up(largest, down);
	UNROLL for (int n = 0; n < CHUNKS / 4; n++)
	    shared_put16(to + tile_chunk(HEAD_SIZE, PIECE, row, 4 * n + lane), as_f16(x[n].x, up),
			 as_f16(x[n].y, up), as_f16(x[n].z, up), as_f16(x[n].w, up));
}

DEVICE float scale_at(const float *scale, long long at)
{
	return scale ? scale[at] : 1.f;
}

/* Writes a slot: the item (without rows: the end), its queries and its scales */
DEVICE void bring_slot(const attune_call &c, header &h, const item &i, int at, u32 buffers)
{
	const attune_args &a = c.args;
	const attune_more &m = c.more;
	const int kv_head = i.head / a.group;
	if (!threadIdx.x)
		h.slot[at] = i;
	if (!i.rows)
		return;
	const float k_scale =
	    scale_at(m.k_scale, i.seq * m.k_scale_seq_stride + kv_head * m.k_scale_head_stride);
	if (!threadIdx.x)
		h.scale[at].value = scale_at(m.v_scale, i.seq * m.v_scale_seq_stride +
							    kv_head * m.v_scale_head_stride);
	_Pragma("unroll 1") for (int row = threadIdx.x / 4; row < BLOCK_M; row += WARPGROUP / 4)
	{
		float down;
		put_query(a, i, row, buffers + at * Q_BYTES, down);
		if (threadIdx.x % 4 == 0)
			h.scale[at].row[row] = down * k_scale;
	}
}

DEVICE void bring_item(const attune_call &c, header &h, const item &i, u32 buffers, cursor &to)
{
	gate_wait(gate(h.q_empty, to.at), to.parity ^ 1);
	bring_slot(c, h, i, to.at, buffers);
	shared_written();
	__syncwarp();
	if (!lane_id())
		gate_come(gate(h.q_full, to.at));
	advance(to, c.args.option[Q_BUFFERS]);
}

/* i: the block's first item. A slot without rows follows the last item. */
DEVICE void bring(const attune_mapped &c, const order &o, item &i, header &h, u32 keys, u32 values,
		  u32 queries, int warp)
{
	const attune_args &a = c.call.args;
	cursor to = { 0, 0 };
	feed f;
	open_feed(h, keys, values, warp, f);
	for (int round = 1, more = 1; more; round++) {
		more = i.rows;
		if (is_early(a) && !more)
			let_next_begin();
		const int has_keys = more && i.last > i.first;
		if (has_keys) {
			f.pages = a.block_table + (long long)i.seq * a.block_table_stride;
			f.from = first_row(a, f, i.head / a.group);
			f.next = look_up(a, i, f, i.last - 1);
		}
		if (is_early(a) && round == 1)
			wait_for_last();
		bring_item(c.call, h, i, queries, to);
		if (has_keys)
			bring_keys(a, i, f);
		if (more)
			find_item<0>(a, o, round, i);
	}
}

#endif
