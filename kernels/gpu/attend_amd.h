/* attend_amd.h - the engine of attend.h on AMD's matrix units; a part of that file.
 *
 * S^T = K Q^T and O^T = V^T P^T: a Q row is a column, lane % 16, of all operands and results.
 * So what a lane gets of S^T, packed, is its operand of P^T, a row's maximum and sum are of
 * four lanes, and each lane scales its results by a number of its own.
 *
 * Dims of K and Q come by 16 bytes: of 32 dims, lane / 16 = g has 8 g .. 8 g + 7, four for
 * each of two products, which sum over all. Dims of V go to fragments of 16 so that a lane
 * too reads neighbours: in a piece of 16 w dims, w = 8, or 4, 2, 1 for what is left,
 *
 *   row i of fragment d of the piece <-> dim w i + d       lane reads dims w n .. w n + w - 1
 *                                                          of keys 4 g .. 4 g + 3
 * and its results are 4 w neighbours, dims 4 w g ...  To have four keys of one dim in an
 * operand costs two byte permutations of what was read. Writing V transposed to shared memory
 * would cost them once a block instead of once a wave, but twice the writes and, for reads
 * without bank conflicts, an address of each fragment's own. Where waves share no keys both
 * cost the same.
 *
 * Two ways for K and V (KV_PATH 0: the first where each wave has keys of its own):
 *   1  From memory to registers in operands' layout, no shared memory: a tile's K is loaded
 *      when the last one's is used up, and its V likewise.
 *   2  Through shared memory, { K, V }[TILE_SIZE][ROW] as often as SHARED_TILES, for all
 *      waves; the next tile waits in registers. With one tile there are two barriers a tile,
 *      with two there is one.
 *
 * Waves along the keys are merged at the end, upper half by lower half, lane by lane:
 * shared memory [WARPS_N / 2][WARPS_M] x MERGE_WAVE. */
#ifndef KV_PATH
#define KV_PATH 0
#endif
#define KV_DIRECT    (KV_PATH == 1 || (KV_PATH == 0 && WARPS_M == 1))
#define FRAGMENTS    (HEAD_SIZE / 16)
#define KEY_GROUPS   (WARP_KEYS / 16)
#define SHARED_TILES (NUM_STAGES - 1)
#define Q_BYTES	     0
#define Q_HELD	     MFRAGS
#define RING_BYTES   (KV_DIRECT ? 0 : SHARED_TILES * STAGE_BYTES)
#define MERGE_WAVE   (MFRAGS * (FRAGMENTS * 16 + 8) * WARP) /* bytes: o, m and l */
#define MERGE_BYTES  (WARPS_N / 2 * WARPS_M * MERGE_WAVE)

typedef unsigned char *shared_place;
typedef float4v logits[MFRAGS][KEY_GROUPS];    /* of keys 4 g .. 4 g + 3 of each 16 */
typedef u32x2 operands[FRAGMENTS];	       /* of a row of K or Q: a step of 16 dims each */
typedef operands held_q[MFRAGS];
typedef u32 values[4][(FRAGMENTS + 1) / 2];    /* of V: four keys; fragments in pairs */

struct rows { /* of one lane */
	int position[MFRAGS]; /* in the sequence; -1: no such row */
};

/* The running softmax of one wave: o = sum p v, l = sum p, m = maximum. */
struct state {
	float4v o[MFRAGS][FRAGMENTS];
	float m[MFRAGS], l[MFRAGS];
};

/* w of the piece that a fragment is in; the piece begins at a multiple of it */
DEVICE constexpr int width_of(int fragment)
{
	return fragment < FRAGMENTS / 8 * 8 ? 8 :
	       fragment < FRAGMENTS / 4 * 4 ? 4 :
	       fragment < FRAGMENTS / 2 * 2 ? 2 : 1;
}

DEVICE void put_step(operands &x, int i, u32x4 dims)
{
	x[i] = u32x2{ dims[0], dims[1] };
	if (i + 1 < FRAGMENTS)
		x[i + 1] = u32x2{ dims[2], dims[3] };
}

/* of the row at base + offset */
template <int streamed> DEVICE void load_row(operands &x, const half16 *base, u32 offset)
{
	const int g = lane_id() / 16;
	UNROLL for (int i = 0; i < FRAGMENTS; i += 2)
	{
		const int n = i + 1 < FRAGMENTS ? 8 : 4;
		put_step(x, i, load_halves<streamed>(base + (offset + n * g) + i * 16, n));
	}
}

/* the same of a tile in shared memory */
DEVICE void read_row(operands &x, const unsigned char *tile, int row)
{
	const int g = lane_id() / 16;
	UNROLL for (int i = 0; i < FRAGMENTS; i += 2)
	{
		const int n = i + 1 < FRAGMENTS ? 8 : 4, dim = i * 16 + n * g;
		put_step(x, i, load_halves<0>(tile + chunk_at(row, dim / 8) + dim % 8 * 2, n));
	}
}

DEVICE void put_piece(u32 *v, u32x4 dims, int w)
{
	UNROLL for (int i = 0; i < 4; i++)
		if (i < (w + 1) / 2)
			v[i] = dims[i];
}

template <int streamed> DEVICE void load_values(u32 *v, const half16 *base, u32 offset)
{
	UNROLL for (int d = 0; d < FRAGMENTS; d++)
	{
		const int w = width_of(d), n = lane_id() % 16;
		if (d % w == 0)
			put_piece(v + d / 2, load_halves<streamed>(base + (offset + w * n) + d * 16, w), w);
	}
}

DEVICE void read_values(u32 *v, const unsigned char *tile, int row)
{
	UNROLL for (int d = 0; d < FRAGMENTS; d++)
	{
		const int w = width_of(d), dim = d * 16 + w * (lane_id() % 16);
		if (d % w == 0)
			put_piece(v + d / 2,
				  load_halves<0>(tile + chunk_at(row, dim / 8) + dim % 8 * 2, w), w);
	}
}

/* Rows that are not there are the last one once more: nobody looks at what becomes of them. */
DEVICE void hold_q(const attune_args &a, const block &b, operands &q, shared_place, int warp_row,
		   int f)
{
	const int row = min(warp_row + f * 16 + lane_id() % 16, b.rows - 1);
	load_row<0>(q, (const half16 *)a.q + (b.q.first_row + row_token(b, row)) * a.q_token_stride +
			       row_head(b, row) * a.q_head_stride, 0);
}

/* of 16 keys: s = Q K^T */
DEVICE void scores_of(logits &s, int group, const operands &k, const held_q &q)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		s[f][group] = float4v{ 0, 0, 0, 0 };
		UNROLL for (int i = 0; i < FRAGMENTS; i++)
			s[f][group] = mfma(k[i], q[f][i], s[f][group]);
	}
}

/* of 16 keys: o += P V */
DEVICE void accumulate_of(state &t, const logits &p, int group, const values &v)
{
	u32x2 b[MFRAGS];
	UNROLL for (int f = 0; f < MFRAGS; f++)
		b[f] = u32x2{ pack2_fast(p[f][group][0], p[f][group][1]),
			      pack2_fast(p[f][group][2], p[f][group][3]) };
	UNROLL for (int d = 0; d < FRAGMENTS; d++)
	{
		const int at = d / 2;
		const u32x2 a = d % 2 ? u32x2{ pair_seconds(v[0][at], v[1][at]),
					       pair_seconds(v[2][at], v[3][at]) } :
					u32x2{ pair_firsts(v[0][at], v[1][at]),
					       pair_firsts(v[2][at], v[3][at]) };
		UNROLL for (int f = 0; f < MFRAGS; f++)
			t.o[f][d] = mfma(a, b[f], t.o[f][d]);
	}
}

/* Softcap and ALiBi, when the layer has them: scores then leave in log2 units. */
DEVICE void bend(const attune_args &a, const block &b, logits &s, const rows &r, int first_row,
		 int first_key)
{
	const float cap = a.softcap > 0 ? a.softcap : 1.f, to_cap = a.scale / cap;
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const int row = first_row + f * 16 + lane_id() % 16;
		const float slope = a.alibi_slopes && row < b.rows ?
					    a.alibi_slopes[row_head(b, row)] : 0.f;
		const int far = first_key + lane_id() / 16 * 4 - r.position[f];
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
			s[f][j] *= to_cap;
		if (a.softcap > 0)
			UNROLL for (int j = 0; j < KEY_GROUPS; j++)
			UNROLL for (int e = 0; e < 4; e++)
				s[f][j][e] = cap * tanh_exact(s[f][j][e]);
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
		UNROLL for (int e = 0; e < 4; e++)
			s[f][j][e] = (s[f][j][e] + slope * (far + j * 16 + e)) * LOG2E;
	}
}

/* -infinity for keys that a row does not see */
DEVICE void mask(const attune_args &a, const block &b, logits &s, const rows &r, int first_key)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const int column = first_key + lane_id() / 16 * 4;
		const int last = min(a.causal ? r.position[f] : b.end - 1, b.end - 1) - column;
		const int first = (a.window ? r.position[f] - a.window + 1 : 0) - column;
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
		UNROLL for (int e = 0; e < 4; e++)
			if (j * 16 + e > last || j * 16 + e < first)
				s[f][j][e] = MINUS_INF;
	}
}

/* Running maximum and sum; s becomes p = 2^(unit * (s - m)). */
DEVICE void soften(state &t, logits &s, float unit)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		float m = t.m[f];
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
		UNROLL for (int e = 0; e < 4; e++)
			m = fmaxf(m, s[f][j][e]);
		m = fmaxf(m, shfl_xor(m, 16));
		m = fmaxf(m, shfl_xor(m, 32));
		/* a row without any key so far: m = -infinity, every p is 0 */
		const float safe = m == MINUS_INF ? 0.f : m * unit;
		const float old = exp2_fast(t.m[f] * unit - safe);
		float sum = 0;
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
		UNROLL for (int e = 0; e < 4; e++)
		{
			const float p = exp2_fast(fmaf(s[f][j][e], unit, -safe));
			s[f][j][e] = p;
			sum += p;
		}
		t.l[f] = t.l[f] * old + sum;
		t.m[f] = m;
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			t.o[f][d] *= old;
	}
}

/* The sum over a row's four lanes, which each lane has kept to itself. */
DEVICE void finish_sums(state &t)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		t.l[f] += shfl_xor(t.l[f], 16);
		t.l[f] += shfl_xor(t.l[f], 32);
	}
}

DEVICE void start_state(state &t)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		t.m[f] = MINUS_INF;
		t.l[f] = 0;
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			t.o[f][d] = float4v{ 0, 0, 0, 0 };
	}
}

DEVICE rows find_rows(const block &b, int warp_row)
{
	rows r;
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const int row = warp_row + f * 16 + lane_id() % 16;
		r.position[f] = row < b.rows ? b.q.seq_len - b.q.query_len + row_token(b, row) : -1;
	}
	return r;
}

/* What another wave has of the same rows: its m in units of log2, as this one's. */
DEVICE void add_state(state &t, const unsigned char *from)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const float4v *o = (const float4v *)(from + f * MERGE_WAVE / MFRAGS) + lane_id();
		const float2 ml = ((const float2 *)(o - lane_id() + FRAGMENTS * WARP))[lane_id()];
		const float m = fmaxf(t.m[f], ml.x), safe = m == MINUS_INF ? 0.f : m;
		const float mine = exp2_fast(t.m[f] - safe), other = exp2_fast(ml.x - safe);
		t.m[f] = m;
		t.l[f] = t.l[f] * mine + ml.y * other;
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			t.o[f][d] = t.o[f][d] * mine + o[d * WARP] * other;
	}
}

DEVICE void leave_state(const state &t, unsigned char *to)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		float4v *o = (float4v *)(to + f * MERGE_WAVE / MFRAGS) + lane_id();
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			o[d * WARP] = t.o[f][d];
		((float2 *)(o - lane_id() + FRAGMENTS * WARP))[lane_id()] =
			make_float2(t.m[f], t.l[f]);
	}
}

/* The first wave along the keys gets all. In each round a wave leaves its state where it
 * alone has read in the round before. */
DEVICE void merge(state &t, int warp_m, int warp_n, unsigned char *shared)
{
	const int places = WARPS_N > 1 ? WARPS_N / 2 : 1;
	UNROLL for (int half = WARPS_N / 2; half; half /= 2)
	{
		const int place = warp_n % places, above = (warp_n + half) % places;
		if (warp_n >= half && warp_n < 2 * half)
			leave_state(t, shared + (place * WARPS_M + warp_m) * MERGE_WAVE);
		BLOCK_BARRIER();
		if (warp_n < half)
			add_state(t, shared + (above * WARPS_M + warp_m) * MERGE_WAVE);
	}
}

/* Neighbouring stores become one of 16 bytes. */
template <int PARTIAL>
DEVICE void write_rows(const attune_args &a, const block &b, const state &t, int warp_row)
{
	const int g = lane_id() / 16;
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const int row = warp_row + f * 16 + lane_id() % 16;
		if (row >= b.rows)
			continue;
		const float factor = row_factor<PARTIAL>(a, b, row, t.m[f], t.l[f]);
		if (!g)
			put_sums<PARTIAL>(a, b, row, t.m[f], t.l[f]);
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
		UNROLL for (int e = 0; e < 4; e++)
		{
			const int w = width_of(d), dim = d / w * w * 16 + w * (4 * g + e) + d % w;
			if (w > 1 && d % 2 == 0)
				put_pair<PARTIAL>(a, b, row, dim, t.o[f][d][e] * factor,
						  t.o[f][d + 1 < FRAGMENTS ? d + 1 : d][e] * factor);
			if (w == 1 && e % 2 == 0)
				put_pair<PARTIAL>(a, b, row, dim, t.o[f][d][e] * factor,
						  t.o[f][d][e + 1 < 4 ? e + 1 : e] * factor);
		}
	}
}

template <int PARTIAL>
DEVICE void write(const attune_args &a, const block &b, state &t, int warp_row, int warp_n,
		  float unit, void *shared)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
		t.m[f] *= unit;
	if (WARPS_N > 1) {
		if (!KV_DIRECT)
			BLOCK_BARRIER(); /* the last tile has been read */
		merge(t, warp_row / (MFRAGS * 16), warp_n, (unsigned char *)shared);
	}
	if (!warp_n)
		write_rows<PARTIAL>(a, b, t, warp_row);
}

/* ---- where keys lie ------------------------------------------------------------------- */

/* Where pages are multiples of 16 keys, tiles begin at such multiples too, and 16 keys are in
 * one page, which is the same for a wave: scalar units work out its address, and lanes add an
 * offset of their own, always the same. EVEN: said of code for that. */
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

/* One of this thread's chunks of K, of V: to registers. */
DEVICE void take_keys(copier &c, int pass, shared_place, const half16 *src, int)
{
	c.k_held[pass] = load_halves<KV_HINT == 3>(src, 8);
}

DEVICE void take_values(copier &c, int pass, shared_place, const half16 *src, int)
{
	c.v_held[pass] = load_halves<KV_HINT == 3>(src, 8);
}

/* Rows of a pass that a wave copies are of one group of 16. */
#define WAVE_ROWS (WARP % CHUNKS == 0 && CHUNKS >= 4)

/* First key of the group that this wave's rows of a pass are in, or one that is there. */
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

/* c.k and c.v are of the thread's chunk. */
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

/* What lies in slots beyond the end may be NaN, of which a weight of 0 makes no 0. */
DEVICE void even_clear(copier &c)
{
	UNROLL for (int i = 0; i < PASSES; i++)
		if (c.row0 + i * ROWS_A_PASS >= c.keys)
			c.v_held[i] = u32x4{};
}

/* Keys beyond the end are the last one once more: what lies in their slots may be NaN, and
 * this is finite, so that a weight of 0 makes nothing of it. Their scores are masked. */
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

/* The tile that was taken is in its stage, for all threads. */
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

/* Q comes by no copies, and those of K and V need no counting. */
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

/* Where a lane's keys of a tile lie: of group j the K of one, the V of four. */
struct places {
	int k_page[KEY_GROUPS], v_page[KEY_GROUPS][4];
};

/* A wave's share of a tile. Loads arrive in the order in which they were asked for: so a
 * tile's places are asked for before the tile before is, else they were waited for with it. */
struct direct {
	const half16 *k, *v;
	const int *pages;
	int last; /* key that this wave reads for those that are not its own */
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

/* Keys of this lane in group j: of K, and of V the e-th. */
DEVICE int k_key(int first_key, int j)
{
	return first_key + j * 16 + lane_id() % 16;
}

DEVICE int v_key(int first_key, int j, int e)
{
	return first_key + j * 16 + lane_id() / 16 * 4 + e;
}

/* The first of group j, of which all are read, there or not: the page has room for them. Where
 * pages are not even, keys that are not there are the last one once more. */
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

/* as even_clear() */
DEVICE void direct_clear(const block &b, direct &c, int first_key)
{
	UNROLL for (int j = 0; j < KEY_GROUPS; j++)
	UNROLL for (int e = 0; e < 4; e++)
	UNROLL for (int i = 0; i < (FRAGMENTS + 1) / 2; i++)
		if (v_key(first_key, j, e) >= b.end)
			c.v_held[j][e][i] = 0;
}

/* ---- a block -------------------------------------------------------------------------- */

/* What a wave goes through its tiles with. */
struct course {
	int t0, t1; /* tiles */
	int warp_row, warp_n, warp_key;
	int bent;
	float unit;
	rows r;
	held_q q;
};

/* What the scores of a tile become before they are exponents. */
DEVICE void adjust(const attune_args &a, const block &b, const course &w, logits &s, int tile,
		   int first_key)
{
	if (w.bent)
		bend(a, b, s, w.r, w.warp_row, first_key);
	if (needs_mask(a, b, tile))
		mask(a, b, s, w.r, first_key);
}

DEVICE int key_of(const block &b, const course &w, int tile)
{
	return b.begin + tile * TILE_SIZE + w.warp_key;
}

/* The tile after the last one is loaded too: without a branch the compiler knows what is
 * under way, and all of it is one key. */
template <int EVEN>
DEVICE void attend_direct(const attune_args &a, const block &b, const course &w, state &t)
{
	direct c;
	if (w.t0 >= w.t1)
		return;
	direct_start(a, b, w.t1, c);
	c.at = direct_places<EVEN>(a, c, key_of(b, w, w.t0));
	places next = direct_places<EVEN>(a, c, key_of(b, w, w.t0 + 1));
	direct_keys<EVEN>(a, c, key_of(b, w, w.t0));
	direct_values<EVEN>(a, c, key_of(b, w, w.t0));
	for (int tile = w.t0; tile < w.t1; tile++) {
		const int key = key_of(b, w, tile);
		logits s;
		c.at = next;
		next = direct_places<EVEN>(a, c, key + 2 * TILE_SIZE);
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
			scores_of(s, j, c.k_held[j], w.q);
		direct_keys<EVEN>(a, c, key + TILE_SIZE);
		adjust(a, b, w, s, tile, key);
		soften(t, s, w.unit);
		if (EVEN && key + WARP_KEYS > b.end)
			direct_clear(b, c, key);
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
			accumulate_of(t, s, j, c.v_held[j]);
		direct_values<EVEN>(a, c, key + TILE_SIZE);
	}
}

/* A tile, and where the next one is */
template <int EVEN> DEVICE void fetch(const attune_args &a, const block &b, copier &c, int tile)
{
	if (EVEN) {
		even_copy(a, b, c, tile);
		even_pages(a, b, c, tile + 1);
	} else {
		copier_copy(a, b, c, tile, 0);
		copier_pages(a, b, c, tile + 1);
	}
}

template <int EVEN>
DEVICE void attend_shared(const attune_args &a, const block &b, const course &w, state &t,
			  unsigned char *memory)
{
	copier c;
	copier_start(a, b, c);
	if (w.t0 < w.t1) {
		EVEN ? even_pages(a, b, c, w.t0) : copier_pages(a, b, c, w.t0);
		fetch<EVEN>(a, b, c, w.t0);
	}
	for (int tile = w.t0; tile < w.t1; tile++) {
		const shared_place stage = memory + (tile - w.t0) % SHARED_TILES * STAGE_BYTES;
		if (EVEN && c.keys < TILE_SIZE)
			even_clear(c);
		stage_ready(c, stage);
		if (tile + 1 < w.t1)
			fetch<EVEN>(a, b, c, tile + 1);
		logits s;
		scores(s, w.q, 0, 0, stage, w.warp_key);
		adjust(a, b, w, s, tile, key_of(b, w, tile));
		soften(t, s, w.unit);
		accumulate(t, s, stage + TILE_BYTES, w.warp_key);
	}
}

/* One block's work, from its first load to its output. Its threads may still be writing
 * from shared memory when the first of them returns. */
DEVICE void attend_block(const attune_args &a, const block &whole, unsigned char *memory)
{
	block b = whole;
	if (has_even_pages(a))
		b.begin &= ~15; /* in the same page; what no row sees is masked */
	const int warp = uniform(BLOCK_THREAD / WARP);
	const int tiles = (b.end - b.begin + TILE_SIZE - 1) / TILE_SIZE;
	course w;
	w.t0 = PARTIALS ? (long long)tiles * b.segment / a.segments : 0;
	w.t1 = PARTIALS ? (long long)tiles * (b.segment + 1) / a.segments : tiles;
	w.warp_row = warp % WARPS_M * (MFRAGS * 16);
	w.warp_n = warp / WARPS_M;
	w.warp_key = w.warp_n * WARP_KEYS;
	w.bent = a.softcap > 0 || a.alibi_slopes;
	w.unit = w.bent ? 1.f : a.scale * LOG2E;
	w.r = find_rows(b, w.warp_row);
	UNROLL for (int f = 0; f < Q_HELD; f++)
		hold_q(a, b, w.q[f], 0, w.warp_row, f);
	state t;
	start_state(t);
	if (KV_DIRECT)
		has_even_pages(a) ? attend_direct<1>(a, b, w, t) : attend_direct<0>(a, b, w, t);
	else if (WAVE_ROWS && has_even_pages(a))
		attend_shared<1>(a, b, w, t, memory);
	else
		attend_shared<0>(a, b, w, t, memory);
	finish_sums(t);
	/* A lone segment is the whole: no reduction follows. All blocks go one way. */
	if (PARTIALS && a.segments > 1)
		write<PARTIALS>(a, b, t, w.warp_row, w.warp_n, w.unit, memory);
	else
		write<0>(a, b, t, w.warp_row, w.warp_n, w.unit, memory);
}
