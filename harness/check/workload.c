/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c - builds the tensors of a scenario on a device: tables, queries, a guarded output, K, V.
 *
 *   pages   0 .. n-1 in a seeded order: pages_per_set for set 0, in the order of its
 *           sequences and their tokens, then those of set 1, ..., then spare pages
 *   tables  [sets][num_seqs][stride]; entries without a page name a spare page
 *   q, out  guard | rows | guard; K and V of new tokens: scales_and_lse.c
 *
 * The pages of timed workloads lie in the shared pool. A check workload has its own, written by
 * the host: slots without a token and spare pages are NaN. */
#include "check.h"
#include "reference.h"
#include "workload.h"
#include "harness/plugin/plugin.h"
#include "harness/scenario/scenario.h"
#include "kernels/args.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* indices of workload.memory */
enum { OUT, Q, TABLES, BATCH, SINKS, SLOPES, K, V, K_NEW, V_NEW, SCALES, LSE };
enum { MAX_SETS = 32, STAGING = 1 << 20, GAP = 8 };

static const uint32_t nans[] = { [ATTUNE_F32] = 0x7fc0dead,
				 [ATTUNE_F16] = 0x7ead,
				 [ATTUNE_BF16] = 0x7fad,
				 [ATTUNE_E4M3] = 0x7f };

/* ---- pages ----------------------------------------------------------------------- */

/* Pages of one sequence: entries [first, end) of its table hold tokens inside some query's
 * window. A check has all its pages, so that reading before the window gives a wrong result. */
struct pages {
	int first, end;
};

static struct pages pages_of(const struct workload *w, int seq)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	const int query = batch_query_len(b, seq), len = b->seq_lens[seq];
	struct pages p = { 0, (len + s->page_size - 1) / s->page_size };
	const int start = len - query - s->window + 1;
	if (w->kind == WORKLOAD_CHECK)
		return p;
	if (!query)
		p.first = p.end;
	else if (s->window && start > 0)
		p.first = start / s->page_size;
	return p;
}

/* Counts pages and sets the stride of tables. 0: too many to number. */
static int count_pages(struct workload *w)
{
	const attune_batch *b = &w->scenario->batch->view;
	long long n = 0;
	int most = 1;
	for (int i = 0; i < b->num_seqs; i++) {
		const struct pages p = pages_of(w, i);
		n += p.end - p.first;
		if (p.end > most)
			most = p.end;
	}
	w->tensors.block_table_stride = w->kind == WORKLOAD_CHECK ? most + 2 : most;
	w->spare_pages = w->kind == WORKLOAD_CHECK ? (int)(n / 8) + 2 : 1;
	if (n * MAX_SETS > INT32_MAX / 2)
		return 0;
	w->pages_per_set = (int)n;
	return 1;
}

/* The order in memory of a cache that has room for `sets` page sets. */
static struct kv_order order_for(const struct workload *w, int sets)
{
	return kv_order(&w->scenario->shape, w->scenario->layout,
			(int64_t)sets * w->pages_per_set + w->spare_pages);
}

static size_t elements_for(const struct workload *w, int sets)
{
	return (size_t)order_for(w, sets).elements;
}

static void fill_table(const struct workload *w, int32_t *table, const int32_t *page,
		       const int32_t *spare)
{
	const int stride = w->tensors.block_table_stride;
	for (int i = 0, at = 0, unused = 0; i < w->scenario->batch->view.num_seqs; i++) {
		const struct pages p = pages_of(w, i);
		for (int j = 0; j < stride; j++)
			table[(size_t)i * (size_t)stride + (size_t)j] =
			    j >= p.first && j < p.end ? page[at++]
						      : spare[unused++ % w->spare_pages];
	}
}

/* ---- memory of the device -------------------------------------------------------- */

static enum attune_status take(struct workload *w, int which, size_t bytes)
{
	return w->dev->ops->alloc(w->dev, &w->memory[which], bytes ? bytes : 1);
}

static enum attune_status put(struct workload *w, int which, size_t at, const void *from,
			      size_t bytes)
{
	return bytes ? w->dev->ops->put(w->dev, (char *)w->memory[which] + at, from, bytes)
		     : ATTUNE_OK;
}

static enum attune_status make_tables(struct workload *w)
{
	const size_t n =
	    (size_t)w->scenario->batch->view.num_seqs * (size_t)w->tensors.block_table_stride;
	const int pages = w->sets * w->pages_per_set;
	int32_t *order = permutation(pages + w->spare_pages, w->scenario->seed);
	int32_t *table = malloc((n + 1) * sizeof *table);
	enum attune_status status = ATTUNE_NO_MEMORY;
	w->host_table = malloc((n + 1) * sizeof *table);
	w->block_tables = calloc((size_t)w->sets, sizeof *w->block_tables);
	if (!order || !table || !w->host_table || !w->block_tables)
		fail(status, "out of memory");
	else
		status = take(w, TABLES, (size_t)w->sets * n * sizeof *table);
	for (int set = 0; !status && set < w->sets; set++) {
		const size_t at = (size_t)set * n;
		fill_table(w, table, order + set * w->pages_per_set, order + pages);
		if (!set)
			memcpy(w->host_table, table, n * sizeof *table);
		w->block_tables[set] = (const int32_t *)w->memory[TABLES] + at;
		status = put(w, TABLES, at * sizeof *table, table, n * sizeof *table);
	}
	free(order);
	free(table);
	return status;
}

static enum attune_status make_batch(struct workload *w)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t n = (size_t)b->num_seqs, start = (n + 1) * sizeof *b->query_start;
	const int32_t none = 0;
	enum attune_status status = take(w, BATCH, start + n * sizeof *b->seq_lens);
	if (!status)
		status = put(w, BATCH, 0, n ? b->query_start : &none, start);
	return status ? status : put(w, BATCH, start, b->seq_lens, n * sizeof *b->seq_lens);
}

/* One number per query head: sinks around 0, slopes as in the ALiBi paper. */
static enum attune_status make_heads(struct workload *w, int which, float *host)
{
	const int heads = w->scenario->shape.num_query_heads;
	unsigned long long state = w->scenario->seed;
	enum attune_status status = take(w, which, (size_t)heads * sizeof *host);
	for (int i = 0; i < heads; i++)
		host[i] = which == SLOPES ? exp2f(-8 * (float)(i + 1) / (float)heads)
					  : (float)(next_random(&state) >> 40) / (1 << 22) - 2;
	return status ? status : put(w, which, 0, host, (size_t)heads * sizeof *host);
}

/* ---- K and V --------------------------------------------------------------------- */

static char *at_element(const struct workload *w, const void *base, int64_t n)
{
	return (char *)(uintptr_t)base + n * dtype_bytes(w->scenario->shape.kv_dtype);
}

/* Where the number of page sets is known. */
static void place_kv(struct workload *w, const void *k, const void *v)
{
	attune_tensors *t = &w->tensors;
	const struct kv_order *o = &w->order;
	w->order = order_for(w, w->sets);
	t->size = sizeof *t;
	t->k_page_stride = t->v_page_stride = o->page;
	t->k_slot_stride = t->v_slot_stride = o->slot;
	t->k_head_stride = t->v_head_stride = o->head;
	t->k_cache = at_element(w, k, o->k_at);
	t->v_cache = at_element(w, o->is_shared ? k : v, o->v_at);
}

static void blank_row(const struct workload *w, char *to, int which, int slot, int head)
{
	const attune_shape *s = &w->scenario->shape;
	const size_t size = (size_t)dtype_bytes(s->kv_dtype);
	struct attune_args a;
	args_from_tensors(&a, s, &w->tensors, 0);
	const struct kv_place at = kv_place(&a, s, which == V, 0, slot, head);
	for (int d = 0; d < s->head_size; d++)
		memcpy(to + (size_t)(at.first + d / at.run * at.step + d % at.run) * size,
		       &nans[s->kv_dtype], size);
}

/* Writes one unit; slots from `live` on are NaN. */
static void write_unit(const struct workload *w, char *to, int which, size_t unit, int live)
{
	const struct kv_order *o = &w->order;
	const size_t n = (size_t)o->unit;
	const int page_size = w->scenario->shape.page_size;
	write_values(to, which == K ? k_stream() : v_stream(), unit * n, n,
		     w->scenario->shape.kv_dtype);
	for (int slot = live; slot < page_size; slot++)
		for (int head = 0; head < o->unit_heads; head++) {
			if (which == K)
				blank_row(w, at_element(w, to, o->k_at), K, slot, head);
			if (which == V || o->is_shared)
				blank_row(w, at_element(w, to, o->v_at), V, slot, head);
		}
}

static enum attune_status write_units(struct workload *w, int which, const int *live)
{
	const size_t bytes =
	    (size_t)w->order.unit * (size_t)dtype_bytes(w->scenario->shape.kv_dtype);
	const size_t pages = (size_t)(w->pages_per_set + w->spare_pages);
	const size_t units = (size_t)(w->order.elements / w->order.unit);
	const size_t step = bytes < STAGING ? STAGING / bytes : 1;
	char *staging = malloc(step * bytes);
	enum attune_status status = ATTUNE_OK;
	if (!staging)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	for (size_t unit = 0; !status && unit < units; unit += step) {
		const size_t n = units - unit < step ? units - unit : step;
		for (size_t i = 0; i < n; i++)
			write_unit(w, staging + i * bytes, which, unit + i,
				   live[(unit + i) % pages]);
		status = put(w, which, unit * bytes, staging, n * bytes);
	}
	free(staging);
	return status;
}

static enum attune_status make_own_pages(struct workload *w)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	const size_t bytes = elements_for(w, 1) * (size_t)dtype_bytes(s->kv_dtype);
	const int is_shared = order_for(w, 1).is_shared;
	int *live = calloc((size_t)(w->pages_per_set + w->spare_pages), sizeof *live);
	enum attune_status status = live ? take(w, K, bytes) : ATTUNE_NO_MEMORY;
	if (!live)
		return fail(status, "out of memory");
	if (!status && !is_shared)
		status = take(w, V, bytes);
	if (!status)
		place_kv(w, w->memory[K], w->memory[V]);
	for (int i = 0; i < b->num_seqs; i++)
		for (int j = 0; j * s->page_size < b->seq_lens[i]; j++) {
			const int rest = b->seq_lens[i] - j * s->page_size;
			live[w->host_table[i * w->tensors.block_table_stride + j]] =
			    rest < s->page_size && !(w->needs & ATTUNE_PLUGIN_FINITE_SLOTS)
				? rest
				: s->page_size;
		}
	if (!status)
		status = write_units(w, K, live);
	if (!status && !is_shared)
		status = write_units(w, V, live);
	free(live);
	return status;
}

/* Memory for the KV pool. The rest holds outputs and partial results, and on a host the memory
 * of other programs. */
static size_t memory_limit(const struct device *dev)
{
	const size_t all = dev->info.memory_bytes;
	return dev->info.backend == BACKEND_CPU ? all / 2 : all / 5 * 4;
}

/* Fewer sets where memory is short. */
static enum attune_status take_pool(struct workload *w, struct pool **pool, size_t cold_bytes)
{
	const attune_shape *s = &w->scenario->shape;
	const size_t size = (size_t)dtype_bytes(s->kv_dtype), limit = memory_limit(w->dev);
	const size_t read = 2 * size * (size_t)s->num_kv_heads * (size_t)s->head_size *
			    (size_t)part_live_keys(s, &w->scenario->batch->view, PHASE_ALL);
	enum attune_status status = ATTUNE_NO_MEMORY;
	w->sets = 1;
	if (read && cold_bytes > read)
		w->sets =
		    cold_bytes / read < MAX_SETS ? (int)((cold_bytes + read - 1) / read) : MAX_SETS;
	while (w->sets > 1 && 2 * size * elements_for(w, w->sets) > limit)
		w->sets--;
	if (2 * size * elements_for(w, w->sets) > limit)
		return fail(status,
			    "one set of pages takes %zu MiB of the %zu MiB that a "
			    "workload may have on this device",
			    2 * size * elements_for(w, 1) >> 20, limit >> 20);
	for (;; w->sets = (w->sets + 1) / 2) {
		status = pool_reserve(pool, w->dev, elements_for(w, w->sets), s->kv_dtype);
		if (status != ATTUNE_NO_MEMORY || w->sets == 1)
			break;
	}
	if (!status)
		place_kv(w, (*pool)->k, (*pool)->v);
	return status;
}

/* ---- q and out ------------------------------------------------------------------- */

static size_t row_bytes(const struct workload *w) /* of all tokens */
{
	const attune_batch *b = &w->scenario->batch->view;
	return b->num_seqs
		   ? (size_t)b->query_start[b->num_seqs] * (size_t)w->tensors.q_token_stride *
			 (size_t)dtype_bytes(w->scenario->shape.dtype)
		   : 0;
}

/* A check with an odd number of tokens has gaps between rows, so that a kernel that takes rows
 * for contiguous fails on some corners. */
static void set_row_strides(struct workload *w)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	const int odd = b->num_seqs && b->query_start[b->num_seqs] % 2;
	const int dense = w->kind == WORKLOAD_TIMED || w->needs & ATTUNE_PLUGIN_DENSE_ROWS;
	const int64_t gap = odd && !dense ? GAP : 0;
	attune_tensors *t = &w->tensors;
	t->q_head_stride = t->out_head_stride = s->head_size + gap;
	t->q_token_stride = t->out_token_stride = s->num_query_heads * t->q_head_stride + 2 * gap;
}

/* Makes q on the host; rows may have gaps. */
static enum attune_status put_q(struct workload *w)
{
	const attune_shape *s = &w->scenario->shape;
	const size_t size = (size_t)dtype_bytes(s->dtype), heads = (size_t)s->num_query_heads;
	const size_t token = (size_t)w->tensors.q_token_stride * size, bytes = row_bytes(w);
	const size_t head = (size_t)w->tensors.q_head_stride * size, dims = (size_t)s->head_size;
	char *host = malloc(bytes + 1);
	if (!host)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	memset(host, POISON, bytes);
	for (size_t t = 0; t * token < bytes; t++)
		for (size_t h = 0; h < heads; h++)
			write_values(host + t * token + h * head, q_stream(w->scenario->seed),
				     (t * heads + h) * dims, dims, s->dtype);
	const enum attune_status status = put(w, Q, GUARD, host, bytes);
	free(host);
	return status;
}

static enum attune_status make_q(struct workload *w, struct pool *pool)
{
	const attune_shape *s = &w->scenario->shape;
	const size_t bytes = row_bytes(w);
	const int is_dense = w->tensors.q_head_stride == s->head_size && bytes % 4 == 0;
	enum attune_status status = take(w, Q, bytes + 2 * GUARD);
	if (!status)
		status = w->dev->ops->fill(w->dev, w->memory[Q], POISON, bytes + 2 * GUARD);
	w->tensors.q = (char *)w->memory[Q] + GUARD;
	if (status || !bytes)
		return status;
	if (!pool || !is_dense)
		return put_q(w);
	status = w->dev->ops->wait(w->dev, NULL); /* for the poison; see workload_poison() */
	if (status)
		return status;
	return pool_fill(pool, w->dev, (char *)w->memory[Q] + GUARD, q_stream(w->scenario->seed),
			 bytes / (size_t)dtype_bytes(s->dtype), s->dtype);
}

static enum attune_status make_out(struct workload *w)
{
	enum attune_status status;
	w->out_bytes = row_bytes(w) + 2 * GUARD;
	status = take(w, OUT, w->out_bytes);
	w->tensors.out = (char *)w->memory[OUT] + GUARD;
	return status ? status : workload_poison(w);
}

/* Waits, because fills run on the default stream and kernels on another. */
enum attune_status workload_poison(struct workload *w)
{
	enum attune_status status = w->dev->ops->fill(w->dev, w->memory[OUT], POISON, w->out_bytes);
	if (!status && w->memory[LSE])
		status = w->dev->ops->fill(w->dev, w->memory[LSE], POISON, w->lse_bytes);
	return status ? status : w->dev->ops->wait(w->dev, NULL);
}

/* ---- all together ---------------------------------------------------------------- */

static enum attune_status make_rest(struct workload *w, struct pool *pool)
{
	const attune_shape *s = &w->scenario->shape;
	const size_t heads = (size_t)s->num_query_heads;
	enum attune_status status;
	w->sinks = calloc(2 * heads, sizeof *w->sinks);
	w->slopes = w->sinks + heads;
	if (!w->sinks)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	set_row_strides(w);
	status = make_batch(w);
	if (!status)
		status = make_heads(w, SINKS, w->sinks);
	if (!status)
		status = make_heads(w, SLOPES, w->slopes);
	if (!status)
		status = make_q(w, pool);
	if (!status)
		status = new_kv_make(w, &w->memory[K_NEW], &w->memory[V_NEW]);
	if (!status)
		status = scales_and_lse_make(w, &w->memory[SCALES], &w->memory[LSE]);
	if (!status)
		status = make_out(w);
	w->tensors.query_start = w->memory[BATCH];
	w->tensors.seq_lens = w->tensors.query_start + w->scenario->batch->view.num_seqs + 1;
	w->tensors.sinks = s->has_sinks ? w->memory[SINKS] : NULL;
	w->tensors.alibi_slopes = s->has_alibi ? w->memory[SLOPES] : NULL;
	return status;
}

/* On entry *w has its scenario, device, kind and needs. */
static enum attune_status make(struct workload *w, struct pool **pool, size_t cold_bytes)
{
	const enum workload_kind kind = w->kind;
	enum attune_status status;
	if (!count_pages(w))
		return fail(ATTUNE_NO_MEMORY, "the batch has more pages than can be numbered");
	status = kind == WORKLOAD_TIMED ? take_pool(w, pool, cold_bytes) : ATTUNE_OK;
	if (!status)
		status = make_tables(w);
	if (!status && kind == WORKLOAD_CHECK)
		status = make_own_pages(w);
	if (!status)
		status = make_rest(w, pool ? *pool : NULL);
	w->tensors.block_table = w->block_tables ? w->block_tables[0] : NULL;
	if (status)
		workload_free(w);
	return status;
}

enum attune_status workload_make(struct workload *w, struct device *dev, struct pool **pool,
				 const struct scenario *scenario, enum workload_kind kind,
				 size_t cold_bytes)
{
	*w = (struct workload){ .scenario = scenario, .dev = dev, .kind = kind, .sets = 1 };
	return make(w, pool, cold_bytes);
}

enum attune_status workload_make_for(struct workload *w, struct device *dev,
				     const struct scenario *scenario, unsigned needs)
{
	*w = (struct workload){
		.scenario = scenario, .dev = dev, .kind = WORKLOAD_CHECK, .needs = needs, .sets = 1
	};
	return make(w, NULL, 0);
}

void workload_free(struct workload *w)
{
	plugin_forget(w);
	for (size_t i = 0; i < COUNT(w->memory); i++)
		if (w->memory[i])
			w->dev->ops->release(w->dev, w->memory[i]);
	expected_free(w->expected);
	free(w->block_tables);
	free(w->host_table);
	free(w->sinks);
	free(w->scales);
	free(w->host_out);
	memset(w, 0, sizeof *w);
}
