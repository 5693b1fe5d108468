/* SPDX-License-Identifier: Apache-2.0 */
/* segmented.c - attention for few rows: reads keys and values straight from the cache. It is bound
 * by memory.
 *
 * cell (x, y, z) = segment x of the keys, KV head y (WHOLE_PAGES: all KV heads), Q block z. A cell
 * lists a tile of TILE_SIZE keys once. For each KV head it then computes all row x key products,
 * their exponentials and the weighted sum of the values. Rows (query token, query head of the
 * group) come in blocks of R = 4, 2 or 1, so each loaded key serves R rows; a score block is
 * S[key][R].
 *
 *        keys of a tile, listed from STREAMS places at once
 *        |  0 16 32 48  1 17 33 49  2 ...      (TILE_SIZE 64, STREAMS 4)
 *
 * The hardware prefetcher stops at each 4 KiB page: 16 keys of 128 x bf16. With one stream every
 * page stalls; with several streams the stalls overlap. The code prefetches AHEAD keys ahead,
 * across tiles and heads: a tile, but at most 64 keys. On Zen 4 a limit of 32 costs 5 %, one of 16
 * costs 30 % (geometric means of ten batches). */
#include "paged.h"

#ifndef ENTRY
#define ENTRY attune_kernel
#endif

enum {
	PAIR = 2 * LANES,
	PAIRS = D / PAIR, /* whole ones; D % PAIR elements follow */
	TAIL = D % PAIR,
	DP = (PAIRS + (TAIL > 0)) * PAIR, /* a row's floats, in pairs */
	MAX_ROWS = 64,                    /* as in segmented.def */
	ROOM = MAX_ROWS + 4,
	AHEAD = TILE_SIZE < 64 ? TILE_SIZE : 64,
	STEP = TILE_SIZE + AHEAD + ACCS, /* scores are made for up to ACCS keys at once */
};

/* A row's keys [lo, hi) and, for ALiBi, its slope (log2 units) and position. */
struct row {
	int lo, hi, at;
	float slope;
};

struct cell {
	const struct attune_args *a;
	struct block b;
	int segment;
	int head, heads;        /* KV heads, the first and how many */
	int begin, rows;        /* rows of the block: token = row / group */
	int stride;             /* rows from one head to the next: rows, padded */
	int lo, hi;             /* keys of this segment */
	int clear_lo, clear_hi; /* keys that all rows see */
	float *q, *o;           /* [heads * stride][DP], elements in the order of pairs */
	float *m, *l;           /* [heads * stride] */
	struct row *row;        /* [heads * stride] */
};

/* Addresses of the n keys and values of one tile and head, then of the next tile or head. first:
 * key position of the first; whole: n is TILE_SIZE. */
struct step {
	const char *k[STEP], *v[STEP];
	int first, n, whole;
};

INLINE void load_pair(const char *p, int n, V *a, V *b)
{
	if (KV_DTYPE == BF16) {
		v_bf16_pair(p, n, a, b);
		return;
	}
	*a = load_as(KV_DTYPE, p, min_int(n, LANES));
	*b = n > LANES ? load_as(KV_DTYPE, p + LANES * KV_BYTES, n - LANES) : v_set(0);
}

/* Prefetches into L2. Rows of one head lie a power of two apart and share a few sets of L1, so
 * there they would evict each other. */
INLINE void prefetch(const char *p, int bytes)
{
	for (int i = 0; i < bytes; i += 64)
		__builtin_prefetch(p + i, 0, 2);
}

/* ---- scores: S[key][row] = q . k ---------------------------------------------- */

INLINE void dot_pair(const int R, const float *q, const char *const *k, int d, int n, V *acc)
{
	foreach (t, ACCS / R) {
		V x, y;
		load_pair(k[t] + d * KV_BYTES, n, &x, &y);
		foreach (r, R) {
			acc[t * R + r] = v_fma(x, v_load(q + r * DP + d), acc[t * R + r]);
			acc[t * R + r] = v_fma(y, v_load(q + r * DP + d + LANES), acc[t * R + r]);
		}
	}
}

/* ACCS / R keys at a time. */
INLINE void dots(const int R, int ahead, const struct step *s, const float *q, float *scores)
{
	for (int i = 0; i < s->n; i += ACCS / R) {
		V acc[ACCS];
		foreach (j, ACCS)
			acc[j] = v_set(0);
		if (ahead)
			foreach (t, ACCS / R)
				prefetch(s->k[i + t + ahead], D * KV_BYTES);
		for (int d = 0; d < PAIRS * PAIR; d += PAIR)
			dot_pair(R, q, s->k + i, d, PAIR, acc);
		if (TAIL)
			dot_pair(R, q, s->k + i, PAIRS * PAIR, TAIL, acc);
		foreach (j, ACCS / LANES)
			v_store(scores + i * R + j * LANES, v_sums(acc + j * LANES));
	}
}

/* ---- weights: S = exp2(S - m) -------------------------------------------------- */

/* Key position of entry i of a step's list. */
INLINE int key_at(const struct step *s, int i)
{
	return s->first + (s->whole ? i % STREAMS * (TILE_SIZE / STREAMS) + i / STREAMS : i);
}

/* A separate function for each R: inlined it runs out of registers and takes a third longer. */
static __attribute__((noinline)) void bias_and_mask(const struct cell *c, const int R,
						    const struct step *s, const struct row *row,
						    float *scores, int n)
{
	for (int i = 0; i < n * R; i += LANES)
		v_store(scores + i, soften(c->a, v_load(scores + i)));
	for (int i = 0; i < s->n; i++)
		for (int r = 0; r < R; r++) {
			const int key = key_at(s, i);
			scores[i * R + r] += row[r].slope * (float)(key - row[r].at);
			if (key < row[r].lo || key >= row[r].hi)
				scores[i * R + r] = MASKED;
		}
	for (int i = s->n * R; i < n * R; i++)
		scores[i] = MASKED;
}

/* Lanes i and j of x belong to the same row when i % R == j % R. */
INLINE void by_row(const int R, V x, int max, float *out)
{
	float lane[LANES];
	v_store(lane, x);
	for (int r = 0; r < R; r++)
		out[r] = lane[r];
	for (int i = R; i < LANES; i++)
		out[i % R] = !max                   ? out[i % R] + lane[i]
			     : lane[i] > out[i % R] ? lane[i]
						    : out[i % R];
}

/* Raises the maxima m, and rescales the sums made with the old ones. */
INLINE void raise_maxima(const int R, const float *top, float *m, float *l, float *o)
{
	for (int r = 0; r < R; r++) {
		if (!(top[r] > m[r]))
			continue;
		const float shrink = exp2_of(m[r] - top[r]);
		m[r] = top[r];
		l[r] *= shrink;
		for (int d = 0; d < DP; d += LANES)
			v_store(o + r * DP + d, v_set(shrink) * v_load(o + r * DP + d));
	}
}

INLINE void weights(const int R, float *scores, int n, float *m, float *l, float *o)
{
	float top[4], lane[LANES], sum_of[4];
	V most = v_load(scores), sum = v_set(0);
	for (int i = LANES; i < n * R; i += LANES)
		most = v_max(most, v_load(scores + i));
	by_row(R, most, 1, top);
	raise_maxima(R, top, m, l, o);
	for (int i = 0; i < LANES; i++)
		lane[i] = m[i % R];
	most = v_load(lane);
	for (int i = 0; i < n * R; i += LANES) {
		const V e = v_exp2(v_load(scores + i) - most);
		v_store(scores + i, e);
		sum += e;
	}
	by_row(R, sum, 0, sum_of);
	for (int r = 0; r < R; r++)
		l[r] += sum_of[r];
}

/* ---- o += S v ------------------------------------------------------------------ */

/* P pairs of columns from d on, `n` elements wide. */
INLINE void weigh_columns(const int R, const int P, int ahead, const struct step *s,
			  const float *scores, float *o, int d, int n)
{
	V acc[ACCS];
	foreach (j, R * P * 2)
		acc[j] = v_load(o + j / (P * 2) * DP + d + j % (P * 2) * LANES);
	for (int i = 0; i < s->n; i++) {
		V x[8]; /* constant size, to stay in registers */
		if (ahead)
			prefetch(s->v[i + ahead] + d * KV_BYTES, n * KV_BYTES);
		foreach (p, P)
			load_pair(s->v[i] + (d + p * PAIR) * KV_BYTES, min_int(n, PAIR), &x[2 * p],
				  &x[2 * p + 1]);
		foreach (r, R) {
			const V weight = v_set(scores[i * R + r]);
			foreach (j, P * 2)
				acc[r * P * 2 + j] = v_fma(weight, x[j], acc[r * P * 2 + j]);
		}
	}
	foreach (j, R * P * 2)
		v_store(o + j / (P * 2) * DP + d + j % (P * 2) * LANES, acc[j]);
}

INLINE void weigh(const int R, int ahead, const struct step *s, const float *scores, float *o)
{
	const int most = ACCS / R / 2 < 4 ? ACCS / R / 2 : 4, P = most < PAIRS ? most : PAIRS;
	int d = 0;
	if (PAIRS) {
		for (; d + P * PAIR <= PAIRS * PAIR; d += P * PAIR)
			weigh_columns(R, P ? P : 1, ahead, s, scores, o, d, P * PAIR);
		for (; d < PAIRS * PAIR; d += PAIR)
			weigh_columns(R, 1, ahead, s, scores, o, d, PAIR);
	}
	if (TAIL)
		weigh_columns(R, 1, ahead, s, scores, o, d, TAIL);
}

/* ---- tiles --------------------------------------------------------------------- */

/* R rows from `row` on. Only the first rows of a head prefetch, by a branch at each key; a copy of
 * the code for a constant `ahead` was not faster. */
INLINE void attend(const struct cell *c, const int R, int ahead, const struct step *s, int row)
{
	float scores[(TILE_SIZE + ACCS) * 4] __attribute__((aligned(64)));
	float *o = c->o + row * DP;
	const int n = (s->n + ACCS / R - 1) / (ACCS / R) * (ACCS / R);
	const int masked = s->first < c->clear_lo || s->first + s->n > c->clear_hi;
	dots(R, ahead, s, c->q + row * DP, scores);
	if (n > s->n || masked || c->a->softcap > 0 || c->a->alibi_slopes)
		bias_and_mask(c, R, s, c->row + row, scores, n);
	weights(R, scores, n, c->m + row, c->l + row, o);
	weigh(R, ahead, s, scores, o);
}

static void attend_head(const struct cell *c, const struct step *s, int head)
{
	int row = 0, base = head * c->stride;
	for (; c->rows - row > 2; row += 4)
		attend(c, 4, row ? 0 : AHEAD, s, base + row);
	if (c->rows - row == 2)
		attend(c, 2, row ? 0 : AHEAD, s, base + row);
	if (c->rows - row == 1)
		attend(c, 1, row ? 0 : AHEAD, s, base + row);
}

struct list {
	long long k[TILE_SIZE], v[TILE_SIZE];
	int n;
};

static void list_tile(const struct cell *c, int first, struct list *l)
{
	const int n = min_int(TILE_SIZE, c->hi - first);
	l->n = n;
	if (n == TILE_SIZE)
		list_keys(c->a, &c->b, first, n, n / STREAMS, STREAMS, l->k, l->v);
	else if (n > 0)
		list_keys(c->a, &c->b, first, n, n, 1, l->k, l->v);
}

/* Fills entries at .. at + most - 1 of the step from the list, for one KV head. Entries beyond the
 * list's end are copies of its last. */
INLINE void list_step(const struct cell *c, struct step *s, int at, const struct list *l, int most,
		      int head)
{
	const char *k =
	    (const char *)c->a->k_cache + (c->head + head) * c->a->k_head_stride * KV_BYTES;
	const char *v =
	    (const char *)c->a->v_cache + (c->head + head) * c->a->v_head_stride * KV_BYTES;
	const int n = min_int(l->n, most);
	for (int i = 0; i < n; i++) {
		s->k[at + i] = k + l->k[i];
		s->v[at + i] = v + l->v[i];
	}
	for (int i = max_int(n, 0); i < most; i++) {
		s->k[at + i] = s->k[at + i - 1];
		s->v[at + i] = s->v[at + i - 1];
	}
}

static void attend_keys(const struct cell *c)
{
	struct list lists[2];
	struct step s;
	int now = 0;
	list_tile(c, c->lo, &lists[0]);
	for (s.first = c->lo; s.first < c->hi; s.first += TILE_SIZE, now ^= 1) {
		const struct list *tile = &lists[now], *next = &lists[!now];
		list_tile(c, s.first + TILE_SIZE, &lists[!now]);
		s.n = tile->n;
		s.whole = s.n == TILE_SIZE;
		for (int h = 0; h < c->heads; h++) {
			const int last = h + 1 == c->heads;
			list_step(c, &s, 0, tile, s.n, h);
			list_step(c, &s, s.n, last ? next : tile, STEP - TILE_SIZE,
				  last ? 0 : h + 1);
			attend_head(c, &s, h);
		}
	}
}

/* ---- rows in and out ------------------------------------------------------------ */

/* Moves elements of a head between their own order and pair order: 0 2 4 .. 1 3 5 .., in which bf16
 * pairs are unpacked. */
INLINE int in_pairs(int d)
{
	const int i = d % PAIR;
	return KV_DTYPE == BF16 ? d - i + i / 2 + i % 2 * LANES : d;
}

static void begin_row(const struct cell *c, int head, int r)
{
	const struct attune_args *a = c->a;
	const int at = head * c->stride + r;
	float q[D + LANES], *to = c->q + at * DP;
	memset(to, 0, DP * sizeof *to);
	memset(c->o + at * DP, 0, DP * sizeof *c->o);
	c->m[at] = LOWEST;
	c->l[at] = 0;
	c->row[at] = (struct row){ 0 };
	if (r >= c->rows)
		return;
	const int token = c->b.first + (c->begin + r) / a->group;
	const int query_head = (c->head + head) * a->group + (c->begin + r) % a->group;
	struct row *row = &c->row[at];
	visible(a, &c->b, token, &row->lo, &row->hi);
	row->at = position(&c->b, token);
	row->slope = a->alibi_slopes ? a->alibi_slopes[query_head] * LOG2E : 0;
	if (a->sinks && a->segments == 1) {
		c->m[at] = a->sinks[query_head] * LOG2E;
		c->l[at] = 1;
	}
	q_load(q, q_row(a, &c->b, token, query_head), q_factor(a));
	for (int d = 0; d < D; d++)
		to[in_pairs(d)] = q[d];
}

static void end_row(const struct cell *c, int head, int r)
{
	const struct attune_args *a = c->a;
	const int at = head * c->stride + r;
	const int token = c->b.first + (c->begin + r) / a->group;
	const int query_head = (c->head + head) * a->group + (c->begin + r) % a->group;
	const float share = c->l[at] > 0 ? 1 / c->l[at] : 0;
	float o[D + LANES];
	for (int d = 0; d < D; d++)
		o[d] = c->o[at * DP + in_pairs(d)];
	if (a->segments == 1) {
		out_store(out_row(a, &c->b, token, query_head), o, share);
		return;
	}
	const long long row = (long long)(c->b.seq - a->seq_begin) * a->max_query + token;
	const long long p = (row * a->num_query_heads + query_head) * a->segments + c->segment;
	a->partial_ml[2 * p] = c->m[at];
	a->partial_ml[2 * p + 1] = c->l[at];
	for (int d = 0; d < D; d++)
		a->partial_out[p * D + d] = o[d] * share;
}

/* Deals tiles to segments evenly: their numbers differ by at most one. */
static void take_segment(struct cell *c)
{
	int lo, hi;
	visible_to_block(c->a, &c->b, &lo, &hi);
	const long long tiles = (hi - lo + TILE_SIZE - 1) / TILE_SIZE;
	c->lo = lo + (int)(tiles * c->segment / c->a->segments) * TILE_SIZE;
	c->hi = min_int(hi, lo + (int)(tiles * (c->segment + 1) / c->a->segments) * TILE_SIZE);
}

static void run_cell(struct cell *c)
{
	for (int h = 0; h < c->heads; h++)
		for (int r = 0; r < c->stride; r++)
			begin_row(c, h, r);
	c->clear_lo = c->lo;
	c->clear_hi = c->hi;
	for (int r = 0; r < c->rows; r++) {
		c->clear_lo = max_int(c->clear_lo, c->row[r].lo);
		c->clear_hi = min_int(c->clear_hi, c->row[r].hi);
	}
	attend_keys(c);
	for (int h = 0; h < c->heads; h++)
		for (int r = 0; r < c->rows; r++)
			end_row(c, h, r);
}

void ENTRY(const struct attune_args *a, int x, int y, int z)
{
	float q[ROOM * DP] __attribute__((aligned(64))), o[ROOM * DP] __attribute__((aligned(64)));
	float m[ROOM], l[ROOM];
	struct row row[ROOM];
	struct cell c = { .a = a, .segment = x, .q = q, .o = o, .m = m, .l = l, .row = row };
	const int first = WHOLE_PAGES ? 0 : y, end = WHOLE_PAGES ? a->num_kv_heads : y + 1;
	if (!find_block(&c.b, a, z, max_int(1, MAX_ROWS / a->group)))
		return;
	take_segment(&c);
	const int rows = c.b.count * a->group;
	for (c.begin = 0; c.begin < rows; c.begin += MAX_ROWS) {
		c.rows = min_int(MAX_ROWS, rows - c.begin);
		c.stride = c.rows + (c.rows % 4 == 3);
		const int most = max_int(1, MAX_ROWS / c.stride);
		for (c.head = first; c.head < end; c.head += c.heads) {
			c.heads = min_int(most, end - c.head);
			run_cell(&c);
		}
	}
}
