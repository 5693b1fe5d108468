/* new_kv.c - K and V of the new tokens as separate tensors: the output of a layer's projection,
 * of which the cache holds a copy.
 *
 *   guard | rows [num_tokens][num_kv_heads][head_size], with the gaps of q | guard
 *
 * The values are those of page set 0, so a kernel may read them here or in the cache. If a query
 * is longer than its sequence, its first tokens have no position, and their rows stay poisoned.
 * Other page sets hold other values; they are only timed. */
#include "check.h"
#include "reference.h"
#include "workload.h"
#include "harness/scenario/scenario.h"
#include "kernels/args.h"
#include "kernels/launch/run.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

/* All heads of the token at a position of a sequence. */
static void write_token(const struct workload *w, char *to, int is_v, int seq, int position)
{
	const attune_tensors *t = &w->tensors;
	const attune_shape *s = &w->scenario->shape;
	const int32_t *table = w->host_table + (size_t)seq * (size_t)t->block_table_stride;
	const int page = table[position / s->page_size], slot = position % s->page_size;
	const size_t size = (size_t)dtype_bytes(s->kv_dtype);
	const size_t head = (size_t)t->k_new_head_stride * size;
	struct attune_args a;
	args_from_tensors(&a, s, t, 0);
	for (int h = 0; h < s->num_kv_heads; h++) {
		const struct kv_place at = kv_place(&a, s, is_v, page, slot, h);
		for (int d = 0; d < s->head_size; d += at.run)
			write_values(to + (size_t)h * head + (size_t)d * size,
				     is_v ? v_stream() : k_stream(),
				     (unsigned long long)(at.first + d / at.run * at.step),
				     (size_t)at.run, s->kv_dtype);
	}
}

static void write_tokens(const struct workload *w, char *to, size_t token, int is_v)
{
	const attune_batch *b = &w->scenario->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = batch_query_len(b, i), context = b->seq_lens[i] - query;
		for (int t = context < 0 ? -context : 0; t < query; t++)
			write_token(w, to + (size_t)(b->query_start[i] + t) * token, is_v, i,
				    context + t);
	}
}

static enum attune_status make(const struct workload *w, void **memory, int is_v)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t token = (size_t)w->tensors.k_new_token_stride *
			     (size_t)dtype_bytes(w->scenario->shape.kv_dtype);
	const size_t tokens = b->num_seqs ? (size_t)b->query_start[b->num_seqs] : 0;
	const size_t bytes = tokens * token + 2 * GUARD;
	char *host = malloc(bytes);
	enum attune_status status;
	if (!host)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	memset(host, POISON, bytes);
	write_tokens(w, host + GUARD, token, is_v);
	status = w->dev->ops->alloc(w->dev, memory, bytes);
	if (!status)
		status = w->dev->ops->put(w->dev, *memory, host, bytes);
	free(host);
	return status;
}

enum attune_status new_kv_make(struct workload *w, void **k, void **v)
{
	const attune_shape *s = &w->scenario->shape;
	attune_tensors *t = &w->tensors;
	const int64_t gap = t->q_head_stride - s->head_size;
	enum attune_status status;
	t->k_new_head_stride = t->v_new_head_stride = s->head_size + gap;
	t->k_new_token_stride = t->v_new_token_stride =
	    s->num_kv_heads * t->k_new_head_stride + 2 * gap;
	status = make(w, k, 0);
	if (!status)
		status = make(w, v, 1);
	t->k_new = (char *)*k + GUARD;
	t->v_new = (char *)*v + GUARD;
	return status;
}
