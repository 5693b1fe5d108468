/* SPDX-License-Identifier: Apache-2.0 */
/* hard_world.h - batches at the limits of the interface. Every array has its exact size and ends at
 * memory that nobody may touch; the block table ends with its last live entry. Slots without a key and
 * table entries without a page hold NaN and invalid page numbers. Include after cmocka.h. The includer
 * defines guarded(): device memory of so many bytes that ends where the mapped memory ends. */
#ifndef TESTS_GUARD_HARD_WORLD_H
#define TESTS_GUARD_HARD_WORLD_H

#include "kernels/launch/run.h"
#include "harness/check/reference.h"
#include "kernels/spec/part.h"
#include <float.h>
#include <limits.h>
#include <math.h>

enum { HARD_POISON = 0xff, NO_PAGE = 0x40000000 };

static struct device dev;
static void *guarded(size_t bytes);
static void release_guarded(void);

/* ---- cases -------------------------------------------------------------------------------- */

enum values {
	NOISE,
	HUGE_SCORES,  /* queries and keys of 59904, some negative: exact products, logits to 4e10 */
	EQUAL_SCORES, /* the same logit for all keys, -7e6 */
	RAGGED,       /* noise; K and V lie token by token: pages begin at any token and overlap */
};

struct hard_case {
	const char *name;
	attune_shape s;
	enum values values;
	float sink; /* of all heads, where the shape has them; 0: noise */
	const char *batches[6];
};

#define BF16_HEADS(heads, kv_heads) \
	sizeof(attune_shape), heads, kv_heads, 64, 16, ATTUNE_BF16, ATTUNE_BF16
#define E4M3_HEADS(heads, kv_heads) \
	sizeof(attune_shape), heads, kv_heads, 64, 16, ATTUNE_BF16, ATTUNE_E4M3
#define F16_HEADS(heads, kv_heads) \
	sizeof(attune_shape), heads, kv_heads, 64, 16, ATTUNE_F16, ATTUNE_F16
// clang-format off
static const struct hard_case hard_cases[] = {
	{ "arrays end", { BF16_HEADS(8, 2), .causal = 1, .has_alibi = 1, .has_sinks = 1 }, NOISE, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q40s17_q9s80_q1s33", "q1s40_q1s0", "q2s0_q3s2" } },
	{ "arrays end, E4M3", { E4M3_HEADS(8, 2), .causal = 1 }, NOISE, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q40s17_q9s80_q1s33", "q140s170" } },
	{ "lone heads, E4M3, head 256", { sizeof(attune_shape), 2, 2, 256, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, NOISE, 0,
	  { "q140s170", "q1s40_q20s64" } },
	{ "keys in front of the window", { BF16_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q1s300_q3s77", "q140s300_q9s130", "q20s64_q1s64" } },
	{ "keys in front of the window, f16", { F16_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q140s300_q9s130" } },
	{ "keys in front of the window, E4M3", { E4M3_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q1s300_q3s77", "q140s300_q9s130" } },
	{ "the largest window, not causal", { BF16_HEADS(4, 2), .window = INT_MAX }, NOISE, 0,
	  { "q40s17_q9s3", "q2s1_q1s5_q8s3" } },
	{ "the largest window, causal", { BF16_HEADS(4, 2), .causal = 1, .window = INT_MAX - 1 }, NOISE, 0,
	  { "q40s17_q9s30", "q2s1_q1s5_q8s3" } },
	{ "sinks of -FLT_MAX", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1 }, NOISE, -FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of FLT_MAX", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1 }, NOISE, FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of FLT_MAX, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1, .has_lse = 1 }, NOISE, FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of -FLT_MAX, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1, .has_lse = 1 }, NOISE, -FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "huge scores", { BF16_HEADS(8, 2), .causal = 1 }, HUGE_SCORES, 0, { "q1s300_q3s40", "q40s170" } },
	{ "huge scores, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_lse = 1 }, HUGE_SCORES, 0, { "q1s300_q3s40", "q40s170" } },
	{ "equal scores, f16, window", { F16_HEADS(8, 2), .causal = 1, .window = 64, .scale = 1 }, EQUAL_SCORES, 0,
	  { "q1s300_q3s400", "q40s300" } },
	{ "softcap 50, logits of 1e4", { BF16_HEADS(4, 2), .causal = 1, .scale = 0x1p-24f, .softcap = 50 }, HUGE_SCORES, 0,
	  { "q1s300_q3s40", "q40s170" } },
	{ "rows without keys, no mask", { BF16_HEADS(4, 2), .has_sinks = 1 }, NOISE, 0, { "q5s0_q5s3_q2s300", "q40s17_q9s0_q9s3" } },
	{ "empty sequences beside long ones", { BF16_HEADS(4, 2), .causal = 1 }, NOISE, 0, { "q1s0_q1s900_2q0s5_q2s0_q1s1", "q0s100" } },
	{ "sinks of group 5", { BF16_HEADS(5, 1), .causal = 1, .has_sinks = 1 }, NOISE, 0, { "q1s70_q3s40", "q20s70_q1s40" } },
	{ "sinks of group 6", { BF16_HEADS(6, 1), .causal = 1, .has_sinks = 1 }, NOISE, 0, { "q1s70_q3s40", "q20s70_q1s40" } },
	{ "window 511, q257, E4M3", { E4M3_HEADS(2, 1), .causal = 1, .window = 511 }, NOISE, 0, { "q257s600", "q1s600_q4s520" } },
	{ "window 5, draft rows", { BF16_HEADS(4, 2), .causal = 1, .window = 5 }, NOISE, 0, { "q4s100_q8s64_q1s33", "q12s50" } },
	{ "ragged", { BF16_HEADS(8, 2), .causal = 1 }, RAGGED, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q40s17_q9s80_q1s33", "q140s170_q1s0", "q1s16_q3s15" } },
	{ "ragged, window, f16", { F16_HEADS(8, 2), .causal = 1, .window = 51 }, RAGGED, 0,
	  { "q50s500", "q1s300_q3s77", "q140s300_q9s130" } },
	{ "ragged, E4M3", { E4M3_HEADS(8, 2), .causal = 1 }, RAGGED, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q8s71" } },
	{ "ragged, pages of 1", { sizeof(attune_shape), 8, 2, 64, 1, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, RAGGED, 0,
	  { "q1s1", "5q1s130_q1s17", "q40s17_q9s80_q1s33", "q140s170_q1s0" } },
	{ "equal scores, f16", { F16_HEADS(8, 2), .causal = 1, .scale = 1 }, EQUAL_SCORES, 0, { "q1s900", "q40s400" } },
};
// clang-format on

static unsigned long long hard_seed;

static float hard_noise(void) /* -1 .. 1 */
{
	hard_seed = hard_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(hard_seed >> 40) / 8388608.f - 1.f;
}

/* An element of a query, or of key number `key`. */
static float hard_value(enum values how, int is_key, int key)
{
	if (how == HUGE_SCORES)
		return is_key && key % 3 == 0 ? -59904.f : 59904.f;
	if (how == EQUAL_SCORES)
		return is_key ? -336.f : 336.f;
	return hard_noise();
}

/* ---- a batch in memory -------------------------------------------------------------------- */

struct array {
	void *host, *device;
	size_t bytes;
};

enum { OUT, Q, K, V, TABLE, STARTS, LENS, SINKS, SLOPES, K_SCALES, V_SCALES, LSE, NUM_ARRAYS };

struct hard_world {
	const struct hard_case *of;
	struct batch *batch;
	struct array a[NUM_ARRAYS];
	attune_tensors host, device;
	float *lse;
};

static int pages_of(const attune_shape *s, int tokens)
{
	return (tokens + s->page_size - 1) / s->page_size;
}

static void add_array(struct hard_world *w, int which, size_t bytes)
{
	struct array *a = &w->a[which];
	a->bytes = bytes;
	a->host = malloc(bytes + 1);
	a->device = guarded(bytes);
	assert_true(a->host && a->device);
	memset(a->host, HARD_POISON, bytes);
}

/* The first key that any query of the sequence sees. */
static int first_seen(const attune_shape *s, int query, int seq)
{
	const long long first = s->window ? (long long)seq - query - s->window + 1 : 0;
	return first < 0 ? 0 : first > seq ? seq : (int)first;
}

static void put_keys(struct hard_world *w, int page, int slot, int key)
{
	const attune_shape *s = &w->of->s;
	const attune_tensors *t = &w->host;
	for (int h = 0; h < s->num_kv_heads; h++)
		for (int d = 0; d < s->head_size; d++) {
			const long long at = page * t->k_page_stride + slot * t->k_slot_stride +
					     h * t->k_head_stride + d;
			value_put(s->kv_dtype, w->a[K].host, at, hard_value(w->of->values, 1, key));
			value_put(s->kv_dtype, w->a[V].host, at, hard_noise());
		}
}

/* Pages are numbered from the last one down. Slots that no query sees keep their poison, and a
 * page of such slots alone is in no table entry. */
static void fill_cache(struct hard_world *w, int pages)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	int32_t *table = w->a[TABLE].host;
	const size_t entries = w->a[TABLE].bytes / sizeof *table;
	int start = 0; /* of ragged keys */
	for (size_t i = 0; i < entries; i++)
		table[i] = NO_PAGE;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		const int first = first_seen(s, query, b->seq_lens[i]);
		for (int p = 0; p < pages_of(s, b->seq_lens[i]); p++)
			if ((p + 1) * s->page_size > first && query)
				table[i * w->host.block_table_stride + p] =
				    w->of->values == RAGGED ? start + p * s->page_size : --pages;
		for (int key = first; query && key < b->seq_lens[i]; key++)
			put_keys(w, table[i * w->host.block_table_stride + key / s->page_size],
				 key % s->page_size, key);
		start += b->seq_lens[i];
	}
	assert_true(pages >= 0);
}

static void fill_rest(struct hard_world *w)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	float *const floats[] = { w->a[SINKS].host, w->a[SLOPES].host, w->a[K_SCALES].host,
				  w->a[V_SCALES].host };
	memcpy(w->a[STARTS].host, b->query_start, w->a[STARTS].bytes);
	memcpy(w->a[LENS].host, b->seq_lens, w->a[LENS].bytes);
	for (int i = 0; i < s->num_query_heads; i++) {
		floats[0][i] = w->of->sink != 0 ? w->of->sink : 2 * hard_noise();
		floats[1][i] = 0.01f * (float)(i % 9 + 1);
	}
	for (int i = 0; i < b->num_seqs * s->num_kv_heads; i++)
		floats[2][i] = floats[3][i] = 0.5f + 0.25f * hard_noise();
	for (size_t i = 0; i < w->a[Q].bytes / (size_t)dtype_bytes(s->dtype); i++)
		value_put(s->dtype, w->a[Q].host, (long long)i, hard_value(w->of->values, 0, 0));
}

static void set_strides(attune_tensors *t, const attune_shape *s, int is_ragged)
{
	const long long head = s->head_size, heads = s->num_kv_heads;
	t->size = sizeof *t;
	t->q_token_stride = t->out_token_stride = s->num_query_heads * head;
	t->q_head_stride = t->out_head_stride = t->k_head_stride = t->v_head_stride = head;
	t->k_page_stride = t->v_page_stride = (is_ragged ? 1 : s->page_size) * heads * head;
	t->k_slot_stride = t->v_slot_stride = heads * head;
	t->k_scale_seq_stride = t->v_scale_seq_stride = heads;
	t->k_scale_head_stride = t->v_scale_head_stride = 1;
	t->lse_token_stride = s->num_query_heads;
	t->lse_head_stride = 1;
}

static void set_pointers(attune_tensors *t, const struct hard_world *w, int on_device)
{
	void *p[NUM_ARRAYS];
	for (int i = 0; i < NUM_ARRAYS; i++)
		p[i] = on_device ? w->a[i].device : w->a[i].host;
	t->out = p[OUT], t->q = p[Q], t->k_cache = p[K], t->v_cache = p[V];
	t->block_table = p[TABLE], t->query_start = p[STARTS], t->seq_lens = p[LENS];
	t->sinks = p[SINKS], t->alibi_slopes = p[SLOPES], t->lse = p[LSE];
	t->k_scale = p[K_SCALES], t->v_scale = p[V_SCALES];
}

static void make_world(struct hard_world *w, const struct hard_case *c, const char *text)
{
	const attune_shape *s = &c->s;
	char error[200];
	int used = 0, keys = 0, longest = 1, seq, last;
	memset(w, 0, sizeof *w);
	w->of = c;
	hard_seed = 7;
	w->batch = batch_parse(text, error, sizeof error);
	assert_non_null(w->batch);
	const attune_batch *b = &w->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int n = pages_of(s, b->seq_lens[i]);
		used += n;
		keys += b->seq_lens[i];
		longest = n > longest ? n : longest;
	}
	const size_t tokens = (size_t)b->query_start[b->num_seqs];
	const size_t seqs = (size_t)b->num_seqs, heads = (size_t)s->num_query_heads;
	set_strides(&w->host, s, c->values == RAGGED);
	w->host.block_table_stride = longest + 1;
	batch_table(b, s->page_size, &seq, &last);
	const size_t rows = tokens * heads * (size_t)(s->head_size * dtype_bytes(s->dtype));
	const int pages = c->values == RAGGED ? keys : used;
	const size_t cache = (size_t)(pages * w->host.k_page_stride * dtype_bytes(s->kv_dtype));
	add_array(w, OUT, rows);
	add_array(w, Q, rows);
	add_array(w, K, cache);
	add_array(w, V, cache);
	add_array(w, TABLE, (size_t)(seq * w->host.block_table_stride + last) * sizeof(int32_t));
	add_array(w, STARTS, (seqs + 1) * sizeof(int32_t));
	add_array(w, LENS, seqs * sizeof(int32_t));
	add_array(w, SINKS, heads * sizeof(float));
	add_array(w, SLOPES, heads * sizeof(float));
	add_array(w, K_SCALES, seqs * (size_t)s->num_kv_heads * sizeof(float));
	add_array(w, V_SCALES, seqs * (size_t)s->num_kv_heads * sizeof(float));
	add_array(w, LSE, tokens * heads * sizeof(float));
	fill_cache(w, used);
	fill_rest(w);
	w->device = w->host;
	set_pointers(&w->host, w, 0);
	set_pointers(&w->device, w, 1);
	for (int i = 0; i < NUM_ARRAYS; i++)
		if (w->a[i].bytes &&
		    dev.ops->put(&dev, w->a[i].device, w->a[i].host, w->a[i].bytes))
			fail_msg("%s", attune_last_error());
}

static void free_world(struct hard_world *w)
{
	for (int i = 0; i < NUM_ARRAYS; i++)
		free(w->a[i].host);
	batch_free(w->batch);
	release_guarded();
}

#endif
