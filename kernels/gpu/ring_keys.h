/* ring_keys.h - a warp's way through keys, a part of ring_tile.h: which tiles are its own,
 * where their pages lie, and copies of them to its ring. */
#define GROUPS	     (TILE_SIZE / 8)
#define TILES_A_LOOK (WARP / GROUPS) /* whose pages are looked up at once */
#define ROW_LANES    (KV_CHUNKS > 16 ? 32 : KV_CHUNKS > 8 ? 16 : KV_CHUNKS > 4 ? 8 : 4)
#define ROWS_A_PASS  (WARP / ROW_LANES)

#ifndef KV_HINT
#define KV_HINT 3
#endif

/* A warp's tiles, and this lane's share of their copies. */
struct feed {
	const kv_element *k, *v; /* its chunk in its row of a pass, on page 0 */
	const int *pages;
	int first, num; /* the first tile's first key, a multiple of 8, and how many tiles */
	int row, chunk;
	int page, next; /* of this lane's group; the same when those are used up */
	cache_policy policy;
};

DEVICE int first_key(const feed &f, int tile)
{
	return f.first + tile * (NUM_WARPS * TILE_SIZE);
}

/* Lane l's: group l % GROUPS of tile l / GROUPS from there on. */
DEVICE int look_up(const attune_args &a, const block &b, const feed &f, int tile)
{
	const int key = first_key(f, tile + lane_id() / GROUPS) + lane_id() % GROUPS * 8;
	return f.pages[page_of(a, min(key, b.end - 1))];
}

/* Of the keys that the block's rows see; the first one begins at a multiple of 8. */
DEVICE u32 count_tiles(const block &b)
{
	return b.end > b.begin ? (b.end - (b.begin & ~7) + TILE_SIZE - 1) / TILE_SIZE : 0;
}

/* For this warp's share of `num` tiles from tile t0 on. */
DEVICE void start_feed(const attune_args &a, const block &b, feed &f, int t0, int num)
{
	const int warp = threadIdx.x / WARP;
	f.row = lane_id() / ROW_LANES;
	f.chunk = lane_id() % ROW_LANES;
	f.k = (const kv_element *)a.k_cache + b.kv_head * a.k_head_stride +
	      f.row * a.k_slot_stride + f.chunk * (16 / KV_BYTES);
	f.v = (const kv_element *)a.v_cache + b.kv_head * a.v_head_stride +
	      f.row * a.v_slot_stride + f.chunk * (16 / KV_BYTES);
	f.pages = a.block_table + (long long)b.q.seq * a.block_table_stride;
	f.first = (b.begin & ~7) + (t0 + warp) * TILE_SIZE;
	f.num = (u32)(num - warp + NUM_WARPS - 1) / NUM_WARPS;
	f.policy = KV_HINT ? evicted_first() : 0;
	f.page = 0;
	f.next = f.num ? look_up(a, b, f, 0) : 0;
}

DEVICE void copy_keys(u32 to, const kv_element *from, int valid, cache_policy policy)
{
	if (KV_HINT)
		copy16_by(to, from, valid, policy);
	else
		copy16_async(to, from, valid);
}

/* 8 keys, which one page has. Those that no row sees arrive as zeros: what lies in their slots
 * may be anything, also NaN. */
DEVICE void copy_group(const attune_args &a, const block &b, const feed &f, int key, int page,
		       u32 to)
{
	const int slot = key - page_of(a, key) * a.page_size;
	const kv_element *k = f.k + page * a.k_page_stride + slot * a.k_slot_stride;
	const kv_element *v = f.v + page * a.v_page_stride + slot * a.v_slot_stride;
	UNROLL for (int i = 0; i < 8; i += ROWS_A_PASS)
	{
		const u32 key_seen = key + i + f.row - b.begin, keys_seen = b.end - b.begin;
		const int valid = key_seen < keys_seen;
		const u32 at = to + key_at(i + f.row, f.chunk);
		if (f.chunk < KV_CHUNKS) {
			copy_keys(at, k + i * a.k_slot_stride, valid, f.policy);
			copy_keys(at + TILE_BYTES, v + i * a.v_slot_stride, valid, f.policy);
		}
	}
}

/* Whether all of a tile's keys were in the cache before this step. */
DEVICE int is_old(const block &b, const feed &f, int tile)
{
	return first_key(f, tile) + TILE_SIZE <= b.q.seq_len - b.q.query_len;
}

/* Tiles are asked for in order; beyond the last one nothing is. */
DEVICE void copy_tile(const attune_args &a, const block &b, feed &f, int tile, u32 stage)
{
	const int at = tile % TILES_A_LOOK;
	if (tile < f.num) {
		if (!at) {
			f.page = f.next;
			if (tile + TILES_A_LOOK < f.num)
				f.next = look_up(a, b, f, tile + TILES_A_LOOK);
		}
		UNROLL for (int g = 0; g < GROUPS; g++)
			copy_group(a, b, f, first_key(f, tile) + g * 8,
				   shfl(f.page, at * GROUPS + g), stage + g * 8 * ROW * KV_BYTES);
	}
	copies_commit();
}
