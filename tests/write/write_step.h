/* SPDX-License-Identifier: Apache-2.0 */
/* write_step.h - a step whose K and V are written into a cache, in many layouts, and the plain loop that
 * says what the cache must then have. Include after cmocka.h. */
#ifndef TESTS_WRITE_WRITE_STEP_H
#define TESTS_WRITE_WRITE_STEP_H

#include "kernels/launch/run.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/gpu_here.h"

enum { POISON = 0xa5, MOST_SEQS = 16, PAGES = 40 };

/* The order of a cache's dimensions, outermost first: Page, Slot, Head. A small letter: its stride has
 * a gap. */
static const struct layout {
	const char *name, *order;
	int packed;  /* K and V of a slot are one row, as in vLLM from 0.26 on */
	int reverse; /* heads are from the last to the first */
	int classic;
} layouts[] = {
	{ "NHD", "PSH", 0, 0, 0 },
	{ "HND", "PHS", 0, 0, 0 },
	{ "slots outermost", "SPH", 0, 0, 0 },
	{ "heads outermost", "HPS", 0, 0, 0 },
	{ "packed NHD", "PSH", 1, 0, 0 },
	{ "packed HND", "PHS", 1, 0, 0 },
	{ "packed, heads outermost", "HPS", 1, 0, 0 },
	{ "with gaps", "psh", 0, 0, 0 },
	{ "heads in reverse", "PHs", 0, 1, 0 },
	{ "classic", "PH", 0, 0, 1 },
};

struct row {
	const char *name;
	enum attune_dtype dtype, kv_dtype;
	int heads, head_size, page_size, layout;
	int by_slots;
	const char *scales; /* of E4M3: none, one, heads, seqs */
	int every;          /* rows have each of 65536 bit patterns */
};

static struct device dev;
static unsigned state_of_random;

static unsigned below(unsigned n)
{
	state_of_random = state_of_random * 1664525u + 1013904223u;
	return (state_of_random >> 8) % n;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- numbers ------------------------------------------------------------------------------ */

static float from_bf16(uint16_t h)
{
	const uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static float from_f16(uint16_t h)
{
	const int exponent = h >> 10 & 31, fraction = h & 1023;
	const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
			   : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
					  : ldexpf((float)fraction, -24);
	return h >> 15 ? -size : size;
}

static double e4m3_value(int code)
{
	const int exponent = code >> 3, fraction = code & 7;
	return exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
}

/* The nearest of all finite values; of two the one with an even code. */
static unsigned char to_e4m3(float x)
{
	const unsigned char sign = signbit(x) ? 0x80 : 0;
	const double size = fabs((double)x);
	int code = 0;
	if (isnan(x))
		return 0x7f;
	while (code < 0x7e && e4m3_value(code + 1) <= size)
		code++;
	if (code < 0x7e) {
		const double down = size - e4m3_value(code), up = e4m3_value(code + 1) - size;
		code += up < down || (up == down && code % 2);
	}
	return (unsigned char)(sign | code);
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Host copies of what the device has. */
struct step {
	attune_shape shape;
	struct layout layout;
	attune_tensors t;
	int num_seqs, num_tokens, table_stride;
	int query_start[MOST_SEQS + 1], seq_lens[MOST_SEQS];
	int *table;
	int64_t *slots; /* or NULL */
	unsigned char *rows, *cache, *got;
	float *scales;
	size_t row_bytes, cache_bytes, num_scales;
	size_t k_at, v_at; /* elements: where K and V begin in the cache */
	size_t v_new_at;   /* elements: where V begins in the rows */
	void *on_device[8];
	int num_on_device;
};

/* Strides of the cache; returns its elements. */
static long long lay(struct step *s)
{
	const attune_shape *of = &s->shape;
	const int n[] = { PAGES, of->page_size, of->num_kv_heads };
	const int gap = of->kv_dtype == ATTUNE_E4M3 ? 16 : 8;
	int64_t stride[3] = { 0 }, next = (long long)of->head_size * (s->layout.packed ? 2 : 1);
	if (s->layout.classic)
		next *= of->page_size;
	for (int i = (int)strlen(s->layout.order) - 1; i >= 0; i--) {
		const char letter = s->layout.order[i];
		const int dimension = letter == 'P' || letter == 'p'   ? 0
				      : letter == 'S' || letter == 's' ? 1
								       : 2;
		next += letter >= 'a' ? gap : 0;
		stride[dimension] = next;
		next *= n[dimension];
	}
	s->k_at = (size_t)(s->layout.reverse ? stride[2] * (n[2] - 1) : 0);
	s->v_at = s->layout.packed ? (size_t)of->head_size : (size_t)next + s->k_at;
	if (s->layout.reverse)
		stride[2] = -stride[2];
	s->t.k_page_stride = s->t.v_page_stride = stride[0];
	s->t.k_slot_stride = s->t.v_slot_stride = stride[1];
	s->t.k_head_stride = s->t.v_head_stride = stride[2];
	return s->layout.packed ? next : 2 * next;
}

/* Lengths with empty queries, queries that are longer than their sequence, and no page twice. */
static void draw_lengths(struct step *s)
{
	static const struct {
		int query, seq;
	} v[] = {
		{ 1, 9 }, { 0, 12 }, { 1, 1 }, { 17, 30 }, { 0, 0 }, { 5, 3 }, { 1, 33 }, { 4, 0 }
	};
	const int most = PAGES / (int)COUNT(v) * s->shape.page_size;
	int page[PAGES];
	for (int i = 0; i < PAGES; i++)
		page[i] = i;
	for (int i = PAGES - 1; i > 0; i--) {
		const int j = (int)below((unsigned)i + 1), keep = page[i];
		page[i] = page[j];
		page[j] = keep;
	}
	s->num_seqs = COUNT(v);
	s->table_stride = PAGES / (int)COUNT(v);
	for (int i = 0; i < s->num_seqs; i++) {
		s->seq_lens[i] = v[i].seq < most ? v[i].seq : most;
		s->query_start[i + 1] = s->query_start[i] + v[i].query;
	}
	s->num_tokens = s->query_start[s->num_seqs] + 3; /* the last three are padding */
	s->table = malloc(sizeof page);
	assert_non_null(s->table);
	memcpy(s->table, page, sizeof page);
}

/* Distinct slots; a quarter of them negative, unless each token counts. */
static void draw_slots(struct step *s, int every)
{
	const int n = s->num_tokens, all = PAGES * s->shape.page_size;
	char *taken = calloc((size_t)all, 1);
	s->slots = malloc((size_t)n * sizeof *s->slots);
	assert_true(taken && s->slots);
	for (int i = 0; i < n; i++) {
		int slot = (int)below((unsigned)all);
		while (taken[slot])
			slot = (slot + 1) % all;
		taken[slot] = 1;
		s->slots[i] = every || below(4) ? slot : i % 2 ? -1 : INT64_MIN + slot;
	}
	free(taken);
}

/* Rows as a fused projection leaves them: q, K and V of a token side by side. */
static void draw_rows(struct step *s, int every)
{
	const size_t half = sizeof(uint16_t);
	const int row = s->shape.num_kv_heads * s->shape.head_size;
	const int bytes = dtype_bytes(s->shape.dtype);
	s->t.k_new_token_stride = s->t.v_new_token_stride = 3ll * row;
	s->t.k_new_head_stride = s->t.v_new_head_stride = s->shape.head_size;
	s->v_new_at = (size_t)row * 2;
	s->row_bytes = (size_t)s->num_tokens * (size_t)row * 3 * (size_t)bytes;
	s->rows = malloc(s->row_bytes);
	assert_non_null(s->rows);
	for (size_t i = 0; i < s->row_bytes; i++)
		s->rows[i] = (unsigned char)below(256);
	for (size_t i = 0; every && i < s->row_bytes / half; i++) {
		const uint16_t h =
		    (uint16_t)(i / (3 * (size_t)row) * (size_t)row + i % (size_t)row);
		memcpy(s->rows + i * half, &h, half);
	}
}

/* Of K, then of V; `stride`s as told. Also powers of two and large ones. */
static void draw_scales(struct step *s, const char *which)
{
	static const float values[] = { 1, 0.37f, 0.0078125f, 2.5f, 49, 1e-5f, 3 };
	const int heads = s->shape.num_kv_heads, by_seq = !strcmp(which, "seqs");
	if (!strcmp(which, "none"))
		return;
	s->num_scales = (size_t)(by_seq ? s->num_seqs * heads : strcmp(which, "one") ? heads : 1);
	s->scales = malloc(2 * s->num_scales * sizeof *s->scales);
	assert_non_null(s->scales);
	for (size_t i = 0; i < 2 * s->num_scales; i++)
		s->scales[i] = values[(i + 1) % COUNT(values)];
	s->t.k_scale_seq_stride = s->t.v_scale_seq_stride = by_seq ? heads : 0;
	s->t.k_scale_head_stride = s->t.v_scale_head_stride = s->num_scales > 1 ? 1 : 0;
}

static void *give(struct step *s, const void *host, size_t bytes)
{
	void **to = &s->on_device[s->num_on_device++];
	assert_true(s->num_on_device <= (int)COUNT(s->on_device));
	ok(dev.ops->alloc(&dev, to, bytes));
	ok(dev.ops->put(&dev, *to, host, bytes));
	return *to;
}

/* To the device. */
static const int64_t *step_give(struct step *s)
{
	const size_t kv = (size_t)dtype_bytes(s->shape.kv_dtype);
	const size_t q = (size_t)dtype_bytes(s->shape.dtype);
	memset(s->cache, POISON, s->cache_bytes);
	char *cache = give(s, s->cache, s->cache_bytes), *rows_ = give(s, s->rows, s->row_bytes);
	s->t.size = sizeof s->t;
	s->t.k_cache = cache + s->k_at * kv;
	s->t.v_cache = cache + s->v_at * kv;
	s->t.k_new = rows_;
	s->t.v_new = rows_ + s->v_new_at * q;
	s->t.block_table = give(s, s->table, PAGES * sizeof *s->table);
	s->t.block_table_stride = s->table_stride;
	s->t.query_start = give(s, s->query_start, sizeof s->query_start);
	s->t.seq_lens = give(s, s->seq_lens, sizeof s->seq_lens);
	if (s->scales) {
		s->t.k_scale = give(s, s->scales, 2 * s->num_scales * sizeof *s->scales);
		s->t.v_scale = s->t.k_scale + s->num_scales;
	}
	return s->slots ? give(s, s->slots, (size_t)s->num_tokens * sizeof *s->slots) : NULL;
}

static void step_make(struct step *s, const struct row *r)
{
	memset(s, 0, sizeof *s);
	s->layout = layouts[r->layout];
	s->shape =
	    (attune_shape){ .size = sizeof s->shape,
			    .num_query_heads = r->heads,
			    .num_kv_heads = r->heads,
			    .head_size = r->head_size,
			    .page_size = r->page_size,
			    .dtype = r->dtype,
			    .kv_dtype = r->kv_dtype,
			    .kv_layout = s->layout.classic ? ATTUNE_KV_CLASSIC : ATTUNE_KV_STRIDED,
			    .causal = 1 };
	s->cache_bytes = (size_t)(lay(s) * dtype_bytes(r->kv_dtype));
	s->cache = malloc(s->cache_bytes);
	s->got = malloc(s->cache_bytes);
	assert_true(s->cache && s->got);
	draw_lengths(s);
	if (r->every)
		s->num_tokens = 65536 / (r->heads * r->head_size);
	if (r->by_slots)
		draw_slots(s, r->every);
	draw_rows(s, r->every);
	if (r->scales)
		draw_scales(s, r->scales);
}

static void step_free(struct step *s)
{
	for (int i = 0; i < s->num_on_device; i++)
		dev.ops->release(&dev, s->on_device[i]);
	free(s->table);
	free(s->slots);
	free(s->rows);
	free(s->cache);
	free(s->got);
	free(s->scales);
}

/* ---- the plain loop ------------------------------------------------------------------------ */

static int seq_of(const struct step *s, int token)
{
	for (int i = 0; i < s->num_seqs; i++)
		if (token >= s->query_start[i] && token < s->query_start[i + 1])
			return i;
	return -1;
}

static int64_t slot_of(const struct step *s, int token)
{
	const int seq = seq_of(s, token), page_size = s->shape.page_size;
	if (s->slots)
		return s->slots[token];
	const int at = seq < 0 ? -1 : s->seq_lens[seq] - (s->query_start[seq + 1] - token);
	if (at < 0)
		return -1;
	return (int64_t)s->table[seq * s->table_stride + at / page_size] * page_size +
	       at % page_size;
}

/* Element d of a slot and head, in elements from the beginning of K or V. */
static int64_t element_at(const struct step *s, int64_t slot, int head, int d, int is_v)
{
	const int page_size = s->shape.page_size, x = 16 / dtype_bytes(s->shape.kv_dtype);
	const int64_t at = slot / page_size * s->t.k_page_stride + head * s->t.k_head_stride;
	const int64_t in_page = slot % page_size;
	if (!s->layout.classic)
		return at + in_page * s->t.k_slot_stride + d;
	return at + (is_v ? d * page_size + in_page : (d / x * page_size + in_page) * x + d % x);
}

static void write_element(struct step *s, int token, int64_t slot, int head, int d, int is_v)
{
	const attune_shape *of = &s->shape;
	const size_t bytes = (size_t)dtype_bytes(of->dtype);
	const int64_t from = token * s->t.k_new_token_stride + head * s->t.k_new_head_stride + d;
	const unsigned char *x = s->rows + ((is_v ? s->v_new_at : 0) + (size_t)from) * bytes;
	unsigned char *to =
	    s->cache + (int64_t)((is_v ? s->v_at : s->k_at) * (size_t)dtype_bytes(of->kv_dtype));
	to += element_at(s, slot, head, d, is_v) * dtype_bytes(of->kv_dtype);
	if (of->kv_dtype == of->dtype) {
		memcpy(to, x, bytes);
		return;
	}
	const int seq = seq_of(s, token);
	const float *scales = s->scales ? s->scales + (is_v ? s->num_scales : 0) : NULL;
	const float scale =
	    !scales ? 1
		    : scales[(s->t.k_scale_seq_stride ? seq : 0) * s->t.k_scale_seq_stride +
			     head * s->t.k_scale_head_stride];
	uint16_t h;
	memcpy(&h, x, sizeof h);
	*to = to_e4m3((of->dtype == ATTUNE_F16 ? from_f16(h) : from_bf16(h)) / scale);
}

static void write_plainly(struct step *s)
{
	for (int token = 0; token < s->num_tokens; token++) {
		const int64_t slot = slot_of(s, token);
		/* a scale of a sequence is for its tokens: padding behind all queries has none */
		if (slot < 0 || (s->t.k_scale_seq_stride && seq_of(s, token) < 0))
			continue;
		for (int i = 0; i < s->shape.num_kv_heads * s->shape.head_size * 2; i++)
			write_element(s, token, slot, i / 2 / s->shape.head_size,
				      i / 2 % s->shape.head_size, i % 2);
	}
}

#endif
