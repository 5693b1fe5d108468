/* SPDX-License-Identifier: Apache-2.0 */
/* front_rows.h - rows with a kernel in front of an attention call that began early
 * (ATTUNE_START_EARLY): that kernel may still write Q and this step's keys, and the call must
 * not write its output yet. Include after gpu_rows.h and simt_device.h. */
#ifndef TESTS_KERNELS_FRONT_ROWS_H
#define TESTS_KERNELS_FRONT_ROWS_H

#include "kernels/args_more.h"

static const attune_shape *front_shape; /* of the calls to come; out is of 16 bits */

static inline struct simt_pending rows_of(const void *at, long long count, long long bytes,
					  int is_new)
{
	return (struct simt_pending){ (void *)(uintptr_t)at, (size_t)(count * bytes), is_new };
}

/* One key's row of K and of V in each head; `at`: its page and slot. */
static inline int put_key(struct simt_pending *v, const struct attune_args *a, long long page,
			  long long slot)
{
	const int bytes = dtype_bytes(front_shape->kv_dtype), size = front_shape->head_size;
	const char *k = a->k_cache, *w = a->v_cache;
	int n = 0;
	for (int h = 0; h < a->num_kv_heads; h++) {
		v[n++] = rows_of(k + bytes * (page * a->k_page_stride + slot * a->k_slot_stride +
					      h * a->k_head_stride),
				 size, bytes, 1);
		v[n++] = rows_of(w + bytes * (page * a->v_page_stride + slot * a->v_slot_stride +
					      h * a->v_head_stride),
				 size, bytes, 1);
	}
	return n;
}

static inline int what_is_pending(struct simt_pending *v, int room, const void *args)
{
	const struct attune_args *a = args;
	const int tokens = a->query_start[a->num_seqs];
	const long long parts = (long long)a->seq_count * a->max_query * a->num_query_heads;
	int n = 0;
	v[n++] = rows_of(a->q, tokens, 2 * a->q_token_stride, 1);
	v[n++] = rows_of(a->out, tokens, 2 * a->out_token_stride, 0);
	if (front_shape->has_lse) {
		const struct attune_more *m = &((const struct attune_call *)args)->more;
		v[n++] = rows_of(m->lse, tokens, m->lse_token_stride * (long long)sizeof(float), 0);
	}
	if (a->segments > 1) {
		v[n++] = rows_of(a->partial_ml, parts * a->segments, 2 * sizeof(float), 0);
		v[n++] = rows_of(a->partial_out, parts * a->segments * front_shape->head_size,
				 sizeof(float), 0);
	}
	for (int s = 0; s < a->num_seqs; s++) {
		const int len = a->seq_lens[s];
		const int context = len - (a->query_start[s + 1] - a->query_start[s]);
		for (int key = context > 0 ? context : 0; key < len; key++) {
			assert_true(n + 2 * a->num_kv_heads <= room);
			n += put_key(v + n, a,
				     a->block_table[s * a->block_table_stride + key / a->page_size],
				     key % a->page_size);
		}
	}
	return n;
}

#endif
