/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise.c - a plug-in for the CPU: one cell for each query token and query head, a running
 * softmax over the keys that it sees, KEYS of them at a time. */
#include "cpu/paged.h"

enum { VECTORS = (D + LANES - 1) / LANES, PADDED = VECTORS * LANES };

/* The row of a key in a cache of these strides. */
static const char *key_row(const struct attune_args *a, const struct block *b, const void *cache,
			   int key, long long page_stride, long long slot_stride, long long head)
{
	const int page = (int)(((unsigned long long)key * a->page_magic) >> 32);
	const int *table = a->block_table + (long long)b->seq * a->block_table_stride;
	const long long at = table[page] * page_stride +
			     (key - page * a->page_size) * slot_stride + head;
	return (const char *)cache + at * KV_BYTES;
}

static float dot(const float *q, const char *k)
{
	V sum = v_set(0);
	for (int d = 0; d < D; d += LANES)
		sum = v_fma(v_load(q + d),
			    load_as(KV_DTYPE, k + d * KV_BYTES, min_int(D - d, LANES)), sum);
	return v_sum(sum);
}

/* cell (x, y) = query head x of Q block y, which is one query token */
void ENTRY(const struct attune_args *a, int x, int y, int z)
{
	struct block b;
	const int kv_head = x / a->group;
	float q[PADDED + LANES] = { 0 }, o[PADDED + LANES] = { 0 }, most = LOWEST, sum = 0;
	int lo, hi;
	(void)z;
	if (!find_block(&b, a, y, 1))
		return; /* a sequence of the other part */
	visible(a, &b, b.first, &lo, &hi);
	q_load(q, q_row(a, &b, b.first, x), a->scale * LOG2E);
	for (int first = lo; first < hi; first += KEYS) {
		const int n = min_int(KEYS, hi - first);
		float score[KEYS], top = most;
		for (int i = 0; i < n; i++) {
			score[i] = dot(q, key_row(a, &b, a->k_cache, first + i, a->k_page_stride,
						  a->k_slot_stride, kv_head * a->k_head_stride));
			top = score[i] > top ? score[i] : top;
		}
		const float fade = exp2_of(most - top);
		sum *= fade;
		for (int d = 0; d < PADDED; d += LANES)
			v_store(o + d, v_fma(v_load(o + d), v_set(fade), v_set(0)));
		for (int i = 0; i < n; i++) {
			const float weight = exp2_of(score[i] - top);
			const char *v = key_row(a, &b, a->v_cache, first + i, a->v_page_stride,
						a->v_slot_stride, kv_head * a->v_head_stride);
			sum += weight;
			for (int d = 0; d < D; d += LANES)
				v_store(o + d, v_fma(load_as(KV_DTYPE, v + d * KV_BYTES,
							     min_int(D - d, LANES)),
						     v_set(weight), v_load(o + d)));
		}
		most = top;
	}
	out_store(out_row(a, &b, b.first, x), o, sum > 0 ? 1 / sum : 0);
}
