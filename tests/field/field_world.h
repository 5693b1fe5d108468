/* SPDX-License-Identifier: Apache-2.0 */
/* field_world.h - batches of t_field_bugs.c in memory. Slots that no query sees are NaN, page 0 is in no
 * live entry and NaN too, and entries behind a sequence's pages name page 0. Include after cmocka.h. */
#ifndef TESTS_FIELD_FIELD_WORLD_H
#define TESTS_FIELD_FIELD_WORLD_H

#include "kernels/launch/run.h"
#include "harness/check/reference.h"
#include "kernels/spec/part.h"
#include <sys/mman.h>

enum { MOST_GROUPS = 6 };
enum keys {
	NOISE,
	EQUAL_KEYS,
	LARGE_KEYS,   /* products of up to 1e4 */
	DENORMAL_KEYS /* products would reach 1; CPUs take such keys as zeros */
};
enum where { EVERYWHERE, NOT_EMULATED /* takes too long */, CPU_ALONE };

struct field_row {
	const char *name;
	attune_shape s; /* types: of the device */
	struct {
		int count, query, seq;
	} group[MOST_GROUPS];
	int ladder;         /* also one sequence for each query length from 1 to this */
	int pages;          /* entries go round these many pages; 0: each has its own */
	long long page_gap; /* elements from one page to the next; 0: none are left out */
	enum keys keys;
	enum where where;
};

/* ---- a batch in memory ----------------------------------------------------------------------- */

enum { OUT, Q, K, V, TABLE, STARTS, LENS, SINKS, SLOPES, NUM_ARRAYS };

struct world {
	attune_shape s;
	attune_batch b;
	const struct field_row *row;
	void *host[NUM_ARRAYS], *device[NUM_ARRAYS];
	size_t bytes[NUM_ARRAYS];
	attune_tensors h, d; /* of the host, of the device */
};

static struct device dev;
static unsigned long long seed;

static float noise(void) /* -1 .. 1 */
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(seed >> 40) / 8388608.f - 1.f;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* Of pages that nobody touches no memory is used. */
static void add_array(struct world *w, int which, size_t bytes)
{
	w->bytes[which] = bytes;
	w->host[which] = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(w->host[which] != MAP_FAILED);
	w->device[which] = w->host[which];
	if (dev.info.backend == BACKEND_GPU)
		ok(dev.ops->alloc(&dev, &w->device[which], bytes + 16));
}

static int num_seqs_of(const struct field_row *r)
{
	int n = r->ladder;
	for (int g = 0; g < MOST_GROUPS; g++)
		n += r->group[g].count;
	return n;
}

static void lengths(struct world *w)
{
	const struct field_row *r = w->row;
	const int n = num_seqs_of(r);
	add_array(w, STARTS, ((size_t)n + 1) * sizeof(int32_t));
	add_array(w, LENS, (size_t)n * sizeof(int32_t));
	int32_t *start = w->host[STARTS], *len = w->host[LENS];
	int i = 0;
	for (int g = 0; g < MOST_GROUPS; g++)
		for (int k = 0; k < r->group[g].count; k++, i++) {
			start[i + 1] = start[i] + r->group[g].query;
			len[i] = r->group[g].seq;
		}
	for (int query = 1; query <= r->ladder; query++, i++) {
		start[i + 1] = start[i] + query;
		len[i] = query + query % 7;
	}
	w->b = (attune_batch){ sizeof(attune_batch), n, start, len };
}

static int pages_of(const attune_shape *s, int tokens)
{
	return (tokens + s->page_size - 1) / s->page_size;
}

static float key_value(enum keys how, int d)
{
	switch (how) {
	case EQUAL_KEYS: return 0.01f * (float)(d % 5);
	case LARGE_KEYS: return 12 * noise();
	case DENORMAL_KEYS: return 1e-39f * noise();
	default: return noise();
	}
}

static float query_value(enum keys how)
{
	return (how == LARGE_KEYS ? 12 : how == DENORMAL_KEYS ? 1e38f : 1) * noise();
}

static void put_slots(struct world *w, int page, int slots)
{
	const attune_shape *s = &w->s;
	for (int slot = 0; slot < slots; slot++)
		for (int h = 0; h < s->num_kv_heads; h++)
			for (int d = 0; d < s->head_size; d++) {
				const long long at = page * w->h.k_page_stride +
						     slot * w->h.k_slot_stride +
						     h * w->h.k_head_stride + d;
				value_put(s->kv_dtype, w->host[K], at, key_value(w->row->keys, d));
				value_put(s->kv_dtype, w->host[V], at, noise());
			}
}

static void make_cache(struct world *w)
{
	const attune_shape *s = &w->s;
	const long long page = (long long)s->page_size * s->num_kv_heads * s->head_size;
	int used = 1, longest = 1;
	for (int i = 0; i < w->b.num_seqs; i++) {
		const int n = pages_of(s, w->b.seq_lens[i]);
		used += w->row->pages ? 0 : n;
		longest = n > longest ? n : longest;
	}
	used += w->row->pages;
	w->h.size = sizeof w->h;
	w->h.k_page_stride = w->h.v_page_stride = w->row->page_gap ? w->row->page_gap : page;
	w->h.k_slot_stride = w->h.v_slot_stride = s->num_kv_heads * s->head_size;
	w->h.k_head_stride = w->h.v_head_stride = s->head_size;
	w->h.block_table_stride = longest;
	const size_t bytes =
	    (size_t)(((used - 1) * w->h.k_page_stride + page) * dtype_bytes(s->kv_dtype));
	add_array(w, K, bytes);
	add_array(w, V, bytes);
	int seq, last, next = used;
	batch_table(&w->b, s->page_size, &seq, &last);
	add_array(w, TABLE, ((size_t)seq * (size_t)longest + (size_t)last) * sizeof(int32_t));
	for (int p = 0; p < used; p++) {
		const long long at = p * w->h.k_page_stride * dtype_bytes(s->kv_dtype);
		memset((char *)w->host[K] + at, 0xff, (size_t)(page * dtype_bytes(s->kv_dtype)));
		memset((char *)w->host[V] + at, 0xff, (size_t)(page * dtype_bytes(s->kv_dtype)));
	}
	for (int p = 1; p <= w->row->pages; p++)
		put_slots(w, p, s->page_size);
	int32_t *table = w->host[TABLE];
	for (int i = 0; i < w->b.num_seqs; i++)
		for (int p = 0; p < pages_of(s, w->b.seq_lens[i]); p++) {
			const int left = w->b.seq_lens[i] - p * s->page_size;
			table[(size_t)i * (size_t)longest + (size_t)p] =
			    w->row->pages ? 1 + p % w->row->pages : --next;
			if (!w->row->pages)
				put_slots(w, next, left < s->page_size ? left : s->page_size);
		}
}

static void make_world(struct world *w, const struct field_row *r)
{
	memset(w, 0, sizeof *w);
	seed = 7;
	w->row = r;
	w->s = r->s;
	w->s.dtype = w->s.kv_dtype = dev.info.backend == BACKEND_GPU ? ATTUNE_BF16 : ATTUNE_F32;
	lengths(w);
	make_cache(w);
	const size_t heads = (size_t)w->s.num_query_heads, head = (size_t)w->s.head_size;
	const size_t values = (size_t)w->b.query_start[w->b.num_seqs] * heads * head;
	add_array(w, OUT, values * (size_t)dtype_bytes(w->s.dtype));
	add_array(w, Q, values * (size_t)dtype_bytes(w->s.dtype));
	add_array(w, SINKS, heads * sizeof(float));
	add_array(w, SLOPES, heads * sizeof(float));
	memset(w->host[OUT], 0xff, w->bytes[OUT]);
	for (size_t i = 0; i < values; i++)
		value_put(w->s.dtype, w->host[Q], (long long)i, query_value(r->keys));
	for (size_t i = 0; i < heads; i++) {
		((float *)w->host[SINKS])[i] = noise();
		((float *)w->host[SLOPES])[i] = 0.01f * (float)(i + 1);
	}
	w->h.q_token_stride = w->h.out_token_stride = (int64_t)(heads * head);
	w->h.q_head_stride = w->h.out_head_stride = (int64_t)head;
	w->d = w->h;
	for (int i = 0; i < 2; i++) {
		attune_tensors *t = i ? &w->d : &w->h;
		void *const *p = i ? w->device : w->host;
		t->out = p[OUT], t->q = p[Q], t->k_cache = p[K], t->v_cache = p[V];
		t->block_table = p[TABLE], t->query_start = p[STARTS], t->seq_lens = p[LENS];
		t->sinks = p[SINKS], t->alibi_slopes = p[SLOPES];
	}
	for (int i = 0; i < NUM_ARRAYS && dev.info.backend == BACKEND_GPU; i++)
		if (w->bytes[i])
			ok(dev.ops->put(&dev, w->device[i], w->host[i], w->bytes[i]));
}

static void free_world(struct world *w)
{
	for (int i = 0; i < NUM_ARRAYS; i++) {
		if (w->device[i] != w->host[i])
			dev.ops->release(&dev, w->device[i]);
		munmap(w->host[i], w->bytes[i] + 1);
	}
}

#endif
