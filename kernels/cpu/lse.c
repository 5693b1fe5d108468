/* SPDX-License-Identifier: Apache-2.0 */
/* lse.c - the LSE of each row, from q and K alone. The kernels that compute outputs do not keep their
 * sums; this is a second pass, of ops with LSE alone. The args have the LSE in the place of out.
 *
 * cell (x, y) = KV head x, Q block y of ROWS / group tokens, at least 1. Rows (query token, query
 * head of the group) go four at a time through tiles of keys: scores S[key][row]. */
#include "paged.h"

#ifndef ENTRY
#define ENTRY attune_kernel
#endif

enum { ROWS = 64, R = 4, TILE = 64, KEYS = ACCS / R, ROOM = TILE + KEYS };

struct row {
	int lo, hi, at;
	float slope; /* of ALiBi, in powers of two */
	float m, l;
};

struct cell {
	const struct attune_args *a;
	struct block b;
	int head, begin, rows; /* KV head; rows of the block */
	float *q;              /* [ROWS][D] */
	struct row *row;       /* [ROWS] */
	const char *k[ROOM];   /* keys first .. first + n - 1, then copies of the last */
	int first, n;
};

static void begin_rows(struct cell *c)
{
	const struct attune_args *a = c->a;
	for (int r = 0; r < (c->rows + R - 1) / R * R; r++) {
		const int at = c->begin + r, token = c->b.first + at / a->group;
		const int head = c->head * a->group + at % a->group;
		float q[D + LANES];
		c->row[r] = (struct row){ .m = LOWEST };
		memset(c->q + r * D, 0, D * sizeof *c->q);
		if (r >= c->rows)
			continue;
		visible(a, &c->b, token, &c->row[r].lo, &c->row[r].hi);
		c->row[r].at = position(&c->b, token);
		c->row[r].slope = a->alibi_slopes ? a->alibi_slopes[head] * LOG2E : 0;
		q_load(q, q_row(a, &c->b, token, head), q_factor(a));
		memcpy(c->q + r * D, q, D * sizeof *q);
	}
}

static void list_tile(struct cell *c)
{
	long long k[TILE], v[TILE];
	const char *cache = (const char *)c->a->k_cache + c->head * c->a->k_head_stride * KV_BYTES;
	list_keys(c->a, &c->b, c->first, c->n, c->n, 1, k, v);
	for (int i = 0; i < ROOM; i++)
		c->k[i] = cache + k[min_int(i, c->n - 1)];
}

INLINE void dot(const float *q, const char *const *k, int d, int n, V *acc)
{
	foreach (t, KEYS) {
		const V x = load_as(KV_DTYPE, k[t] + d * KV_BYTES, n);
		foreach (r, R) {
			V y = v_set(0);
			if (n == LANES)
				y = v_load(q + r * D + d);
			else
				memcpy(&y, q + r * D + d, (size_t)n * sizeof *q);
			acc[t * R + r] = v_fma(x, y, acc[t * R + r]);
		}
	}
}

/* Of KEYS keys and R rows */
INLINE void dots(const float *q, const char *const *k, float *scores)
{
	V acc[ACCS];
	foreach (j, ACCS)
		acc[j] = v_set(0);
	for (int d = 0; d < D / LANES * LANES; d += LANES)
		dot(q, k, d, LANES, acc);
	if (D % LANES)
		dot(q, k, D / LANES * LANES, D % LANES, acc);
	foreach (j, ACCS / LANES)
		v_store(scores + j * LANES, v_sums(acc + j * LANES));
}

static void bias_and_mask(const struct cell *c, const struct row *row, float *scores, int n)
{
	for (int i = 0; i < n * R; i += LANES)
		v_store(scores + i, soften(c->a, v_load(scores + i)));
	for (int i = 0; i < n; i++)
		for (int r = 0; r < R; r++) {
			const int key = c->first + i;
			scores[i * R + r] += row[r].slope * (float)(key - row[r].at);
			if (i >= c->n || key < row[r].lo || key >= row[r].hi)
				scores[i * R + r] = MASKED;
		}
}

/* Adds the weights of n keys to four rows' sums. Lanes i and j belong to one row where i % R == j % R. */
static void add_weights(struct row *row, const float *scores, int n)
{
	float lane[LANES];
	V most = v_load(scores), sum = v_set(0);
	for (int i = LANES; i < n * R; i += LANES)
		most = v_max(most, v_load(scores + i));
	v_store(lane, most);
	for (int r = 0; r < R; r++) {
		float top = row[r].m;
		for (int i = r; i < LANES; i += R)
			top = lane[i] > top ? lane[i] : top;
		row[r].l *= exp2_of(row[r].m - top);
		row[r].m = top;
	}
	for (int i = 0; i < LANES; i++)
		lane[i] = row[i % R].m;
	most = v_load(lane);
	for (int i = 0; i < n * R; i += LANES)
		sum += v_exp2(v_load(scores + i) - most);
	v_store(lane, sum);
	for (int i = 0; i < LANES; i++)
		row[i % R].l += lane[i];
}

/* log2 of a normal number: of its fraction, between 0.7 and 1.4, by the series of atanh. */
static double log2_of(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof x);
	int exponent = (int)(bits >> 52) - 1023;
	bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
	memcpy(&x, &bits, sizeof x);
	if (x > 1.41) {
		x /= 2;
		exponent++;
	}
	const double z = (x - 1) / (x + 1), s = z * z;
	return exponent +
	       2.8853900817779268 * z * (1 + s * (1. / 3 + s * (1. / 5 + s * (1. / 7 + s / 9))));
}

/* The row's LSE; the sink is added here, in natural units up to the largest float. */
static float lse_of(const struct row *row, const float *sink)
{
	const double log2e = 1.4426950408889634;
	const int has_sink = sink && *sink > -3.402823466e38f; /* the lowest float means none */
	const double at = has_sink ? *sink * log2e : 0;
	double top = row->m, sum = row->l;
	if (has_sink) {
		top = row->l > 0 && row->m > at ? row->m : at;
		sum = (row->l > 0 ? row->l * (double)exp2_of((float)(row->m - top)) : 0) +
		      exp2_of((float)(at - top));
	}
	return sum > 0 ? (float)((top + log2_of(sum)) / log2e) : -__builtin_inff();
}

static void end_rows(const struct cell *c)
{
	const struct attune_args *a = c->a;
	for (int r = 0; r < c->rows; r++) {
		const int at = c->begin + r;
		const long long token = a->query_start[c->b.seq] + c->b.first + at / a->group;
		const int head = c->head * a->group + at % a->group;
		((float *)a->out)[token * a->out_token_stride + head * a->out_head_stride] =
		    lse_of(&c->row[r], a->sinks ? a->sinks + head : 0);
	}
}

/* Four rows over the tile */
static void attend(const struct cell *c, int row)
{
	float scores[ROOM * R] __attribute__((aligned(64)));
	struct row *rows = c->row + row;
	const int n = (c->n + KEYS - 1) / KEYS * KEYS;
	int lo = 0, hi = 0x7fffffff, seen = 0;
	for (int r = 0; r < R; r++) {
		lo = max_int(lo, rows[r].lo);
		hi = min_int(hi, rows[r].hi);
		seen |= rows[r].lo < c->first + c->n && rows[r].hi > c->first;
	}
	if (!seen)
		return;
	for (int i = 0; i < n; i += KEYS)
		dots(c->q + row * D, c->k + i, scores + i * R);
	if (n > c->n || c->first < lo || c->first + n > hi || c->a->softcap > 0 ||
	    c->a->alibi_slopes)
		bias_and_mask(c, rows, scores, n);
	add_weights(rows, scores, n);
}

void ENTRY(const struct attune_args *a, int x, int y, int z)
{
	float q[ROWS * D] __attribute__((aligned(64)));
	struct row row[ROWS];
	struct cell c = { .a = a, .head = x, .q = q, .row = row };
	int begin, end;
	(void)z;
	if (!find_block(&c.b, a, y, max_int(1, ROWS / a->group)))
		return;
	const int rows = c.b.count * a->group;
	visible_to_block(a, &c.b, &begin, &end);
	for (c.begin = 0; c.begin < rows; c.begin += ROWS) {
		c.rows = min_int(ROWS, rows - c.begin);
		begin_rows(&c);
		for (c.first = begin; c.first < end; c.first += TILE) {
			c.n = min_int(TILE, end - c.first);
			list_tile(&c);
			for (int r = 0; r < c.rows; r += R)
				attend(&c, r);
		}
		end_rows(&c);
	}
}
