/* attend_amd.h - computes a block of attention on AMD's matrix units; attend.h includes it.
 *
 * S^T = K Q^T and O^T = V^T P^T: a Q row is column lane % 16 of all operands and results. A lane's
 * part of S^T, packed, is therefore its operand of P^T. Four lanes share a row's maximum and sum,
 * and each lane scales its results by its own factor.
 *
 * K and Q are loaded by 16 bytes: of 32 dims, group g = lane / 16 has 8 g .. 8 g + 7, four for each
 * of two products. V's dims are dealt to fragments of 16 so that a lane reads neighbours: in a
 * piece of 16 w dims (w = 8, then 4, 2, 1 for the rest),
 *
 *   row i of fragment d of the piece <-> dim w i + d       lane reads dims w n .. w n + w - 1
 *                                                          of keys 4 g .. 4 g + 3
 * and its results are 4 w neighbours, dims 4 w g ...  An operand has four keys of one dim, which
 * costs two byte permutations of the loaded values. Writing V transposed to shared memory would
 * permute once a block instead of once a wave, but needs twice the writes, and a separate address
 * for each fragment to avoid bank conflicts. If waves share no keys, both cost the same.
 *
 * K and V take one of two paths (KV_PATH 0: path 1 if each wave has its own keys):
 *   1  From memory to registers, in the layout of operands. A tile's K is loaded once the previous
 *      tile's K is used up; V likewise.
 *   2  Through shared memory, { K, V }[TILE_SIZE][ROW] x SHARED_TILES, for all waves; the next tile
 *      waits in registers. One shared tile needs two barriers a tile, two need one.
 *
 * At the end waves along the keys are merged, upper half into lower half, lane by lane: shared
 * memory [WARPS_N / 2][WARPS_M] x MERGE_WAVE.
 *
 * attend_amd_keys.h loads K and V, attend_amd_out.h merges and writes the results. */
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

/* Missing rows are copies of the last one; their results are discarded. */
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

/* Applies softcap and ALiBi, if the layer has them; scores are then in log2 units. */
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

/* Updates the running maximum and sum; s becomes p = 2^(unit * (s - m)). */
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
		const exponent x = exponent_of(m == MINUS_INF ? 0.f : m, unit, COARSE_16BIT, 0);
		const float old = fade_of(x, t.m[f], 0);
		float sum = 0;
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
		UNROLL for (int e = 0; e < 4; e++)
		{
			const float p = weight_of(x, s[f][j][e]);
			s[f][j][e] = p;
			sum += p;
		}
		t.l[f] = t.l[f] * old + sum;
		t.m[f] = m;
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			t.o[f][d] *= old;
	}
}

/* Adds up the partial sums of a row's four lanes. */
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

#include "attend_amd_out.h"
#include "attend_amd_keys.h"

/* ---- a block -------------------------------------------------------------------------- */

/* The state of a wave as it walks through its tiles. */
struct course {
	int t0, t1; /* tiles */
	int first; /* first key that some row sees; a tile may begin before it */
	int warp_row, warp_n, warp_key;
	int bent;
	float unit;
	rows r;
	held_q q;
};

/* Scales, bends and masks the scores of a tile. */
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

/* Also loads a tile after the last one: without a branch the compiler can count the loads in
 * flight. All of that tile is one key. */
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
		if (EVEN && (key + WARP_KEYS > b.end || key < w.first))
			direct_clear(w.first, b.end, c, key);
		UNROLL for (int j = 0; j < KEY_GROUPS; j++)
			accumulate_of(t, s, j, c.v_held[j]);
		direct_values<EVEN>(a, c, key + TILE_SIZE);
	}
}

/* Loads a tile into registers and finds the next one's pages. */
template <int EVEN>
DEVICE void fetch(const attune_args &a, const block &b, const course &w, copier &c, int tile)
{
	if (EVEN) {
		even_copy(a, b, c, tile);
		c.front = w.first - b.begin - tile * TILE_SIZE;
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
		fetch<EVEN>(a, b, w, c, w.t0);
	}
	for (int tile = w.t0; tile < w.t1; tile++) {
		const shared_place stage = memory + (tile - w.t0) % SHARED_TILES * STAGE_BYTES;
		if (EVEN && (c.keys < TILE_SIZE || c.front > 0))
			even_clear(c);
		stage_ready(c, stage);
		if (tile + 1 < w.t1)
			fetch<EVEN>(a, b, w, c, tile + 1);
		logits s;
		scores(s, w.q, 0, 0, stage, w.warp_key);
		adjust(a, b, w, s, tile, key_of(b, w, tile));
		soften(t, s, w.unit);
		accumulate(t, s, stage + TILE_BYTES, w.warp_key);
	}
}

/* All work of a block, from its first load to its output. Other threads may still copy from shared
 * memory when the first one returns. */
DEVICE void attend_block(const attune_args &a, const block &whole, unsigned char *memory)
{
	block b = whole;
	if (has_even_pages(a))
		b.begin &= ~15; /* in the same page; unseen keys are masked, and cleared in V */
	const int warp = uniform(BLOCK_THREAD / WARP);
	const int tiles = (b.end - b.begin + TILE_SIZE - 1) / TILE_SIZE;
	course w;
	w.first = whole.begin;
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
	/* With one segment the output is final: no reduction follows. All blocks branch alike. */
	if (PARTIALS && a.segments > 1)
		write<PARTIALS>(a, b, t, w.warp_row, w.warp_n, w.unit, memory);
	else
		write<0>(a, b, t, w.warp_row, w.warp_n, w.unit, memory);
}
