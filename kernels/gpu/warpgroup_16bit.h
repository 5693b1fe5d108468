/* warpgroup_16bit.h - the threads of warpgroup.cu that copy, for a cache of Q's type, for which
 * warpgroup_e4m3.h has the same names. Each warp finds the block's items by itself.
 *
 *   warp 0       K, a tile at a time, from the last that some row sees down
 *   warp 1       V, the same
 *   warps 2, 3   Q of the next item, and what the item is */
#define COMERS_TO_TILES	  1 /* who come to `full` of a tile, and of Q */
#define COMERS_TO_QUERIES 2
#define P_SHIFT		  0.f

/* K of the block's items, or V: a box a lane. groups: of 8 slots, of a page. */
DEVICE void bring_keys(const attune_args &a, const attune_map &map, int groups, u32 ring,
		       unsigned long long *full, unsigned long long *empty)
{
	const int ahead = lane_id() * box_of(a);
	cursor to = { 0, 0 };
	order o;
	item i;
	find_order(a, o);
	for (int round = 0; find_item(a, o, round, i); round++) {
		if (is_early(a) && !round)
			wait_for_last();
		const int *pages = a.block_table + (long long)i.seq * a.block_table_stride;
		for (int tile = i.last - 1; tile >= i.first; tile--) {
			const int key = tile * TILE_SIZE + ahead;
			const int place = page_of(a, min(key, i.end - 1));
			const int page = ahead < TILE_SIZE ? pages[place] : 0;
			const int group = page * groups + (key - place * a.page_size) / 8;
			gate_wait(gate(empty, to.at), to.parity ^ 1);
			if (!lane_id())
				gate_expect(gate(full, to.at), TILE_BYTES);
			__syncwarp();
			if (ahead < TILE_SIZE)
				box_copy(ring + to.at * TILE_BYTES + ahead * (HEAD_SIZE * 2), map, group,
					 key < i.end ? i.head / a.group : a.num_kv_heads,
					 gate(full, to.at));
			advance(to, NUM_STAGES);
		}
	}
}

/* Elements of q from row 0 to that one */
DEVICE long long row_offset(const attune_args &a, int row)
{
	const place p = place_of(a, row);
	return p.token * a.q_token_stride + (PACKED ? p.head * a.q_head_stride : 0);
}

/* By 64 threads, some whole rows at a time. Rows that are not there are zeros. */
DEVICE void copy_rows(const attune_args &a, const item &i, u32 to)
{
	constexpr int at_once = 64 / CHUNKS, together = PACKED || 64 % CHUNKS ? 2 : 8;
	const int thread = threadIdx.x % 64;
	const int first = thread / CHUNKS, chunk = thread % CHUNKS;
	const half16 *q = (const half16 *)a.q + i.token * a.q_token_stride + i.head * a.q_head_stride;
	const half16 *from = q + row_offset(a, first) + chunk * 8;
	if (first >= at_once)
		return;
	_Pragma("unroll together") for (int n = 0; n < BLOCK_M; n += at_once)
	{
		const int row = n + first;
		if (BLOCK_M % at_once == 0 || row < BLOCK_M)
			copy16_async(to + tile_chunk(HEAD_SIZE, PIECE, row, chunk),
				     row < i.rows ? from : q, row < i.rows);
		from = PACKED ? q + row_offset(a, row + at_once) + chunk * 8 :
				from + at_once * a.q_token_stride;
	}
}

/* By two warps. The slot after the last item's says that there is none. */
DEVICE void bring_queries(const attune_args &a, header &h, u32 buffers)
{
	cursor to = { 0, 0 };
	order o;
	item i;
	find_order(a, o);
	for (int round = 0, more = 1; more; round++) {
		more = find_item(a, o, round, i);
		if (is_early(a) && !round)
			wait_for_last();
		if (is_early(a) && !more)
			let_next_begin();
		gate_wait(gate(h.q_empty, to.at), to.parity ^ 1);
		if (threadIdx.x == 64)
			h.slot[to.at] = i;
		if (more)
			copy_rows(a, i, buffers + to.at * Q_BYTES);
		copies_commit();
		copies_wait<0>();
		shared_written();
		__syncwarp();
		if (!lane_id())
			gate_come(gate(h.q_full, to.at));
		advance(to, a.option[Q_BUFFERS]);
	}
}

DEVICE void bring(const attune_mapped &c, header &h, u32 keys, u32 values, u32 queries, int warp)
{
	const attune_args &a = c.call.args;
	if (warp == 0)
		bring_keys(a, c.k, c.k_groups, keys, h.k_full, h.k_empty);
	else if (warp == 1)
		bring_keys(a, c.v, c.v_groups, values, h.v_full, h.v_empty);
	else
		bring_queries(a, h, queries);
}
