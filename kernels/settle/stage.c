/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - the metadata of timed calls, and their page sets (stage.h).
 *
 * Engines' dummy batches have sequences of one token, so the tables are made here: pages of a
 * sequence lie apart, as after hours of serving. */
#include "stage.h"
#include "kernels/launch/run.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, MOST_SHIFTS = 1024 };

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static long long pages_of(const struct stage *s, int seq)
{
	return parts_of(s->batch->seq_lens[seq], s->op->shape.page_size);
}

double stage_call_bytes(const struct stage *s)
{
	const attune_shape *shape = &s->op->shape;
	const double live = (double)part_live_keys(shape, s->batch, PHASE_ALL);
	const double there = (double)s->set_pages * shape->page_size;
	return 1 + (live < there ? live : there) * 2 * shape->num_kv_heads * shape->head_size *
		       dtype_bytes(shape->kv_dtype);
}

void stage_layout(struct stage *s, const attune_op *op, const attune_batch *batch,
		  const attune_settle_how *how)
{
	const size_t seqs = (size_t)batch->num_seqs;
	long long pages = 0, most = 1;
	*s = (struct stage){ .op = op,
			     .dev = &op->ctx->device,
			     .batch = batch,
			     .num_layers = how->num_layers,
			     .eager = how->eager };
	for (int i = 0; i < batch->num_seqs; i++) {
		pages += pages_of(s, i);
		most = max_of(most, pages_of(s, i));
	}
	s->set_pages = max_of(min_of(pages, how->num_pages), 1);
	s->shifts = (int)min_of(how->num_pages / s->set_pages, MOST_SHIFTS);
	s->table_stride = (int)most;
	s->lens_at = aligned((seqs + 1) * sizeof(int32_t));
	s->table_at = s->lens_at + aligned(seqs * sizeof(int32_t));
	s->run_at = s->table_at + aligned(seqs * (size_t)most * sizeof(int32_t));
	s->flush = 2 * s->dev->info.l2_bytes;
}

static const attune_tensors *layer(const struct stage *s, int i, attune_tensors *own)
{
	const void *at = s->layers + (size_t)i * s->layer_size;
	return tensors_read(at, own, "attune_settle");
}

/* The tensors of a call over a set. The layer was read before without an error. */
static void set_tensors(const struct stage *s, int set, attune_tensors *t)
{
	const int shift = set / s->num_layers, size = dtype_bytes(s->op->shape.kv_dtype);
	attune_tensors own;
	*t = *layer(s, set % s->num_layers, &own);
	const int64_t page = shift * s->set_pages;
	t->size = sizeof *t;
	t->k_cache = (const char *)t->k_cache + page * t->k_page_stride * size;
	t->v_cache = (const char *)t->v_cache + page * t->v_page_stride * size;
	t->query_start = (const int32_t *)(const void *)s->workspace;
	t->seq_lens = (const int32_t *)(const void *)(s->workspace + s->lens_at);
	t->block_table = (const int32_t *)(const void *)(s->workspace + s->table_at);
	t->block_table_stride = s->table_stride;
	t->schedule = NULL;
}

static enum attune_status check_layers(const struct stage *s)
{
	const attune_shape *shape = &s->op->shape;
	const int tokens = s->batch->query_start[s->batch->num_seqs];
	for (int i = 0; i < s->num_layers; i++) {
		attune_tensors t, own;
		if (!layer(s, i, &own))
			return ATTUNE_INVALID;
		set_tensors(s, i, &t);
		const char *error = tensor_error(tensors_plain(&own, &t, shape, tokens), shape,
						 s->dev->info.backend);
		if (error)
			return fail(ATTUNE_INVALID, "attune_settle: layer %d: %s", i, error);
	}
	return ATTUNE_OK;
}

static long long gcd(long long a, long long b)
{
	return b ? gcd(b, a % b) : a;
}

/* Page i of a set: neighbours lie a share of 0.618 of the set apart. */
static long long page_step(long long pages)
{
	long long step = max_of(pages * 618 / 1000, 1);
	while (gcd(step, pages) > 1)
		step++;
	return step;
}

enum attune_status stage_fill(const struct stage *s)
{
	const int seqs = s->batch->num_seqs;
	const long long step = page_step(s->set_pages);
	long long n = 0;
	char *host = calloc(1, s->run_at);
	if (!host)
		return fail(ATTUNE_NO_MEMORY, "attune_settle: no memory for %zu bytes", s->run_at);
	memcpy(host, s->batch->query_start, ((size_t)seqs + 1) * sizeof(int32_t));
	memcpy(host + s->lens_at, s->batch->seq_lens, (size_t)seqs * sizeof(int32_t));
	int32_t *table = (int32_t *)(void *)(host + s->table_at);
	for (int i = 0; i < seqs; i++)
		for (long long j = 0; j < pages_of(s, i); j++, n++)
			table[(size_t)i * (size_t)s->table_stride + (size_t)j] =
			    (int32_t)(n % s->set_pages * step % s->set_pages);
	const enum attune_status status = s->dev->ops->put(s->dev, s->workspace, host, s->run_at);
	free(host);
	return status;
}

static int is_zero(const char *bytes, size_t n)
{
	while (n && !bytes[n - 1])
		n--;
	return !n;
}

/* 16 bytes of the first slot of each page lie together in both layouts. */
static enum attune_status look_at_keys(const struct stage *s)
{
	enum { LOOKS = 8, BYTES = 16 };
	const int size = dtype_bytes(s->op->shape.kv_dtype);
	int zeros = 0;
	for (int i = 0; i < LOOKS; i++) {
		attune_tensors t;
		char bytes[BYTES] = "";
		set_tensors(s, (int)((long long)stage_sets(s) * i / LOOKS), &t);
		const long long page = s->set_pages * i / LOOKS;
		const char *at = (const char *)t.k_cache + page * t.k_page_stride * size;
		const enum attune_status status = s->dev->ops->get(s->dev, bytes, at, BYTES);
		if (status)
			return status;
		zeros += is_zero(bytes, BYTES);
	}
	if (zeros <= LOOKS / 2)
		return ATTUNE_OK;
	return fail(
	    ATTUNE_INVALID,
	    "attune_settle: of %d pages of K %d are all zeros, and a device that multiplies "
	    "zeros takes less power: fill the caches with numbers of any kind first",
	    LOOKS, zeros);
}

enum attune_status stage_check(const struct stage *s)
{
	const enum attune_status status = check_layers(s);
	return status ? status : look_at_keys(s);
}

enum attune_status stage_run(const struct stage *s, const attune_plan *plan, int set)
{
	attune_tensors t;
	set_tensors(s, set, &t);
	return attune_run(s->op, plan, &t, s->workspace + s->run_at, s->bytes - s->run_at,
			  s->dev->ops->stream(s->dev));
}

enum attune_status stage_flush(const struct stage *s)
{
	return s->dev->ops->clear(s->dev, s->workspace + s->run_at, s->flush,
				  s->dev->ops->stream(s->dev));
}
