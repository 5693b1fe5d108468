/* attend_amd_keys.h - loads K and V for attend_amd.h, which includes it: addresses of keys, the
 * path through shared memory, the path from memory to registers. */

/* ---- where keys lie ------------------------------------------------------------------- */

/* "Even" pages are multiples of 16 keys. Tiles then begin at such multiples, so 16 keys are in one
 * page, the same for the whole wave: the scalar unit computes its address, and each lane adds a
 * constant offset. */
DEVICE int has_even_pages(const attune_args &a)
{
	const long long most = 1 << 24;
	return a.page_size % 16 == 0 && a.k_slot_stride >= 0 && a.k_slot_stride < most &&
	       a.v_slot_stride >= 0 && a.v_slot_stride < most;
}

DEVICE const half16 *k_at(const attune_args &a, const half16 *k, int page, int key)
{
	return k + page * a.k_page_stride +
	       (key - (int)page_of(a, key) * a.page_size) * a.k_slot_stride;
}

DEVICE const half16 *v_at(const attune_args &a, const half16 *v, int page, int key)
{
	return v + page * a.v_page_stride +
	       (key - (int)page_of(a, key) * a.page_size) * a.v_slot_stride;
}

/* ---- through shared memory ------------------------------------------------------------ */

/* Load a chunk of K, of V into this thread's registers. */
DEVICE void take_keys(copier &c, int pass, shared_place, const half16 *src, int)
{
	c.k_held[pass] = load_halves<KV_HINT == 3>(src, 8);
}

DEVICE void take_values(copier &c, int pass, shared_place, const half16 *src, int)
{
	c.v_held[pass] = load_halves<KV_HINT == 3>(src, 8);
}

/* Whether the rows that a wave copies in a pass are in one group of 16. */
#define WAVE_ROWS (WARP % CHUNKS == 0 && CHUNKS >= 4)

/* First key of the group of 16 that has this wave's rows of a pass; clamped to existing keys. */
DEVICE int copier_group(const block &b, const copier &c, int tile, int pass)
{
	const int row = uniform(c.row0) + pass * ROWS_A_PASS;
	return max(min(b.begin + tile * TILE_SIZE + row, b.end - 1) & ~15, 0);
}

DEVICE void even_pages(const attune_args &a, const block &b, copier &c, int tile)
{
	UNROLL for (int i = 0; i < PASSES; i++)
		c.page[i] = c.pages[page_of(a, copier_group(b, c, tile, i))];
}

/* c.k and c.v point to the thread's chunk. */
DEVICE void even_copy(const attune_args &a, const block &b, copier &c, int tile)
{
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int row = c.row0 + i * ROWS_A_PASS, page = uniform(c.page[i]);
		const int key = copier_group(b, c, tile, i);
		const half16 *k = (const half16 *)a.k_cache + b.kv_head * a.k_head_stride;
		const half16 *v = (const half16 *)a.v_cache + b.kv_head * a.v_head_stride;
		if (row >= TILE_SIZE)
			continue;
		take_keys(c, i, 0, k_at(a, k, page, key) +
					   ((u32)a.k_slot_stride * (row % 16) + c.chunk * 8), 1);
		take_values(c, i, 0, v_at(a, v, page, key) +
					     ((u32)a.v_slot_stride * (row % 16) + c.chunk * 8), 1);
	}
	c.keys = b.end - b.begin - tile * TILE_SIZE;
}

/* Clears V in slots that no row sees: they may hold NaN, and 0 x NaN is not 0. */
DEVICE void even_clear(copier &c)
{
	UNROLL for (int i = 0; i < PASSES; i++)
		if (c.row0 + i * ROWS_A_PASS >= c.keys || c.row0 + i * ROWS_A_PASS < c.front)
			c.v_held[i] = u32x4{};
}

/* Loads the last key in place of keys beyond the end: their own slots may hold NaN, and 0 x NaN is
 * not 0. Their scores are masked. */
DEVICE void copier_copy(const attune_args &a, const block &b, copier &c, int tile, shared_place)
{
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int row = c.row0 + i * ROWS_A_PASS;
		const int key = b.begin + tile * TILE_SIZE + row;
		const int near = max(min(key, b.end - 1), 0);
		const int slot = near - page_of(a, near) * a.page_size;
		if (c.active && row < TILE_SIZE) {
			take_keys(c, i, 0, c.k + c.page[i] * a.k_page_stride + slot * a.k_slot_stride, 1);
			take_values(c, i, 0, c.v + c.page[i] * a.v_page_stride + slot * a.v_slot_stride, 1);
		}
	}
}

/* Publishes the loaded tile in its stage to all threads. */
DEVICE void stage_ready(copier &c, shared_place stage)
{
	if (SHARED_TILES == 1)
		BLOCK_BARRIER(); /* the tile before has been read */
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int row = c.row0 + i * ROWS_A_PASS;
		if (!c.active || row >= TILE_SIZE)
			continue;
		*(u32x4 *)(stage + chunk_at(row, c.chunk)) = c.k_held[i];
		*(u32x4 *)(stage + TILE_BYTES + chunk_at(row, c.chunk)) = c.v_held[i];
	}
	BLOCK_BARRIER();
}

/* s = Q K^T for this wave's rows and keys */
DEVICE void scores(logits &s, const held_q &q, shared_place, int, shared_place k_tile,
		   int warp_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	{
		operands k;
		read_row(k, k_tile, warp_key + j * 16 + lane_id() % 16);
		scores_of(s, j, k, q);
	}
}

DEVICE void accumulate(state &t, const logits &p, shared_place v_tile, int warp_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	{
		values v;
		UNROLL for (int e = 0; e < 4; e++)
			read_values(v[e], v_tile, warp_key + j * 16 + lane_id() / 16 * 4 + e);
		accumulate_of(t, p, j, v);
	}
}

DEVICE shared_place shared_address(unsigned char *p)
{
	return p;
}

/* Q needs no copies here, and the copies of K and V need no counting. */
DEVICE void copy_q(const attune_args &, const block &, shared_place)
{
}

DEVICE void q_ready()
{
}

DEVICE void copies_commit()
{
}

template <int pending> DEVICE void copies_wait()
{
}

/* ---- from memory to registers --------------------------------------------------------- */

/* The pages of a lane's keys of a tile: for group j one for K, four for V. */
struct places {
	int k_page[KEY_GROUPS], v_page[KEY_GROUPS][4];
};

/* A wave's share of a tile. Loads complete in the order of issue. So a tile's pages are loaded
 * before the previous tile; else waiting for the pages would wait for that tile too. */
struct direct {
	const half16 *k, *v;
	const int *pages;
	int last; /* the key that this wave reads in place of missing keys */
	places at;
	operands k_held[KEY_GROUPS];
	values v_held[KEY_GROUPS];
};

DEVICE void direct_start(const attune_args &a, const block &b, int t1, direct &c)
{
	c.k = (const half16 *)a.k_cache + b.kv_head * a.k_head_stride;
	c.v = (const half16 *)a.v_cache + b.kv_head * a.v_head_stride;
	c.pages = a.block_table + (long long)b.q.seq * a.block_table_stride;
	c.last = max(min(b.begin + t1 * TILE_SIZE, b.end) - 1, 0);
}

/* This lane's key of group j in K; its e-th key of group j in V. */
DEVICE int k_key(int first_key, int j)
{
	return first_key + j * 16 + lane_id() % 16;
}

DEVICE int v_key(int first_key, int j, int e)
{
	return first_key + j * 16 + lane_id() / 16 * 4 + e;
}

/* The first key of group j. With even pages all 16 keys are read, since the page has room for them.
 * With other pages the last key is read in place of missing ones. */
DEVICE int even_key(const direct &c, int first_key, int j)
{
	return min(first_key + j * 16, c.last & ~15);
}

template <int EVEN>
DEVICE places direct_places(const attune_args &a, const direct &c, int first_key)
{
	places p;
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	{
		const int key = EVEN ? even_key(c, first_key, j) : min(k_key(first_key, j), c.last);
		p.k_page[j] = c.pages[page_of(a, key)];
		if (!EVEN)
			UNROLL for (int e = 0; e < 4; e++)
				p.v_page[j][e] = c.pages[page_of(a, min(v_key(first_key, j, e), c.last))];
	}
	return p;
}

template <int EVEN> DEVICE void direct_keys(const attune_args &a, direct &c, int first_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	{
		const int key = EVEN ? even_key(c, first_key, j) : min(k_key(first_key, j), c.last);
		const int page = EVEN ? uniform(c.at.k_page[j]) : c.at.k_page[j];
		load_row<KV_HINT == 3>(c.k_held[j], k_at(a, c.k, page, key),
				       EVEN ? (u32)a.k_slot_stride * (lane_id() % 16) : 0);
	}
}

template <int EVEN> DEVICE void direct_values(const attune_args &a, direct &c, int first_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	UNROLL for (int e = 0; e < 4; e++)
	{
		const int key = EVEN ? even_key(c, first_key, j) :
				       min(v_key(first_key, j, e), c.last);
		const int page = EVEN ? uniform(c.at.k_page[j]) : c.at.v_page[j][e];
		load_values<KV_HINT == 3>(c.v_held[j][e], v_at(a, c.v, page, key),
					  EVEN ? (u32)a.v_slot_stride * (lane_id() / 16 * 4 + e) : 0);
	}
}

/* Like even_clear(); keys [begin, end) are seen. */
DEVICE void direct_clear(int begin, int end, direct &c, int first_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	UNROLL for (int e = 0; e < 4; e++)
	UNROLL for (int i = 0; i < (FRAGMENTS + 1) / 2; i++)
		if (v_key(first_key, j, e) >= end || v_key(first_key, j, e) < begin)
			c.v_held[j][e][i] = 0;
}
