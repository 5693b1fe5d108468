/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c - checks the tensors of a call: all that the shape needs must be given, and aligned as
 * GPU kernels need them. */
#include "run.h"

const attune_tensors *tensors_plain(attune_tensors *own, const attune_tensors *t,
				    const attune_shape *s, int num_tokens)
{
	const int has_slots = s->page_size > 1 && s->kv_layout != ATTUNE_KV_CLASSIC;
	if (s->num_kv_heads > 1 && has_slots && num_tokens > 1)
		return t;
	*own = *t;
	if (s->num_query_heads == 1)
		own->q_head_stride = own->out_head_stride = 0;
	if (s->num_kv_heads == 1)
		own->k_head_stride = own->v_head_stride = own->k_new_head_stride =
		    own->v_new_head_stride = 0;
	if (!has_slots)
		own->k_slot_stride = own->v_slot_stride = 0;
	if (num_tokens == 1)
		own->q_token_stride = own->out_token_stride = own->k_new_token_stride =
		    own->v_new_token_stride = 0;
	return own;
}

/* 16-byte copies: GPU kernels move 8 elements of 16 bits at a time. */
static const char *rows_error(const attune_tensors *t)
{
	const int64_t strides = t->k_new_token_stride | t->k_new_head_stride |
				t->v_new_token_stride | t->v_new_head_stride;
	if (strides % 8 || ((uintptr_t)t->k_new | (uintptr_t)t->v_new) % 16)
		return "on a GPU k_new and v_new must be 16-byte aligned, and their strides "
		       "multiples of 8 elements";
	return NULL;
}

static const char *new_kv_error(const attune_tensors *t, const attune_shape *shape,
				enum backend backend)
{
	if (!shape->has_new_kv)
		return NULL;
	if (!t->k_new || !t->v_new)
		return "the shape announces k_new and v_new that are not given";
	return backend == BACKEND_CPU ? NULL : rows_error(t);
}

/* Of the cache, on a GPU. */
static const char *keys_error(const attune_tensors *t, const attune_shape *shape)
{
	const int64_t keys = t->k_page_stride | t->k_slot_stride | t->k_head_stride |
			     t->v_page_stride | t->v_slot_stride | t->v_head_stride;
	if (keys % 8)
		return "on a GPU all strides must be multiples of 8 elements";
	if (keys * dtype_bytes(shape->kv_dtype) % 16)
		return "on a GPU the strides of an E4M3 cache must be multiples of 16 elements";
	return NULL;
}

const char no_lse[] = "the shape announces lse, which is not given";

const char *tensor_error(const attune_tensors *t, const attune_shape *shape, enum backend backend)
{
	const int64_t rows =
	    t->q_token_stride | t->q_head_stride | t->out_token_stride | t->out_head_stride;
	if (!t->out || !t->q || !t->k_cache || !t->v_cache || !t->block_table || !t->query_start ||
	    !t->seq_lens)
		return "out, q, k_cache, v_cache, block_table, query_start and seq_lens must be "
		       "given";
	if ((shape->has_sinks && !t->sinks) || (shape->has_alibi && !t->alibi_slopes))
		return "the shape announces sinks or ALiBi slopes that are not given";
	if (shape->has_lse && !t->lse)
		return no_lse;
	if (backend == BACKEND_CPU)
		return new_kv_error(t, shape, backend);
	const char *error = rows % 8 ? "on a GPU all strides must be multiples of 8 elements"
				     : keys_error(t, shape);
	if (error)
		return error;
	if (((uintptr_t)t->out | (uintptr_t)t->q | (uintptr_t)t->k_cache | (uintptr_t)t->v_cache) %
	    16)
		return "on a GPU out, q, k_cache and v_cache must be 16-byte aligned";
	return new_kv_error(t, shape, backend);
}

const char *write_error(const attune_tensors *t, const attune_shape *shape, enum backend backend,
			int has_slots)
{
	if (!t->k_new || !t->v_new || !t->k_cache || !t->v_cache)
		return "k_new, v_new, k_cache and v_cache must be given";
	if (!has_slots && (!t->block_table || !t->query_start || !t->seq_lens))
		return "without slots block_table, query_start and seq_lens must be given";
	if (write_needs_seq(t, shape) && !t->query_start)
		return "with a scale for each sequence query_start must be given";
	if (backend == BACKEND_CPU)
		return NULL;
	if (((uintptr_t)t->k_cache | (uintptr_t)t->v_cache) % 16)
		return "on a GPU k_cache and v_cache must be 16-byte aligned";
	const char *error = keys_error(t, shape);
	return error ? error : rows_error(t);
}

int write_needs_seq(const attune_tensors *t, const attune_shape *shape)
{
	return shape->kv_dtype == ATTUNE_E4M3 &&
	       ((t->k_scale && t->k_scale_seq_stride) || (t->v_scale && t->v_scale_seq_stride));
}
