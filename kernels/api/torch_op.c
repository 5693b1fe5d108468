/* SPDX-License-Identifier: Apache-2.0 */
/* torch_op.c - what the operators of torch do with their tensors. */
#include "torch_op.h"
#include "torch_host.h"
#include "kernels/attune.h"
#include "kernels/launch/run.h"
#include "kernels/segments.h"
#include "kernels/spec/status.h"
#include <limits.h>

/* ---- parts of attune_tensors ---- */

/* K and V of a cache; of three dimensions: ragged, token by token, as pages that overlap. */
static enum attune_status take_cache(attune_tensors *a, const attune_op *op, const struct tensor *k,
				     const struct tensor *v)
{
	const attune_shape *s = &op->shape;
	const int64_t any = AT_LEAST(0), page = s->page_size, heads = s->num_kv_heads;
	const int64_t head = s->head_size;
	const int64_t x = s->kv_dtype == ATTUNE_F32 ? 4 : s->kv_dtype == ATTUNE_E4M3 ? 16 : 8;
	struct wanted wk = { s->kv_dtype, 4, { any, page, heads, head } }, wv = wk;
	const int is_strided = s->kv_layout == ATTUNE_KV_STRIDED;
	const int is_ragged = is_strided && k->dims == 3 && v->dims == 3;
	if (is_ragged) {
		wk = wv = (struct wanted){ s->kv_dtype, 3, { any, heads, head } };
	} else if (!is_strided) {
		wk = (struct wanted){ s->kv_dtype, 5, { any, heads, head / x, page, x } };
		wv = (struct wanted){ s->kv_dtype, 4, { any, heads, head, page } };
	}
	enum attune_status status = tensor_fits_packed(k, op, &wk);
	if (!status)
		status = tensor_fits_packed(v, op, &wv);
	if (status)
		return status;
	const int slot = is_strided && !is_ragged, of_head = is_strided && !is_ragged ? 2 : 1;
	a->k_cache = k->data;
	a->v_cache = v->data;
	a->k_page_stride = k->stride[0];
	a->v_page_stride = v->stride[0];
	a->k_slot_stride = is_strided ? k->stride[slot] : 0;
	a->v_slot_stride = is_strided ? v->stride[slot] : 0;
	a->k_head_stride = k->stride[of_head];
	a->v_head_stride = v->stride[of_head];
	a->kv_slots = !is_ragged ? 0 : k->size[0] < v->size[0] ? k->size[0] : v->size[0];
	return ATTUNE_OK;
}

static enum attune_status row_stride(const struct tensor *table, int *stride)
{
	/* That of a lone row says nothing. */
	const int64_t n = table->size[0] > 1 ? table->stride[0] : table->size[1];
	*stride = (int)n;
	if (n >= 0 && n <= INT_MAX)
		return ATTUNE_OK;
	return fail(ATTUNE_INVALID, "%s: the stride of a row of %s must be below 2^31", table->call,
		    table->name);
}

static enum attune_status take_lengths(attune_tensors *a, const struct planned *p,
				       const struct tensor *table, const struct tensor *query_start,
				       const struct tensor *seq_lens)
{
	const int64_t seqs = p->plan.num_seqs;
	const int pages = p->plan.table_pages == WHOLE_ROW ? 0 : p->plan.table_pages;
	const struct wanted t = { TYPE_INT32, 2, { AT_LEAST(seqs), AT_LEAST(pages) } };
	const struct wanted q = { TYPE_INT32, 1, { AT_LEAST(seqs + 1) } };
	const struct wanted s = { TYPE_INT32, 1, { AT_LEAST(seqs) } };
	enum attune_status status = tensor_fits_packed(table, p->op, &t);
	if (!status)
		status = tensor_fits_packed(query_start, p->op, &q);
	if (!status)
		status = tensor_fits_packed(seq_lens, p->op, &s);
	if (!status)
		status = row_stride(table, &a->block_table_stride);
	if (status)
		return status;
	a->block_table = table->data;
	a->query_start = query_start->data;
	a->seq_lens = seq_lens->data;
	return ATTUNE_OK;
}

/* Factors of K or V: one, one a KV head, or one a sequence and KV head. */
static enum attune_status take_scale(const struct tensor *t, const struct planned *p,
				     const float **at, int64_t *seq_stride, int64_t *head_stride)
{
	const int64_t heads = p->op->shape.num_kv_heads;
	struct wanted w = { ATTUNE_F32, 2, { AT_LEAST(p->plan.num_seqs), heads } };
	if (!t->data)
		return ATTUNE_OK;
	*at = t->data;
	if (t->dims == 2) {
		*seq_stride = t->stride[0];
		*head_stride = t->size[1] > 1 ? t->stride[1] : 0;
		w.size[1] = t->size[1] > 1 ? heads : 1;
	} else if (t->dims == 1) {
		*head_stride = t->size[0] > 1 ? t->stride[0] : 0;
		w = (struct wanted){ ATTUNE_F32, 1, { t->size[0] > 1 ? heads : 1 } };
	} else if (t->dims == 0) {
		w.dims = 0;
	}
	return tensor_fits(t, p->op, &w);
}

static enum attune_status take_scales(attune_tensors *a, const struct planned *p,
				      const struct tensor *k, const struct tensor *v)
{
	const enum attune_status status =
	    take_scale(k, p, &a->k_scale, &a->k_scale_seq_stride, &a->k_scale_head_stride);
	return status
		   ? status
		   : take_scale(v, p, &a->v_scale, &a->v_scale_seq_stride, &a->v_scale_head_stride);
}

static enum attune_status take_new(attune_tensors *a, const attune_op *op, int64_t tokens,
				   const struct tensor *k, const struct tensor *v)
{
	const attune_shape *s = &op->shape;
	const struct wanted w = { s->dtype,
				  3,
				  { AT_LEAST(tokens), s->num_kv_heads, s->head_size } };
	enum attune_status status = tensor_fits_packed(k, op, &w);
	if (!status)
		status = tensor_fits_packed(v, op, &w);
	if (status)
		return status;
	a->k_new = k->data;
	a->v_new = v->data;
	a->k_new_token_stride = k->stride[0];
	a->k_new_head_stride = k->stride[1];
	a->v_new_token_stride = v->stride[0];
	a->v_new_head_stride = v->stride[1];
	return ATTUNE_OK;
}

/* ---- attune::paged_attention ---- */

// clang-format off
enum { OUT, Q, K_CACHE, V_CACHE, BLOCK_TABLE, QUERY_START, SEQ_LENS, PLAN, LSE, K_SCALE, V_SCALE,
	SINKS, SLOPES, K_NEW, V_NEW };
// clang-format on

/* A tensor that the shape announces is given, and no other one. */
static enum attune_status announced(const struct tensor *t, int has)
{
	if (!t->data == !has)
		return ATTUNE_OK;
	return fail(ATTUNE_INVALID,
		    has ? "%s: %s is missing: the op was prepared with it"
			: "%s: %s is given, but the op was prepared without it",
		    t->call, t->name);
}

static enum attune_status take_rows(attune_tensors *a, const struct planned *p,
				    const struct tensor *t)
{
	const attune_shape *s = &p->op->shape;
	const int64_t tokens = AT_LEAST(p->plan.num_tokens), heads = s->num_query_heads;
	const struct wanted rows = { s->dtype, 3, { tokens, heads, s->head_size } };
	const struct wanted lse = { ATTUNE_F32, 2, { tokens, heads } };
	const int has_lse = s->has_lse || p->op->lse_apart;
	enum attune_status status = tensor_fits_packed(&t[Q], p->op, &rows);
	if (!status)
		status = tensor_fits_packed(&t[OUT], p->op, &rows);
	if (!status)
		status = announced(&t[LSE], has_lse);
	if (!status && has_lse)
		status = tensor_fits(&t[LSE], p->op, &lse);
	if (!status)
		status = tensor_is_writable(&t[OUT]);
	if (!status && has_lse)
		status = tensor_is_writable(&t[LSE]);
	if (status)
		return status;
	a->out = t[OUT].data;
	a->out_token_stride = t[OUT].stride[0];
	a->out_head_stride = t[OUT].stride[1];
	a->q = t[Q].data;
	a->q_token_stride = t[Q].stride[0];
	a->q_head_stride = t[Q].stride[1];
	a->lse = t[LSE].data;
	if (a->lse) {
		a->lse_token_stride = t[LSE].stride[0];
		a->lse_head_stride = t[LSE].stride[1];
	}
	return ATTUNE_OK;
}

static enum attune_status take_heads(attune_tensors *a, const struct planned *p,
				     const struct tensor *t)
{
	const attune_shape *s = &p->op->shape;
	const struct wanted of_heads = { ATTUNE_F32, 1, { s->num_query_heads } };
	const struct wanted sinks = { s->sinks_dtype, 1, { s->num_query_heads } };
	enum attune_status status = announced(&t[SINKS], s->has_sinks);
	if (!status && s->has_sinks)
		status = tensor_fits_packed(&t[SINKS], p->op, &sinks);
	if (!status)
		status = announced(&t[SLOPES], s->has_alibi);
	if (!status && s->has_alibi)
		status = tensor_fits_packed(&t[SLOPES], p->op, &of_heads);
	a->sinks = t[SINKS].data;
	a->alibi_slopes = t[SLOPES].data;
	return status;
}

static enum attune_status take_all(attune_tensors *a, const struct planned *p,
				   const struct tensor *t)
{
	const attune_shape *s = &p->op->shape;
	enum attune_status status = take_rows(a, p, t);
	if (!status)
		status = take_cache(a, p->op, &t[K_CACHE], &t[V_CACHE]);
	if (!status)
		status = take_lengths(a, p, &t[BLOCK_TABLE], &t[QUERY_START], &t[SEQ_LENS]);
	if (!status)
		status = take_scales(a, p, &t[K_SCALE], &t[V_SCALE]);
	if (!status)
		status = take_heads(a, p, t);
	if (!status)
		status = announced(&t[K_NEW], s->has_new_kv);
	if (!status)
		status = announced(&t[V_NEW], s->has_new_kv);
	return !status && s->has_new_kv
		   ? take_new(a, p->op, p->plan.num_tokens, &t[K_NEW], &t[V_NEW])
		   : status;
}

enum attune_status torch_attend(struct tensor *t)
{
	const struct planned *p;
	struct rows of_out, of_q;
	void *handle = NULL, *workspace = NULL, *stream;
	attune_tensors a = { .size = sizeof a };
	enum attune_status status = planned_of(&t[PLAN], &p);
	if (!status && !t[OUT].handle)
		status = tensor_make(&t[OUT], &t[Q], t[Q].dims, t[Q].size);
	if (status || !p->plan.num_parts)
		return status;
	tensor_rows(&t[OUT], &of_out);
	tensor_rows(&t[Q], &of_q);
	status = take_all(&a, p, t);
	if (!status)
		status = host_step_fits(p, &a, &t[Q], &t[BLOCK_TABLE], &t[K_CACHE], &t[V_CACHE]);
	if (!status)
		status = tensor_stream(&t[Q], &stream);
	if (!status && p->plan.workspace)
		status = tensor_bytes(&t[Q], p->plan.workspace, &handle, &workspace);
	if (!status)
		status = attune_run(p->op, &p->plan, &a, workspace, p->plan.workspace, stream);
	if (handle)
		torch.delete_tensor_object(handle);
	return status;
}

/* ---- attune::write_kv ---- */

enum attune_status torch_write_kv(struct tensor *t)
{
	enum { K_TO, V_TO, K_FROM, V_FROM, OF, SLOTS, TABLE, STARTS, LENS, K_BY, V_BY };
	const struct planned *p;
	struct rows of_k, of_v;
	void *stream;
	attune_tensors a = { .size = sizeof a };
	enum attune_status status = planned_of(&t[OF], &p);
	if (status || !t[K_FROM].data)
		return status;
	tensor_rows(&t[K_FROM], &of_k);
	tensor_rows(&t[V_FROM], &of_v);
	const struct wanted w = { TYPE_INT64, 1, { AT_LEAST(0) } };
	if (t[SLOTS].data)
		status = tensor_fits_packed(&t[SLOTS], p->op, &w);
	const int by_slots = !status && t[SLOTS].data, by_seqs = t[STARTS].data != NULL;
	const int64_t tokens = by_slots ? t[SLOTS].size[0] : t[K_FROM].size[0];
	if (!status)
		status = take_new(&a, p->op, tokens, &t[K_FROM], &t[V_FROM]);
	if (!status)
		status = take_cache(&a, p->op, &t[K_TO], &t[V_TO]);
	if (!status)
		status = tensor_is_writable(&t[K_TO]);
	if (!status)
		status = tensor_is_writable(&t[V_TO]);
	if (!status && (!by_slots || by_seqs))
		status = take_lengths(&a, p, &t[TABLE], &t[STARTS], &t[LENS]);
	if (!status)
		status = by_slots
			     ? host_slots_fit(p, &t[SLOTS], &t[K_TO], &t[V_TO])
			     : host_step_fits(p, &a, &t[K_FROM], &t[TABLE], &t[K_TO], &t[V_TO]);
	if (!status)
		status = take_scales(&a, p, &t[K_BY], &t[V_BY]);
	if (!status)
		status = tensor_stream(&t[K_TO], &stream);
	if (status)
		return status;
	if (tokens > INT_MAX)
		return fail(ATTUNE_INVALID, "%s: %s has 2^31 tokens or more", t->call,
			    t[K_FROM].name);
	return attune_write_kv(p->op, a.seq_lens ? p->plan.num_seqs : 0, (int)tokens, &a,
			       t[SLOTS].data, stream);
}

/* ---- attune::page_table ---- */

enum attune_status torch_page_table(struct tensor *t)
{
	enum { TABLE, INDPTR, INDICES, OF };
	const struct planned *p;
	void *stream;
	int row;
	enum attune_status status = planned_of(&t[OF], &p);
	if (status || !t[TABLE].data)
		return status;
	const int64_t seqs = p->plan.num_seqs;
	const struct wanted table = { TYPE_INT32, 2, { AT_LEAST(seqs), AT_LEAST(1) } };
	const struct wanted starts = { TYPE_INT32, 1, { AT_LEAST(seqs + 1) } };
	const int wide = t[INDICES].type == TYPE_INT64;
	const struct wanted pages = { wide ? TYPE_INT64 : TYPE_INT32, 1, { AT_LEAST(1) } };
	status = tensor_fits_packed(&t[INDPTR], p->op, &starts);
	if (!status)
		status = tensor_fits_packed(&t[TABLE], p->op, &table);
	if (!status && t[INDICES].data)
		status = tensor_fits_packed(&t[INDICES], p->op, &pages);
	if (!status)
		status = row_stride(&t[TABLE], &row);
	if (!status)
		status = tensor_is_writable(&t[TABLE]);
	if (!status)
		status = host_lists_fit(p->op, seqs, &t[TABLE], &t[INDPTR], &t[INDICES]);
	if (!status)
		status = tensor_stream(&t[TABLE], &stream);
	if (status)
		return status;
	const attune_page_lists lists = { sizeof lists, wide ? 8 : 4, t[INDPTR].data,
					  t[INDICES].data, NULL };
	return attune_page_table(p->op, (int)seqs, &lists, t[TABLE].data, row, stream);
}

enum attune_status torch_ragged_table(struct tensor *t)
{
	enum { TABLE, LENS, STARTS, OF, ENTRIES };
	const int64_t size[] = { t[STARTS].dims == 1 ? max_of(t[STARTS].size[0] - 1, 0) : 0,
				 t[ENTRIES].number };
	const struct tensor no_indices = { 0 };
	const struct planned *p;
	void *stream;
	enum attune_status status = planned_of(&t[OF], &p);
	if (!status && (size[1] < 1 || size[1] > INT_MAX))
		status = fail(ATTUNE_INVALID, "%s: %s is %lld, it must be from 1 to 2^31 - 1",
			      t->call, t[ENTRIES].name, (long long)size[1]);
	if (!status)
		status = tensor_make(&t[TABLE], &t[STARTS], 2, size);
	if (!status)
		status = tensor_make(&t[LENS], &t[STARTS], 1, size);
	if (status || !p->plan.num_seqs)
		return status;
	const int64_t seqs = p->plan.num_seqs;
	const struct wanted starts = { TYPE_INT32, 1, { AT_LEAST(seqs + 1) } };
	status = tensor_fits_packed(&t[STARTS], p->op, &starts);
	if (!status)
		status = host_lists_fit(p->op, seqs, &t[TABLE], &t[STARTS], &no_indices);
	if (!status)
		status = tensor_stream(&t[STARTS], &stream);
	if (status)
		return status;
	const attune_page_lists lists = { sizeof lists, 4, t[STARTS].data, NULL, t[LENS].data };
	return attune_page_table(p->op, (int)seqs, &lists, t[TABLE].data, (int)size[1], stream);
}
