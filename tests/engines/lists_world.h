/* SPDX-License-Identifier: Apache-2.0 */
/* lists_world.h - a batch whose block table attune_page_table writes: ragged K and V, of exactly their
 * tokens, or a cache with page lists. Output and LSE are compared with the definition. Include after
 * cmocka.h. The includer opens `dev`, adopts it as `ctx`, and defines exact(): device memory of so many
 * bytes, behind which there is none. */
#ifndef TESTS_ENGINES_LISTS_WORLD_H
#define TESTS_ENGINES_LISTS_WORLD_H

#include "harness/check/check.h"
#include "harness/check/reference.h"
#include "harness/scenario/scenario.h"
#include "kernels/args_more.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include <float.h>
#include <math.h>

static struct device dev;
static attune_context *ctx;
static void *exact(size_t bytes);
static void release_exact(void);

enum { POISON = 0xff, FIRST = 3, MOST_PARTS = 16 };

/* How the lists come: starts of ragged K and V, with memory behind, or without and their end is known or
 * not; pages of 4 bytes; of 8. */
enum lists { RAGGED, RAGGED_TO_END, RAGGED_WITH_ROOM, PAGES, LONG_PAGES };

struct lists_row {
	const char *name, *batch;
	attune_shape s;
	enum lists lists;
};

#define SHAPE(heads, kv_heads, head, page, q, kv) \
	sizeof(attune_shape), heads, kv_heads, head, page, ATTUNE_##q, ATTUNE_##kv, .causal = 1

struct lists_world {
	const attune_shape *s;
	struct batch *batch;
	attune_tensors host, device;
	int32_t *starts; /* in tokens, or in pages */
	int32_t *table;
	size_t table_bytes, out_bytes, lse_bytes;
	attune_page_lists lists;
	int room; /* slots behind ragged K and V */
	int has_end;
	attune_op *op;
	void *freed[MOST_PARTS];
	int num_freed;
};

static unsigned long long lists_seed;

static float lists_noise(void) /* -1 .. 1 */
{
	lists_seed = lists_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(lists_seed >> 40) / 8388608.f - 1.f;
}

static void fine(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static void *host_array(struct lists_world *w, size_t bytes)
{
	void *p = malloc(bytes + 1);
	assert_non_null(p);
	assert_true(w->num_freed < MOST_PARTS);
	w->freed[w->num_freed++] = p;
	return memset(p, POISON, bytes);
}

static void *on_device(const void *host, size_t bytes)
{
	void *p = exact(bytes);
	assert_non_null(p);
	if (bytes)
		fine(dev.ops->put(&dev, p, host, bytes));
	return p;
}

static int pages_of(const struct lists_world *w, int seq)
{
	return (w->batch->seq_lens[seq] + w->s->page_size - 1) / w->s->page_size;
}

/* Entries that the call writes for a sequence, also for slots that no token sees. */
static int entries_of(const struct lists_world *w, int is_ragged, int seq)
{
	const int n = w->starts[seq + 1] - w->starts[seq];
	return is_ragged ? (n + w->s->page_size - 1) / w->s->page_size : n;
}

/* The table that the call must write: pages backwards, ragged ones one token apart. */
static void fill_table(struct lists_world *w, enum lists how, int32_t *indices)
{
	const int n = w->batch->view.num_seqs, stride = w->host.block_table_stride;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < pages_of(w, i); j++) {
			const int at = w->starts[i] + j;
			w->table[i * stride + j] = how == RAGGED
						       ? w->starts[i] + j * w->s->page_size
						       : w->starts[n] - 1 - at;
			if (how != RAGGED)
				indices[at] = w->table[i * stride + j];
		}
}

/* Sequences begin at odd places. Between two of them are up to two slots that no token sees; behind the
 * last key there is nothing. */
static void fill_starts(struct lists_world *w, enum lists how)
{
	const int n = w->batch->view.num_seqs;
	w->starts = host_array(w, ((size_t)n + 1) * sizeof *w->starts);
	w->starts[0] = FIRST;
	for (int i = 0; i < n; i++)
		w->starts[i + 1] = w->starts[i] + (how != RAGGED ? pages_of(w, i)
								 : w->batch->seq_lens[i] +
								       (i + 1 < n ? i % 3 : 0));
}

static void fill_keys(struct lists_world *w, void *k, void *v)
{
	const attune_shape *s = w->s;
	const attune_tensors *t = &w->host;
	for (int i = 0; i < w->batch->view.num_seqs; i++)
		for (int key = 0; key < w->batch->seq_lens[i]; key++)
			for (int e = 0; e < s->num_kv_heads * s->head_size; e++) {
				const long long page =
				    w->table[i * t->block_table_stride + key / s->page_size];
				const long long at = page * t->k_page_stride +
						     key % s->page_size * t->k_slot_stride + e;
				value_put(s->kv_dtype, k, at, lists_noise());
				value_put(s->kv_dtype, v, at, lists_noise());
			}
}

static void set_strides(attune_tensors *t, const attune_shape *s, enum lists how)
{
	t->size = sizeof *t;
	t->q_token_stride = t->out_token_stride = s->num_query_heads * s->head_size;
	t->q_head_stride = t->out_head_stride = t->k_head_stride = t->v_head_stride = s->head_size;
	t->k_slot_stride = t->v_slot_stride = s->num_kv_heads * s->head_size;
	t->k_page_stride = t->v_page_stride = t->k_slot_stride * (how == RAGGED ? 1 : s->page_size);
}

/* Sinks, of which two mean none, and room for the LSE. The host has the floats that sinks are. */
static void fill_heads(struct lists_world *w)
{
	const attune_shape *s = w->s;
	const int heads = s->num_query_heads,
		  tokens = w->batch->query_start[w->batch->view.num_seqs];
	const size_t bytes = (size_t)heads * (size_t)dtype_bytes(s->sinks_dtype);
	void *sinks = host_array(w, bytes);
	float *floats = host_array(w, (size_t)heads * sizeof *floats);
	for (int i = 0; i < heads; i++) {
		value_put(s->sinks_dtype, sinks, i,
			  i == 1 ? -INFINITY
			  : i == 3 && s->sinks_dtype == ATTUNE_F32
			      ? -FLT_MAX
			      : ldexpf(lists_noise(), i == 2 ? -22 : i % 5));
		floats[i] = (float)value_of(s->sinks_dtype, sinks, i);
	}
	w->lse_bytes = (size_t)tokens * (size_t)heads * sizeof(float);
	w->host.sinks = floats;
	w->host.lse = host_array(w, w->lse_bytes);
	w->host.lse_token_stride = w->device.lse_token_stride = heads;
	w->host.lse_head_stride = w->device.lse_head_stride = 1;
	w->device.sinks = on_device(sinks, bytes);
	float *slopes = host_array(w, (size_t)heads * sizeof *slopes);
	for (int i = 0; i < heads; i++)
		slopes[i] = 0.01f * (float)(i % 9 + 1);
	w->host.alibi_slopes = slopes;
	w->device.alibi_slopes = on_device(slopes, (size_t)heads * sizeof *slopes);
	w->device.lse = on_device(w->host.lse, w->lse_bytes);
}

/* Rows, keys and lengths, in host memory and on the device. */
static void fill_tensors(struct lists_world *w)
{
	const attune_shape *s = w->s;
	const attune_batch *b = &w->batch->view;
	attune_tensors *t = &w->host, *d = &w->device;
	const size_t tokens = (size_t)b->query_start[b->num_seqs], seqs = (size_t)b->num_seqs;
	const size_t elements = tokens * (size_t)t->q_token_stride;
	const size_t cache = ((size_t)w->starts[seqs] + (size_t)w->room) *
			     (size_t)t->k_page_stride * (size_t)dtype_bytes(s->kv_dtype);
	w->out_bytes = elements * (size_t)dtype_bytes(s->dtype);
	void *q = host_array(w, w->out_bytes), *k = host_array(w, cache), *v = host_array(w, cache);
	for (size_t i = 0; i < elements; i++)
		value_put(s->dtype, q, (long long)i, lists_noise());
	fill_keys(w, k, v);
	t->out = host_array(w, w->out_bytes);
	t->q = q, t->k_cache = k, t->v_cache = v;
	t->block_table = w->table, t->query_start = b->query_start, t->seq_lens = b->seq_lens;
	*d = *t;
	d->out = on_device(t->out, w->out_bytes);
	d->q = on_device(q, w->out_bytes);
	d->k_cache = on_device(k, cache);
	d->v_cache = on_device(v, cache);
	d->query_start = on_device(b->query_start, (seqs + 1) * sizeof(int32_t));
	d->kv_slots = w->has_end ? w->starts[seqs] : 0;
	d->seq_lens = on_device(b->seq_lens, seqs * sizeof(int32_t));
	fill_heads(w);
}

static void lists_make(struct lists_world *w, const attune_shape *s, enum lists how,
		       const char *text)
{
	char error[200];
	memset(w, 0, sizeof *w);
	lists_seed = 7;
	w->s = s;
	w->room = how == RAGGED_WITH_ROOM ? s->page_size : 0;
	w->has_end = how == RAGGED_WITH_ROOM || how == RAGGED_TO_END;
	how = w->has_end ? RAGGED : how;
	w->batch = batch_parse(text, error, sizeof error);
	assert_non_null(w->batch);
	const int n = w->batch->view.num_seqs;
	set_strides(&w->host, s, how);
	fill_starts(w, how);
	for (int i = 0; i < n; i++)
		w->host.block_table_stride =
		    (int)max_of(w->host.block_table_stride, entries_of(w, how == RAGGED, i));
	int32_t *indices = host_array(w, ((size_t)w->starts[n] + 1) * sizeof *indices);
	w->table_bytes = (size_t)n * (size_t)w->host.block_table_stride * sizeof *w->table;
	w->table = host_array(w, w->table_bytes);
	fill_table(w, how, indices);
	fill_tensors(w);
	const size_t entries = how == RAGGED ? 0 : (size_t)w->starts[n];
	int64_t *wide = host_array(w, entries * sizeof *wide);
	for (size_t i = 0; i < entries; i++)
		wide[i] = indices[i];
	w->lists = (attune_page_lists){ .size = sizeof w->lists };
	w->lists.indptr = on_device(w->starts, ((size_t)n + 1) * sizeof *w->starts);
	if (how == PAGES)
		w->lists.indices = on_device(indices, entries * sizeof *indices);
	if (how == LONG_PAGES) {
		w->lists.indices = on_device(wide, entries * sizeof *wide);
		w->lists.index_bytes = 8;
	}
	fine(attune_prepare(ctx, s, &w->op));
}

static void lists_free(struct lists_world *w)
{
	attune_release(w->op);
	for (int i = 0; i < w->num_freed; i++)
		free(w->freed[i]);
	batch_free(w->batch);
	release_exact();
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Has the library write the table, and looks at what it wrote: entries behind the lists stay. */
static void write_table(struct lists_world *w)
{
	const int n = w->batch->view.num_seqs, stride = w->host.block_table_stride;
	int32_t *got = host_array(w, w->table_bytes);
	int32_t *table = on_device(got, w->table_bytes);
	const size_t lens_bytes = (size_t)n * sizeof *got;
	int32_t *lens = host_array(w, lens_bytes);
	w->device.block_table = table;
	w->lists.seq_lens = on_device(lens, lens_bytes);
	fine(attune_page_table(w->op, n, &w->lists, table, stride, dev.ops->stream(&dev)));
	fine(dev.ops->wait(&dev, dev.ops->stream(&dev)));
	if (w->table_bytes)
		fine(dev.ops->get(&dev, got, table, w->table_bytes));
	fine(dev.ops->get(&dev, lens, w->lists.seq_lens, lens_bytes));
	for (int i = 0; i < n; i++)
		assert_int_equal(lens[i], w->starts[i + 1] - w->starts[i]);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < stride; j++) {
			const int pages = entries_of(w, !w->lists.indices, i);
			const int want = j < pages_of(w, i) ? w->table[i * stride + j]
					 : j < pages        ? got[i * stride + j]
							    : -1;
			assert_int_equal(got[i * stride + j], want);
		}
}

/* ---- the output ------------------------------------------------------------------------------ */

static void fetch_host(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct kv_place at = kv_place(source->args, source->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < source->shape->head_size; d++)
		row[d] =
		    value_of(source->shape->kv_dtype,
			     is_v ? source->args->v_cache : source->args->k_cache, at.first + d);
}

static void check_row(const struct lists_world *w, struct kv_source *source, int seq, int token,
		      int head)
{
	double want[256], mass[256], lse;
	source->mass = mass;
	source->lse = &lse;
	reference_row_from(source, seq, token, head, want);
	const long long at = (w->batch->query_start[seq] + token) * w->host.out_token_stride +
			     head * w->host.out_head_stride;
	for (int d = 0; d < w->s->head_size; d++) {
		const double got = value_of(w->s->dtype, w->host.out, at + d);
		if (!(fabs(got - want[d]) <= check_tolerance(w->s, mass[d], want[d])))
			fail_msg("sequence %d, token %d, head %d, dim %d: %g, %g is right", seq,
				 token, head, d, got, want[d]);
	}
}

static enum attune_status plan_and_run(struct lists_world *w, enum attune_start start)
{
	const attune_batch *b = &w->batch->view;
	attune_plan plan = { .size = sizeof plan };
	size_t most;
	fine(attune_plan_batch(w->op, b, &plan));
	fine(attune_max_workspace(w->op, b->num_seqs, plan.num_tokens, &most));
	assert_true(plan.workspace <= most);
	plan.start = start;
	void *workspace = exact((plan.workspace + 15) / 16 * 16);
	return attune_run(w->op, &plan, &w->device, workspace, plan.workspace,
			  dev.ops->stream(&dev));
}

static void run_and_check(struct lists_world *w, enum attune_start start)
{
	const attune_batch *b = &w->batch->view;
	struct attune_call call;
	fine(plan_and_run(w, start));
	fine(dev.ops->wait(&dev, dev.ops->stream(&dev)));
	if (w->out_bytes)
		fine(dev.ops->get(&dev, w->host.out, w->device.out, w->out_bytes));
	if (w->s->has_lse)
		fine(dev.ops->get(&dev, w->host.lse, w->device.lse, w->lse_bytes));
	call_from_tensors(&call, w->s, &w->host, b->num_seqs);
	call.args.window = w->s->window;
	struct kv_source source = {
		.fetch = fetch_host, .args = &call.args, .shape = w->s, .scales = &call.more
	};
	for (int i = 0; i < b->num_seqs; i++)
		for (int t = 0; t < b->query_start[i + 1] - b->query_start[i]; t++)
			for (int head = 0; head < w->s->num_query_heads; head++)
				check_row(w, &source, i, t, head);
}

static void lists_row_passes(void **state)
{
	const struct lists_row *r = *state;
	struct lists_world w;
	release_exact(); /* of a row that failed */
	lists_make(&w, &r->s, r->lists, r->batch);
	write_table(&w);
	run_and_check(&w, ATTUNE_START_IN_TURN);
	run_and_check(&w, ATTUNE_START_EARLY);
	lists_free(&w);
}

#endif
