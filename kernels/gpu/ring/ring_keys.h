/* SPDX-License-Identifier: Apache-2.0 */
/* ring_keys.h - a warp's tiles of keys: their pages, and their copies to its ring. */
#ifndef ATTUNE_GPU_RING_KEYS_H
#define ATTUNE_GPU_RING_KEYS_H

#include "ring_width.h"

#define GROUPS	     (TILE_SIZE / 8)
#define TILES_A_LOOK (WARP / GROUPS) /* page numbers loaded at once */
#define ROW_LANES    (KV_CHUNKS > 16 ? 32 : KV_CHUNKS > 8 ? 16 : KV_CHUNKS > 4 ? 8 : 4)
#define ROWS_A_PASS  (WARP / ROW_LANES)

#ifndef KV_HINT
#define KV_HINT 3
#endif

#define PASSES	     (8 / ROWS_A_PASS) /* rows of a lane in a group */

/* Byte offsets into the caches. */
struct spot {
	long long k, v;
};

/* A warp's tiles, and this lane's share of their copies: in each group of 8 keys one chunk of every
 * ROWS_A_PASS-th row. As much as possible is computed in advance, since a warp does all work of a
 * tile alone: pages become spots when they are loaded, and rows are a `pass` apart. */
struct feed {
	const char *k, *v; /* its chunk of its first row, for slot 0 of page 0 */
	const int *pages; /* of the sequence */
	int first, step; /* first key of the first tile, a multiple of 8; keys from tile to tile */
	int num;	 /* tiles */
	int row, chunk;
	spot group; /* where this lane's group begins */
	int next;   /* the page of its group in the next look */
	spot pass;
	u32 at[PASSES]; /* where rows of a group go */
	cache_policy policy;
};

DEVICE int first_key(const feed &f, int tile)
{
	return f.first + tile * f.step;
}

/* First key of lane l's group: group l % GROUPS of tile `tile` + l / GROUPS. */
DEVICE int lane_key(const feed &f, int tile)
{
	return first_key(f, tile + lane_id() / GROUPS) + lane_id() % GROUPS * 8;
}

DEVICE int look_up(const attune_args &a, const block &b, const feed &f, int tile)
{
	return f.pages[page_of(a, min(lane_key(f, tile), b.end - 1))];
}

/* look_up() of the first tiles before the number of keys is known. `is_beyond`: the table may end
 * before that entry, so it was not read. */
DEVICE int look_ahead(const attune_args &a, const feed &f, int &is_beyond)
{
	const int *at = f.pages + page_of(a, lane_key(f, 0));
	is_beyond = at > a.table_last;
	return load_now(at, !is_beyond);
}

/* The spot of the group that begins with `key`. */
DEVICE spot find_spot(const attune_args &a, int key, int page)
{
	const int slot = key - page_of(a, key) * a.page_size;
	return { (page * a.k_page_stride + slot * a.k_slot_stride) * KV_BYTES,
		 (page * a.v_page_stride + slot * a.v_slot_stride) * KV_BYTES };
}

/* Tiles of the keys that the block's rows see; the first begins at a multiple of 8. */
DEVICE u32 count_tiles(const block &b)
{
	return b.end > b.begin ? (b.end - (b.begin & ~7) + TILE_SIZE - 1) / TILE_SIZE : 0;
}

/* Sets what does not depend on the Q block. */
DEVICE void start_feed(const attune_args &a, feed &f)
{
	f.row = lane_id() / ROW_LANES;
	f.chunk = lane_id() % ROW_LANES;
	f.policy = KV_HINT ? evicted_first() : 0;
	f.pass = { ROWS_A_PASS * KV_BYTES * a.k_slot_stride, ROWS_A_PASS * KV_BYTES * a.v_slot_stride };
	keep(f.pass.k);
	keep(f.pass.v);
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		f.at[i] = key_at(i * ROWS_A_PASS + f.row, f.chunk);
		keep(f.at[i]);
	}
}

DEVICE const int *pages_of(const attune_args &a, int seq)
{
	return a.block_table + (long long)seq * a.block_table_stride;
}

DEVICE void aim_feed(const attune_args &a, const block &b, feed &f)
{
	f.k = (const char *)a.k_cache +
	      (b.kv_head * a.k_head_stride + f.row * a.k_slot_stride) * KV_BYTES + f.chunk * 16;
	f.v = (const char *)a.v_cache +
	      (b.kv_head * a.v_head_stride + f.row * a.v_slot_stride) * KV_BYTES + f.chunk * 16;
}

DEVICE void copy_keys(u32 to, const char *from, int valid, cache_policy policy)
{
	if (KV_HINT)
		copy16_by(to, from, valid, policy);
	else
		copy16_async(to, from, valid);
}

/* Copies 8 keys, which lie on one page. Keys that no row sees arrive as zeros: their slots may hold
 * anything, even NaN. */
DEVICE void copy_group(const block &b, const feed &f, int key, spot from, u32 to)
{
	const char *k = f.k + from.k, *v = f.v + from.v;
	const u32 key_seen = key + f.row - b.begin, keys_seen = b.end - b.begin;
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int valid = key_seen + i * ROWS_A_PASS < keys_seen;
		if (f.chunk < KV_CHUNKS) {
			copy_keys(to + f.at[i], k, valid, f.policy);
			copy_keys(to + f.at[i] + TILE_BYTES, v, valid, f.policy);
		}
		k += f.pass.k;
		v += f.pass.v;
	}
}

/* Whether all of a tile's keys were in the cache before this step. */
DEVICE int is_old(const block &b, const feed &f, int tile)
{
	return first_key(f, tile) + TILE_SIZE <= b.q.seq_len - b.q.query_len;
}

/* Copies a tile whose spots are known */
DEVICE void copy_groups(const block &b, const feed &f, int tile, u32 stage)
{
	UNROLL for (int g = 0; g < GROUPS; g++)
	{
		const int lane = tile % TILES_A_LOOK * GROUPS + g;
		const spot from = { shfl_long(f.group.k, lane), shfl_long(f.group.v, lane) };
		copy_group(b, f, first_key(f, tile) + g * 8, from, stage + g * 8 * ROW * KV_BYTES);
	}
}

/* Makes spots of the loaded pages of TILES_A_LOOK tiles from `tile` on, and loads the next
 * pages. */
DEVICE void next_groups(const attune_args &a, const block &b, feed &f, int tile)
{
	f.group = find_spot(a, lane_key(f, tile), f.next);
	if (tile + TILES_A_LOOK < f.num)
		f.next = look_up(a, b, f, tile + TILES_A_LOOK);
}

/* Copies a tile, if there is one. Called in order, for the tiles after the first NUM_STAGES - 1. */
DEVICE void copy_tile(const attune_args &a, const block &b, feed &f, int tile, u32 stage)
{
	if (tile < f.num) {
		if (tile % TILES_A_LOOK == 0)
			next_groups(a, b, f, tile);
		copy_groups(b, f, tile, stage);
	}
	copies_commit();
}

/* Copies the first tiles as soon as their pages are known. A launch that begins early first copies
 * the old ones, then waits for the preceding launch. */
DEVICE void fill_ring(const attune_args &a, const block &b, feed &f, int early, u32 ring)
{
	int waits = early;
	f.group = find_spot(a, lane_key(f, 0), f.next);
	UNROLL for (int i = 0; i < NUM_STAGES - 1; i++)
	{
		if (waits && !is_old(b, f, i)) {
			wait_for_last();
			waits = 0;
		}
		if (i < f.num)
			copy_groups(b, f, i, ring + i * STAGE_BYTES);
		copies_commit();
	}
	if (waits)
		wait_for_last();
}

#endif
