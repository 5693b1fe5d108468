/* SPDX-License-Identifier: Apache-2.0 */
/* paged.h - shared code of the CPU kernels: finds the rows and keys of a cell and the addresses of
 * the keys, loads rows of q and stores rows of out. args.h defines the terms. */
#ifndef ATTUNE_PAGED_H
#define ATTUNE_PAGED_H

#include "../args.h"
#include "simd.h"

#ifndef HEAD_SIZE
#error "compile with -DHEAD_SIZE= -DDTYPE= -DKV_DTYPE= and the axes of the kernel's .def"
#endif

enum { F32, F16, BF16 };
enum {
	D = HEAD_SIZE,
	KV_BYTES = KV_DTYPE == F32 ? 4 : 2,
	Q_BYTES = DTYPE == F32 ? 4 : 2,
};
_Static_assert(D % 8 == 0, "a head is read in groups of 8");

/* Scores are kept in powers of two: exp(x) = exp2(LOG2E x). */
#define LOG2E 1.44269504f
/* The maximum before the first key: finite, so that -inf minus it is -inf. */
#define LOWEST (-1e30f)
#define MASKED (-__builtin_inff())

/* Query tokens first .. first + count - 1 of one sequence. */
struct block {
	int seq, first, count;
	int query_len, seq_len;
};

INLINE int min_int(int a, int b)
{
	return a < b ? a : b;
}

INLINE int max_int(int a, int b)
{
	return a > b ? a : b;
}

/* Number of the first Q block of sequence i of the part: see part_q_blocks(). */
INLINE int first_block(const struct attune_args *a, int i, int block_q)
{
	const int *start = a->query_start + a->seq_begin;
	return (start[i] - start[0]) / block_q + i;
}

/* Q block `index`; 0 if it has no rows of this part. */
INLINE int find_block(struct block *b, const struct attune_args *a, int index, int block_q)
{
	int i = index, end = a->seq_count;
	b->first = 0;
	if (a->max_query > block_q) {
		for (i = 0; end - i > 1;) {
			int middle = i + (end - i) / 2;
			if (first_block(a, middle, block_q) <= index)
				i = middle;
			else
				end = middle;
		}
		b->first = (index - first_block(a, i, block_q)) * block_q;
	}
	b->seq = a->seq_begin + i;
	b->query_len = a->query_start[b->seq + 1] - a->query_start[b->seq];
	b->seq_len = a->seq_lens[b->seq];
	b->count = min_int(block_q, b->query_len - b->first);
	return b->count > 0 && b->query_len >= a->min_query && b->query_len <= a->max_query;
}

INLINE int position(const struct block *b, int token)
{
	return b->seq_len - b->query_len + token;
}

/* Keys that query token `token` of the sequence sees: [*lo, *hi), perhaps none. */
INLINE void visible(const struct attune_args *a, const struct block *b, int token, int *lo, int *hi)
{
	const int at = position(b, token);
	*hi = a->causal ? max_int(0, at + 1) : b->seq_len;
	*lo = a->window ? max_int(0, at - a->window + 1) : 0;
	if (*lo > *hi)
		*lo = *hi;
}

/* Keys that any token of the block sees. Both ends grow with the token. */
INLINE void visible_to_block(const struct attune_args *a, const struct block *b, int *lo, int *hi)
{
	int other;
	visible(a, b, b->first, lo, &other);
	visible(a, b, b->first + b->count - 1, &other, hi);
}

/* Byte offsets of keys first .. first + n - 1 of KV head 0 from the starts of the caches. Key
 * first + i goes to entry i % run * step + i / run. */
INLINE void list_keys(const struct attune_args *a, const struct block *b, int first, int n, int run,
		      int step, long long *k, long long *v)
{
	const int *page = a->block_table + (long long)b->seq * a->block_table_stride;
	int number = first / a->page_size, slot = first % a->page_size, at = 0, left = run;
	for (int i = 0; i < n; number++, slot = 0) {
		const long long k_page = page[number] * a->k_page_stride;
		const long long v_page = page[number] * a->v_page_stride;
		for (; slot < a->page_size && i < n; slot++, i++) {
			k[at] = (k_page + slot * a->k_slot_stride) * KV_BYTES;
			v[at] = (v_page + slot * a->v_slot_stride) * KV_BYTES;
			at += step;
			if (--left == 0) {
				left = run;
				at -= run * step - 1;
			}
		}
	}
}

/* n elements of a type in order: 8 or LANES. */
INLINE V load_as(const int type, const void *p, const int n)
{
	if (type == F32)
		return v_f32(p, n);
	if (type == F16)
		return v_f16(p, n);
	return v_bf16(p, n);
}

/* Calls LINE(d, n) for the vectors of a head: n is LANES, or 8 at the end. */
#define EACH_VECTOR(LINE)                                             \
	do {                                                          \
		for (int d_ = 0; d_ < D / LANES * LANES; d_ += LANES) \
			LINE(d_, LANES);                              \
		if (D % LANES)                                        \
			LINE(D / LANES * LANES, D % LANES);           \
	} while (0)

INLINE const char *q_row(const struct attune_args *a, const struct block *b, int token, int head)
{
	const long long t = a->query_start[b->seq] + token;
	return (const char *)a->q + (t * a->q_token_stride + head * a->q_head_stride) * Q_BYTES;
}

INLINE char *out_row(const struct attune_args *a, const struct block *b, int token, int head)
{
	const long long t = a->query_start[b->seq] + token;
	return (char *)a->out + (t * a->out_token_stride + head * a->out_head_stride) * Q_BYTES;
}

/* to[d] = q[d] * factor; `to` has room for LANES more. */
INLINE void q_load(float *to, const char *q, float factor)
{
#define LINE(d, n) v_store(to + (d), v_set(factor) * load_as(DTYPE, q + (d)*Q_BYTES, n))
	EACH_VECTOR(LINE);
#undef LINE
}

INLINE void out_vector(char *out, V x, int n)
{
	if (DTYPE == F16)
		v_to_f16(out, x, n);
	else if (DTYPE == BF16)
		v_to_bf16(out, x, n);
	else if (n == LANES)
		v_store((float *)(void *)out, x);
	else
		memcpy(out, &x, (size_t)n * 4);
}

/* out[d] = from[d] * factor; `from` has room for LANES more. */
INLINE void out_store(char *out, const float *from, float factor)
{
#define LINE(d, n) out_vector(out + (d)*Q_BYTES, v_load(from + (d)) * v_set(factor), n)
	EACH_VECTOR(LINE);
#undef LINE
}

/* The factor from q . k to a score before the softcap. */
INLINE float q_factor(const struct attune_args *a)
{
	return a->softcap > 0 ? a->scale / a->softcap : a->scale * LOG2E;
}

INLINE V soften(const struct attune_args *a, V score)
{
	if (a->softcap > 0)
		return v_set(a->softcap * LOG2E) * v_tanh(score);
	return score;
}

#endif
