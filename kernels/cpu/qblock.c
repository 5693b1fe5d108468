/* SPDX-License-Identifier: Apache-2.0 */
/* qblock.c - attention for many rows: packs tiles of keys and multiplies them in register blocks.
 * It is bound by multiply-adds.
 *
 * cell (x, y, z) = KV head x, Q block y counted from the end, its rows from BLOCK_M z on. The last
 * Q blocks of a causal sequence see most keys, so the longest come first. A row is (query token,
 * query head of the group). A Q block has as many tokens as fit BLOCK_M rows, at least one, so z >
 * 0 only if the group exceeds BLOCK_M.
 *
 *   per tile of TILE_SIZE keys     K^T  panels [TILE_SIZE / W][D][W]
 *                                  V    panels [D / W][TILE_SIZE][W], the last one narrower
 *   S [BLOCK_M][TILE_SIZE]  = Q K^T      MR rows x W = NV vectors at a time, a panel
 *   S                       = exp2(S - m)       stays in the first-level cache while
 *   O [BLOCK_M][DL]        += S V               all row blocks pass over it
 *
 * Panels are contiguous because rows a power of two apart fall into the same cache sets. A row
 * block skips the panels and depths that none of its rows sees. */
#include "paged.h"

#ifndef ENTRY
#define ENTRY attune_kernel
#endif

enum {
	W = NV * LANES,
	DL = (D + LANES - 1) / LANES * LANES,
	LAST_W = DL % W, /* width of V's last panel; 0: W */
	ROWS = (BLOCK_M + MR - 1) / MR * MR,
};
_Static_assert(TILE_SIZE % W == 0, "a tile is a whole number of panels");

struct cell {
	const struct attune_args *a;
	struct block b;
	int head;        /* KV head */
	int begin, rows; /* rows of the Q block */
	int first, n;    /* keys of the tile */
	float *q;        /* [ROWS][D] */
	float *o;        /* [ROWS][DL] */
	float *s;        /* [ROWS][TILE_SIZE] */
	float *k, *v;    /* panels */
	float *m, *l;    /* [ROWS] */
	int *lo, *hi;    /* [ROWS] keys seen; they grow with the row */
	const char *k_row[TILE_SIZE], *v_row[TILE_SIZE];
};

/* ---- packing -------------------------------------------------------------------- */

/* Fills the last vector with copies of the last entry, so that all values are finite. */
static void list_tile(struct cell *c)
{
	const struct attune_args *a = c->a;
	const char *k = (const char *)a->k_cache + c->head * a->k_head_stride * KV_BYTES;
	const char *v = (const char *)a->v_cache + c->head * a->v_head_stride * KV_BYTES;
	long long k_at[TILE_SIZE], v_at[TILE_SIZE];
	list_keys(a, &c->b, c->first, c->n, c->n, 1, k_at, v_at);
	for (int i = 0; i < c->n; i++) {
		c->k_row[i] = k + k_at[i];
		c->v_row[i] = v + v_at[i];
	}
	for (int i = c->n; i % LANES; i++)
		c->k_row[i] = c->k_row[c->n - 1];
}

/* LANES keys x n elements of a head into columns t.. of K^T. */
INLINE void pack_square(const struct cell *c, int t, int d, const int n)
{
	V r[LANES];
	float *to = c->k + (t / W * D + d) * W + t % W;
	foreach (i, LANES)
		r[i] = load_as(KV_DTYPE, c->k_row[t + i] + d * KV_BYTES, n);
	v_transpose(r);
	foreach (i, n)
		v_store(to + i * W, r[i]);
}

static void pack_keys(const struct cell *c)
{
	for (int t = 0; t < c->n; t += LANES) {
#define LINE(d, n) pack_square(c, t, d, n)
		EACH_VECTOR(LINE);
#undef LINE
	}
}

INLINE int panel_width(int d)
{
	return LAST_W && d / W == DL / W ? LAST_W : W;
}

static void pack_values(const struct cell *c)
{
	for (int t = 0; t < c->n; t++) {
#define LINE(d, n)                                                             \
	v_store(c->v + (d) / W * W * TILE_SIZE + t * panel_width(d) + (d) % W, \
		load_as(KV_DTYPE, c->v_row[t] + (d)*KV_BYTES, n))
		EACH_VECTOR(LINE);
#undef LINE
	}
}

/* ---- products ------------------------------------------------------------------- */

/* c [MR][N vectors] = or += a [MR][depth] b [depth][N vectors] */
INLINE void product(const int N, const int add, const float *a, const int lda, const float *b,
		    float *c, const int ldc, int depth)
{
	V acc[MR * NV];
	foreach (i, MR * N)
		acc[i] = add ? v_load(c + i / N * ldc + i % N * LANES) : v_set(0);
	for (int k = 0; k < depth; k++) {
		V x[NV];
		foreach (j, N)
			x[j] = v_load(b + (k * N + j) * LANES);
		foreach (i, MR) {
			const V y = v_set(a[i * lda + k]);
			foreach (j, N)
				acc[i * N + j] = v_fma(y, x[j], acc[i * N + j]);
		}
	}
	foreach (i, MR * N)
		v_store(c + i / N * ldc + i % N * LANES, acc[i]);
}

static __attribute__((noinline)) void multiply_keys(const float *q, const float *k, float *s)
{
	product(NV, 0, q, D, k, s, TILE_SIZE, D);
}

static __attribute__((noinline)) void multiply_values(const float *s, const float *v, float *o,
						      int depth)
{
	product(NV, 1, s, TILE_SIZE, v, o, DL, depth);
}

static __attribute__((noinline)) void multiply_last(const float *s, const float *v, float *o,
						    int depth)
{
	product(LAST_W ? LAST_W / LANES : 1, 1, s, TILE_SIZE, v, o, DL, depth);
}

/* Keys of the tile that at least one row of the block at r sees. */
INLINE void seen_by_block(const struct cell *c, int r, int *lo, int *hi)
{
	*lo = max_int(c->lo[r] - c->first, 0);
	*hi = min_int(c->hi[min_int(r + MR, c->rows) - 1] - c->first, c->n);
}

static void scores(const struct cell *c)
{
	for (int t = 0; t < c->n; t += W)
		for (int r = 0; r < c->rows; r += MR) {
			int lo, hi;
			seen_by_block(c, r, &lo, &hi);
			if (t < hi && t + W > lo)
				multiply_keys(c->q + r * D, c->k + t * D, c->s + r * TILE_SIZE + t);
		}
}

static void accumulate(const struct cell *c)
{
	for (int d = 0; d < DL; d += W)
		for (int r = 0; r < c->rows; r += MR) {
			int lo, hi;
			const float *s = c->s + r * TILE_SIZE;
			const float *v = c->v + d * TILE_SIZE;
			float *o = c->o + r * DL + d;
			seen_by_block(c, r, &lo, &hi);
			if (hi <= lo)
				continue;
			if (panel_width(d) == W)
				multiply_values(s + lo, v + lo * W, o, hi - lo);
			else
				multiply_last(s + lo, v + lo * LAST_W, o, hi - lo);
		}
}

/* ---- softmax -------------------------------------------------------------------- */

/* min(fence, score) is the score inside the fence, -inf outside. */
// clang-format off
static const float fence[3 * LANES] = {
#define ROW(x) [(x) * LANES ... (x) * LANES + LANES - 1]
	ROW(0) = MASKED, ROW(1) = -MASKED, ROW(2) = MASKED
};
// clang-format on

/* Lanes below lo and from hi on become -inf. */
INLINE V keep(V x, int lo, int hi)
{
	x = v_min(x, v_load(fence + LANES - max_int(lo, 0)));
	return v_min(x, v_load(fence + 2 * LANES - min_int(hi, LANES)));
}

static void bias(const struct cell *c, int r, float *s, int begin, int end)
{
	const struct attune_args *a = c->a;
	const int row = c->begin + r, token = c->b.first + row / a->group;
	const float slope =
	    a->alibi_slopes ? a->alibi_slopes[c->head * a->group + row % a->group] * LOG2E : 0;
	float step[LANES];
	for (int i = 0; i < LANES; i++)
		step[i] = slope * (float)i;
	for (int j = begin; j < end; j += LANES) {
		const float first = slope * (float)(c->first + j - position(&c->b, token));
		v_store(s + j, soften(a, v_load(s + j)) + v_set(first) + v_load(step));
	}
}

static void shrink(const struct cell *c, int r, float top)
{
	const float by = exp2_of(c->m[r] - top);
	c->m[r] = top;
	c->l[r] *= by;
	for (int d = 0; d < DL; d += LANES)
		v_store(c->o + r * DL + d, v_set(by) * v_load(c->o + r * DL + d));
}

/* Turns scores into weights for the keys [lo, hi) of the tile. Other keys in the same vectors get
 * weight 0. */
static void weigh_row(const struct cell *c, int r, int lo, int hi)
{
	float *s = c->s + r * TILE_SIZE;
	const int begin = lo / LANES * LANES, end = (hi + LANES - 1) / LANES * LANES;
	if (c->a->softcap > 0 || c->a->alibi_slopes)
		bias(c, r, s, begin, end);
	v_store(s + begin, keep(v_load(s + begin), lo - begin, hi - begin));
	v_store(s + end - LANES, keep(v_load(s + end - LANES), lo - end + LANES, hi - end + LANES));
	V most = v_load(s + begin), sum = v_set(0);
	for (int j = begin + LANES; j < end; j += LANES)
		most = v_max(most, v_load(s + j));
	const float top = v_top(most);
	if (top > c->m[r])
		shrink(c, r, top);
	most = v_set(c->m[r]);
	for (int j = begin; j < end; j += LANES) {
		const V e = v_exp2(v_load(s + j) - most);
		sum += e;
		v_store(s + j, e);
	}
	c->l[r] += v_sum(sum);
}

/* Sets every entry that accumulate() reads to a weight or to zero. */
static void weights(const struct cell *c)
{
	for (int r = 0; r < c->rows; r++) {
		float *s = c->s + r * TILE_SIZE;
		const int lo = max_int(c->lo[r] - c->first, 0);
		const int hi = min_int(c->hi[r] - c->first, c->n);
		int block_lo, block_hi, j;
		seen_by_block(c, r / MR * MR, &block_lo, &block_hi);
		if (hi > lo)
			weigh_row(c, r, lo, hi);
		const int begin = hi > lo ? lo / LANES * LANES : block_hi;
		for (j = block_lo / LANES * LANES; j < begin; j += LANES)
			v_store(s + j, v_set(0));
		for (j = max_int(j, (hi + LANES - 1) / LANES * LANES); j < block_hi; j += LANES)
			v_store(s + j, v_set(0));
	}
}

/* ---- rows in and out ------------------------------------------------------------ */

static void begin_rows(struct cell *c)
{
	const struct attune_args *a = c->a;
	const int rows = (c->rows + MR - 1) / MR * MR;
	memset(c->o, 0, (size_t)rows * DL * sizeof *c->o);
	for (int r = 0; r < c->rows; r++) {
		const int token = c->b.first + (c->begin + r) / a->group;
		const int head = c->head * a->group + (c->begin + r) % a->group;
		float q[DL];
		q_load(q, q_row(a, &c->b, token, head), q_factor(a));
		memcpy(c->q + r * D, q, D * sizeof *q);
		visible(a, &c->b, token, &c->lo[r], &c->hi[r]);
		c->m[r] = a->sinks ? a->sinks[head] * LOG2E : LOWEST;
		c->l[r] = a->sinks ? 1 : 0;
	}
	for (int r = c->rows; r < rows; r++) {
		memset(c->q + r * D, 0, D * sizeof *c->q);
		memset(c->s + r * TILE_SIZE, 0, TILE_SIZE * sizeof *c->s);
	}
}

static void end_rows(const struct cell *c)
{
	const struct attune_args *a = c->a;
	for (int r = 0; r < c->rows; r++) {
		const int token = c->b.first + (c->begin + r) / a->group;
		const int head = c->head * a->group + (c->begin + r) % a->group;
		out_store(out_row(a, &c->b, token, head), c->o + r * DL,
			  c->l[r] > 0 ? 1 / c->l[r] : 0);
	}
}

void ENTRY(const struct attune_args *a, int x, int y, int z)
{
#define ROOM(name, floats) float name[floats] __attribute__((aligned(64)))
	ROOM(q, ROWS * D);
	ROOM(o, ROWS * DL);
	ROOM(s, ROWS * TILE_SIZE);
	ROOM(k, TILE_SIZE * D);
	ROOM(v, TILE_SIZE * DL);
	ROOM(m, ROWS);
	ROOM(l, ROWS);
	int lo[ROWS], hi[ROWS], begin, end;
	struct cell c = { .a = a, .head = x, .begin = z * BLOCK_M, .q = q, .o = o, .s = s };
	const int block_q = max_int(1, BLOCK_M / a->group);
	const int blocks =
	    a->max_query <= block_q ? a->seq_count : first_block(a, a->seq_count, block_q);
	c.k = k, c.v = v, c.m = m, c.l = l, c.lo = lo, c.hi = hi;
	if (!find_block(&c.b, a, blocks - 1 - y, block_q))
		return;
	c.rows = min_int(BLOCK_M, c.b.count * a->group - c.begin);
	if (c.rows <= 0)
		return;
	begin_rows(&c);
	visible_to_block(a, &c.b, &begin, &end);
	for (c.first = begin; c.first < end; c.first += TILE_SIZE) {
		c.n = min_int(TILE_SIZE, end - c.first);
		list_tile(&c);
		pack_keys(&c);
		pack_values(&c);
		scores(&c);
		weights(&c);
		accumulate(&c);
	}
	end_rows(&c);
}
