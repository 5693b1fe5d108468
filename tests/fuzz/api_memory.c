/* SPDX-License-Identifier: Apache-2.0 */
/* api_memory.c - a batch with its tensors in memory, on the host and on the device. In front of each
 * array, or behind it, nobody may touch. Gaps between rows, slots that no query sees and entries of the
 * block table without a live page hold NaN and page numbers that do not exist. */
#include "api.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- guard pages ------------------------------------------------------------------------- */

enum { PAGE_BYTES = 4096, MOST_BLOCKS = 400, ALIGNMENT = 16 };

static struct block {
	void *given, *base;
	size_t bytes; /* of a mapping; 0: the emulated GPU's own, between guard pages too */
} block[MOST_BLOCKS];

static struct block *free_block(void)
{
	for (int i = 0; i < MOST_BLOCKS; i++)
		if (!block[i].given)
			return &block[i];
	fault("the test: too many blocks of memory");
}

/* | no access | .. array | no access |   or, at the front,   | no access | array .. | no access | */
static void *map(struct block *b, size_t bytes, int at_front)
{
	const size_t used = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	char *p = mmap(NULL, used + 2 * PAGE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || (used && mprotect(p + PAGE_BYTES, used, PROT_READ | PROT_WRITE)))
		fault("the test: no memory for %zu bytes", bytes);
	b->base = p;
	b->bytes = used + 2 * PAGE_BYTES;
	return p + PAGE_BYTES + (at_front ? 0 : used - bytes);
}

void *guarded(struct device *dev, size_t bytes, int at_front)
{
	struct block *b = free_block();
	const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	b->bytes = 0;
	if (dev->info.backend == BACKEND_CPU)
		return b->given = map(b, bytes, at_front);
	if (dev->ops->alloc(dev, &b->base, whole ? whole : ALIGNMENT))
		fault("the test: %s", attune_last_error());
	return b->given = (char *)b->base + (whole ? whole : ALIGNMENT) - bytes;
}

void release_guarded(struct device *dev, void *given)
{
	for (int i = 0; given && i < MOST_BLOCKS; i++)
		if (block[i].given == given) {
			if (block[i].bytes)
				munmap(block[i].base, block[i].bytes);
			else
				dev->ops->release(dev, block[i].base);
			block[i].given = NULL;
			return;
		}
}

/* ---- a world ----------------------------------------------------------------------------- */

static void set_pointers(attune_tensors *t, const struct world *w, int on_device)
{
	char *p[NUM_ARRAYS];
	for (int i = 0; i < NUM_ARRAYS; i++)
		p[i] = on_device ? w->a[i].device : w->a[i].host;
	if (w->v_from)
		p[V] = p[K] + w->v_from * (size_t)dtype_bytes(w->s.kv_dtype);
	t->out = p[OUT], t->q = p[Q], t->k_cache = p[K], t->v_cache = p[V];
	t->block_table = (int32_t *)p[TABLE], t->query_start = (int32_t *)p[STARTS];
	t->seq_lens = (int32_t *)p[LENS];
	t->sinks = p[SINKS], t->alibi_slopes = (float *)p[SLOPES];
	t->k_scale = (float *)p[K_SCALES], t->v_scale = (float *)p[V_SCALES];
	t->lse = (float *)p[LSE];
	t->k_new = p[K_NEW], t->v_new = p[V_NEW];
}

static float *no_numbers(size_t n)
{
	float *v = malloc(n * sizeof *v);
	if (!v)
		fault("the test: no memory");
	memset(v, API_POISON, n * sizeof *v);
	return v;
}

static void set_lengths(struct world *w, const struct lengths *l)
{
	for (int i = 0; i < l->n; i++) {
		w->query_start[i + 1] = w->query_start[i] + l->query[i];
		w->seq_lens[i] = l->seq[i];
	}
	w->batch = (attune_batch){ sizeof(attune_batch), l->n, w->query_start, w->seq_lens };
}

void world_make(struct world *w, struct device *dev, struct dice *d, const attune_shape *s,
		const struct lengths *l)
{
	world_make_wide(w, dev, d, s, l, 0);
}

void world_make_wide(struct world *w, struct device *dev, struct dice *d, const attune_shape *s,
		     const struct lengths *l, int row_pages)
{
	memset(w, 0, sizeof *w);
	w->row_pages = row_pages;
	w->s = *s;
	w->dev = dev;
	set_lengths(w, l);
	layout_draw(w, d);
	for (int i = 0; i < NUM_ARRAYS; i++) {
		struct array *a = &w->a[i];
		a->host = malloc(a->bytes + !a->bytes);
		a->device = guarded(dev, a->bytes, one_in(d, 4));
		if (!a->host)
			fault("the test: no memory");
		memset(a->host, API_POISON, a->bytes);
	}
	const size_t elements = (size_t)w->pages * (size_t)s->page_size * (size_t)s->num_kv_heads *
				(size_t)s->head_size;
	w->key = no_numbers(elements);
	w->value = no_numbers(elements);
	w->sinks = no_numbers((size_t)s->num_query_heads);
	memcpy(w->a[STARTS].host, w->query_start, w->a[STARTS].bytes);
	memcpy(w->a[LENS].host, w->seq_lens, w->a[LENS].bytes);
	table_fill(w, d);
	values_fill(w, d);
	w->device = w->host;
	set_pointers(&w->host, w, 0);
	set_pointers(&w->device, w, 1);
	if (one_in(d, 4)) /* NULL: 1 */
		w->host.k_scale = w->device.k_scale = NULL;
	for (int i = 0; i < NUM_ARRAYS; i++)
		if (w->a[i].bytes &&
		    dev->ops->put(dev, w->a[i].device, w->a[i].host, w->a[i].bytes))
			fault("the test: %s", attune_last_error());
	/* memory of the host too, on the CPU and on emulated GPUs */
	w->batch.query_start = w->device.query_start;
	w->batch.seq_lens = w->device.seq_lens;
}

void world_free(struct world *w)
{
	for (int i = 0; i < NUM_ARRAYS; i++) {
		free(w->a[i].host);
		release_guarded(w->dev, w->a[i].device);
	}
	free(w->sinks);
	free(w->key);
	free(w->value);
}

void world_poison(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		struct array *a = &w->a[i ? LSE : OUT];
		memset(a->host, API_POISON, a->bytes);
		if (a->bytes && w->dev->ops->put(w->dev, a->device, a->host, a->bytes))
			fault("the test: %s", attune_last_error());
	}
}

void world_fetch(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		struct array *a = &w->a[i ? LSE : OUT];
		if (a->bytes && w->dev->ops->get(w->dev, a->host, a->device, a->bytes))
			fault("the test: %s", attune_last_error());
	}
}

int is_untouched(const struct world *w)
{
	for (int i = 0; i < 2; i++) {
		const struct array *a = &w->a[i ? LSE : OUT];
		for (size_t b = 0; b < a->bytes; b++)
			if ((unsigned char)a->host[b] != API_POISON)
				return 0;
	}
	return 1;
}
