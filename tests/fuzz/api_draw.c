/* SPDX-License-Identifier: Apache-2.0 */
/* api_draw.c - dice, and what a case is drawn from: shapes and lengths. */
#include "api.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- dice -------------------------------------------------------------------------------- */

struct dice dice_of(uint64_t seed, enum where where)
{
	return (struct dice){ seed * NUM_WHERE + where };
}

/* splitmix64: every seed gives another sequence. */
uint64_t roll(struct dice *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

int below(struct dice *d, int n)
{
	return (int)(roll(d) % (uint64_t)n);
}

int between(struct dice *d, int low, int high)
{
	return low + below(d, high - low + 1);
}

int one_in(struct dice *d, int n)
{
	return !below(d, n);
}

float noise(struct dice *d)
{
	return (float)(int)(roll(d) >> 40) / 8388608.f - 1.f;
}

int pick_int(struct dice *d, const int *v, size_t n)
{
	return v[below(d, (int)n)];
}

/* ---- shapes ------------------------------------------------------------------------------ */

/* What the library carries: so many of these, and on the CPU so many types from F32 on. */
static const int head_sizes[] = { 64, 128, 256, 16, 32, 80, 96, 192 };
#ifdef LIBRARY_ALONE
enum { CPU_HEADS = 1, CPU_TYPES = 1 };
#else
enum { CPU_HEADS = 8, CPU_TYPES = 3 };
#endif
static const int num_head_sizes[NUM_WHERE] = {
	[ON_CPU] = CPU_HEADS, [ON_H200] = 8, [ON_MI300X] = 5
};

static void draw_heads(struct dice *d, enum where where, attune_shape *s)
{
	const int most = where == ON_CPU ? 144 : one_in(d, 6) ? 72 : 12;
	const int group = one_in(d, 3) ? between(d, 1, 71) : between(d, 1, 8);
	s->size = sizeof *s;
	s->num_kv_heads = PICK(d, 1, 1, 1, 2, 2, 3, 4, 8);
	while (s->num_kv_heads > 1 && s->num_kv_heads * group > most)
		s->num_kv_heads--;
	s->num_query_heads = s->num_kv_heads * (group < most ? group : most);
}

static int draw_page_size(struct dice *d)
{
	if (one_in(d, 3))
		return between(d, 1, 130);
	if (one_in(d, 20))
		return PICK(d, 1056, 784, 528, 1040, 2048, 4096, 65536, 1031);
	return PICK(d, 8, 16, 16, 16, 32, 64, 128, 256, 1, 2, 4, 24, 48);
}

static int draw_window(struct dice *d)
{
	switch (below(d, 5)) {
	case 0: return between(d, 1, 4);
	case 1: return between(d, 1, 5000);
	case 2:
		return PICK(d, INT_MAX, INT_MAX - 1, 1 << 29, (1 << 29) + 1, (1 << 29) - 1,
			    1 << 30);
	default: return between(d, 5, 300);
	}
}

/* Queries are made to fit it, so that scores stay of a size where fp32 is exact enough. */
static float draw_scale(struct dice *d)
{
	if (one_in(d, 4))
		return ldexpf(1, between(d, -126, 120));
	return ldexpf(1.f + fabsf(noise(d)), between(d, -12, 2));
}

void draw_shape(struct dice *d, enum where where, attune_shape *s)
{
	memset(s, 0, sizeof *s);
	draw_heads(d, where, s);
	s->head_size = head_sizes[below(d, num_head_sizes[where])];
	s->page_size = draw_page_size(d);
	s->dtype = where == ON_CPU ? (enum attune_dtype)below(d, CPU_TYPES)
				   : (enum attune_dtype)between(d, ATTUNE_F16, ATTUNE_BF16);
	s->kv_dtype = where != ON_CPU && one_in(d, 4) ? ATTUNE_E4M3 : s->dtype;
	s->causal = !one_in(d, 4);
	s->window = one_in(d, 3) ? draw_window(d) : 0;
	s->scale = one_in(d, 4) ? draw_scale(d) : 0;
	s->softcap = !one_in(d, 4) ? 0 : one_in(d, 3) ? ldexpf(1e-4f, between(d, 0, 23)) : 30;
	if (s->softcap > 0 && s->scale / s->softcap > 0x1p120f)
		s->scale = 0;
	s->has_sinks = one_in(d, 4);
	s->sinks_dtype = s->has_sinks ? (enum attune_dtype)below(d, ATTUNE_BF16 + 1) : 0;
	s->has_alibi = one_in(d, 4);
	s->has_new_kv = one_in(d, 5);
	s->has_lse = one_in(d, 4);
	if (where != ON_CPU && one_in(d, 10))
		s->kv_layout = ATTUNE_KV_CLASSIC;
}

static int has_code_for(enum where where, const attune_shape *s)
{
	if (where == ON_CPU ? (int)s->dtype >= CPU_TYPES : s->dtype == ATTUNE_F32)
		return 0;
	for (int i = 0; i < num_head_sizes[where]; i++)
		if (head_sizes[i] == s->head_size)
			return 1;
	return 0;
}

/* As attune.h words its limits. */
static int is_valid(const attune_shape *s)
{
	const float scale = s->scale;
	return s->num_kv_heads >= 1 && s->num_query_heads >= 1 && s->num_query_heads <= 65535 &&
	       s->num_query_heads % s->num_kv_heads == 0 && s->page_size >= 1 && s->window >= 0 &&
	       (unsigned)s->dtype <= ATTUNE_BF16 && (unsigned)s->kv_dtype <= ATTUNE_E4M3 &&
	       (unsigned)s->kv_layout <= ATTUNE_KV_CLASSIC &&
	       !(s->kv_dtype == ATTUNE_E4M3 && s->dtype == ATTUNE_F32) &&
	       (scale == 0 || (scale >= 0x1p-126f && scale <= 0x1p120f)) &&
	       (s->softcap == 0 ||
		(s->softcap >= 1e-4f && s->softcap <= 1000 && scale / s->softcap <= 0x1p120f));
}

enum promise promise_of(enum where where, const attune_shape *s)
{
	if (!is_valid(s))
		return IS_INVALID;
	if (!has_code_for(where, s) || s->page_size > 65536 || s->dtype != s->kv_dtype ||
	    s->kv_layout != ATTUNE_KV_STRIDED || (s->has_lse && where != ON_CPU))
		return MAY_BE_REFUSED;
	return IS_SUPPORTED;
}

/* ---- lengths ----------------------------------------------------------------------------- */

/* What a batch may cost: elements of the cache, and multiplications. */
struct budget {
	double elements, products;
};

static int draw_query(struct dice *d, int most)
{
	switch (below(d, 8)) {
	case 0: return between(d, 2, 8);
	case 1: return between(d, 9, most < 40 ? most : 40);
	case 2: return between(d, 9, most);
	case 3: return PICK(d, 0, 0, 8, 9, 16, 17);
	default: return 1;
	}
}

static int draw_seq(struct dice *d, const attune_shape *s, int query, int most)
{
	const int page = s->page_size;
	switch (below(d, 8)) {
	case 0: return query;
	case 1: return below(d, query + 2); /* often shorter than the query */
	case 2: return query + between(d, 0, most);
	case 3: return (query + between(d, 0, 300)) / page * page + PICK(d, -1, 0, 1);
	case 4: return query + between(d, 0, 3 * (page < 400 ? page : 400));
	default: return query + between(d, 0, 600);
	}
}

static int fits(struct budget *left, const attune_shape *s, int query, int seq)
{
	const double pages = (seq + s->page_size - 1) / s->page_size;
	const double size = s->head_size;
	left->elements -= pages * s->page_size * s->num_kv_heads * size;
	left->products -= 2. * query * seq * s->num_query_heads * size;
	left->products -= 2. * query * s->num_query_heads * size;
	return left->elements > 0 && left->products > 0;
}

void draw_lengths(struct dice *d, enum where where, const attune_shape *s, struct lengths *l)
{
	const int is_cpu = where == ON_CPU;
	struct budget left = { is_cpu ? 3e6 : 5e5, is_cpu ? one_in(d, 10) ? 1e9 : 2e8 : 8e6 };
	const int wanted = one_in(d, 3) ? between(d, 0, is_cpu ? MOST_SEQS : 8) : between(d, 1, 4);
	memset(l, 0, sizeof *l);
	for (int tries = 0; l->n < wanted && tries < 2 * MOST_SEQS; tries++) {
		struct budget rest = left;
		const int query = draw_query(d, is_cpu ? 300 : 70);
		int seq = draw_seq(d, s, query, is_cpu ? 5000 : 900);
		seq = seq < 0 ? 0 : seq;
		if (!fits(&rest, s, query, seq))
			continue;
		left = rest;
		l->query[l->n] = query;
		l->seq[l->n++] = seq;
	}
}

void draw_below(struct dice *d, const struct lengths *from, struct lengths *l)
{
	*l = *from;
	for (int i = 0; i < l->n; i++) {
		const int query = l->query[i], seq = l->seq[i];
		if (one_in(d, 2))
			l->query[i] = one_in(d, 3) ? query > 0 : below(d, query + 1);
		if (one_in(d, 2))
			l->seq[i] = one_in(d, 2) ? below(d, seq + 1) : seq / 8;
		if (one_in(d, 8))
			l->query[i] = l->seq[i] = 0;
	}
}

void draw_similar(struct dice *d, const struct lengths *from, struct lengths *l)
{
	*l = *from;
	for (int i = 0; i < l->n; i++) {
		if (one_in(d, 2))
			l->seq[i] += PICK(d, -1, 1, 1, 2);
		l->seq[i] = l->seq[i] < 0 ? 0 : l->seq[i];
	}
	if (l->n > 1 && one_in(d, 3)) { /* two sequences change places */
		const int i = below(d, l->n), j = below(d, l->n), query = l->query[i],
			  seq = l->seq[i];
		l->query[i] = l->query[j];
		l->seq[i] = l->seq[j];
		l->query[j] = query;
		l->seq[j] = seq;
	}
}

/* ---- what is said of them ---------------------------------------------------------------- */

void note_shape(const attune_shape *s)
{
	note("shape { %d, %d, %d, %d, %s, %s, .causal = %d, .window = %d, .scale = %a, .softcap = "
	     "%a, .has_sinks = %d, .sinks_dtype = %d, .has_alibi = %d, .has_new_kv = %d, "
	     ".kv_layout = %d, .has_lse = %d }",
	     s->num_query_heads, s->num_kv_heads, s->head_size, s->page_size, dtype_name(s->dtype),
	     dtype_name(s->kv_dtype), s->causal, s->window, (double)s->scale, (double)s->softcap,
	     s->has_sinks, (int)s->sinks_dtype, s->has_alibi, s->has_new_kv, (int)s->kv_layout,
	     s->has_lse);
}

void note_lengths(const struct lengths *l)
{
	char text[MOST_SEQS * 16] = "";
	size_t n = 0;
	for (int i = 0; i < l->n && n < sizeof text; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%sq%ds%d", i ? "_" : "",
				      l->query[i], l->seq[i]);
	note("batch %s", l->n ? text : "of no sequences");
}
