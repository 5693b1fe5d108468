/* ring_keys.h - a warp's way through keys, a part of ring_tile.h: which tiles are its own,
 * where their pages lie, and copies of them to its ring. */
#define GROUPS	     (TILE_SIZE / 8)
#define TILES_A_LOOK (WARP / GROUPS) /* whose pages are looked up at once */
#define ROW_LANES    (KV_CHUNKS > 16 ? 32 : KV_CHUNKS > 8 ? 16 : KV_CHUNKS > 4 ? 8 : 4)
#define ROWS_A_PASS  (WARP / ROW_LANES)

#ifndef KV_HINT
#define KV_HINT 3
#endif

#define PASSES	     (8 / ROWS_A_PASS) /* rows of a lane in a group */

/* Bytes from where a cache begins. */
struct spot {
	long long k, v;
};

/* A warp's tiles, and this lane's share of their copies: of each group of 8 keys a chunk of
 * every ROWS_A_PASS-th row. Little is left to be worked out for a tile, since a warp does all
 * of it alone: look-ups make spots of pages, and rows are a `pass` apart. */
struct feed {
	const char *k, *v; /* its chunk of its first row, if that is slot 0 of page 0 */
	const int *pages; /* of the sequence */
	int first, step; /* the first tile's first key, a multiple of 8; keys from one to the next */
	int num;	 /* tiles */
	int row, chunk;
	spot group; /* where this lane's group begins */
	int next;   /* the page of its group when those are used up */
	spot pass;
	u32 at[PASSES]; /* where rows of a group go */
	cache_policy policy;
};

DEVICE int first_key(const feed &f, int tile)
{
	return f.first + tile * f.step;
}

/* Lane l's: group l % GROUPS of tile l / GROUPS from there on. */
DEVICE int lane_key(const feed &f, int tile)
{
	return first_key(f, tile + lane_id() / GROUPS) + lane_id() % GROUPS * 8;
}

DEVICE int look_up(const attune_args &a, const block &b, const feed &f, int tile)
{
	return f.pages[page_of(a, min(lane_key(f, tile), b.end - 1))];
}

/* look_up() of the first tiles, before it is known how many keys there are. `is_beyond`: the table may
 * end before that entry, which was not read. */
DEVICE int look_ahead(const attune_args &a, const feed &f, int &is_beyond)
{
	const int *at = f.pages + page_of(a, lane_key(f, 0));
	is_beyond = at > a.table_last;
	return load_now(at, !is_beyond);
}

/* Where the group of keys begins that begins with `key`. */
DEVICE spot find_spot(const attune_args &a, int key, int page)
{
	const int slot = key - page_of(a, key) * a.page_size;
	return { (page * a.k_page_stride + slot * a.k_slot_stride) * KV_BYTES,
		 (page * a.v_page_stride + slot * a.v_slot_stride) * KV_BYTES };
}

/* Of the keys that the block's rows see; the first one begins at a multiple of 8. */
DEVICE u32 count_tiles(const block &b)
{
	return b.end > b.begin ? (b.end - (b.begin & ~7) + TILE_SIZE - 1) / TILE_SIZE : 0;
}

/* What all blocks' feeds have in common. */
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

/* 8 keys, which one page has. Those that no row sees arrive as zeros: what lies in their slots
 * may be anything, also NaN. */
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

/* Of a tile whose groups are known */
DEVICE void copy_groups(const block &b, const feed &f, int tile, u32 stage)
{
	UNROLL for (int g = 0; g < GROUPS; g++)
	{
		const int lane = tile % TILES_A_LOOK * GROUPS + g;
		const spot from = { shfl_long(f.group.k, lane), shfl_long(f.group.v, lane) };
		copy_group(b, f, first_key(f, tile) + g * 8, from, stage + g * 8 * ROW * KV_BYTES);
	}
}

/* The groups of TILES_A_LOOK tiles from there on, whose pages were looked up, are those at hand;
 * the next ones are looked up. */
DEVICE void next_groups(const attune_args &a, const block &b, feed &f, int tile)
{
	f.group = find_spot(a, lane_key(f, tile), f.next);
	if (tile + TILES_A_LOOK < f.num)
		f.next = look_up(a, b, f, tile + TILES_A_LOOK);
}

/* Tiles are asked for in order, these after the first NUM_STAGES - 1; beyond the last one nothing
 * is. */
DEVICE void copy_tile(const attune_args &a, const block &b, feed &f, int tile, u32 stage)
{
	if (tile < f.num) {
		if (tile % TILES_A_LOOK == 0)
			next_groups(a, b, f, tile);
		copy_groups(b, f, tile, stage);
	}
	copies_commit();
}

/* Asks for the first ones, as soon as their pages are known. Of launches that begin early
 * those that are old; then, with none of them later than need be, it waits for the launch
 * in front. */
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
