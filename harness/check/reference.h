/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - attention by its definition, and the elements of tensors as numbers. */
#ifndef HARNESS_CHECK_REFERENCE_H
#define HARNESS_CHECK_REFERENCE_H

#include "kernels/attune.h"

struct attune_args;

/* Attention by its definition, in fp64, on the host. out[head_size] is the row of
 * query token `token` of sequence `seq` and query head `head`. All pointers of `args` are host
 * memory; dtypes are the shape's. */
void reference_row(const struct attune_args *args, const attune_shape *shape, int seq, int token,
		   int head, double *out);
/* The same with K and V from a callback: fetch fills row[head_size] with the cache's elements at
 * (page, slot, kv_head). */
struct kv_source {
	void (*fetch)(const struct kv_source *, int is_v, int page, int slot, int kv_head,
		      double *row);
	const struct attune_args *args;
	const attune_shape *shape;
	const void *more;
	double *mass; /* [head_size] or NULL: out with |v| for v, the scale of rounding errors */
	/* [head_size] or NULL: the sum of squares of the changes of out, each by an error of one
	 * weight or of one element of q that is as large as it is itself, or 2^-6, the least normal
	 * E4M3, if that is more (harness/check/tolerance.c) */
	double *squares;
	const struct attune_more *scales; /* NULL: all are 1 */
	double *lse;                      /* of the row, or NULL */
	double *scores; /* room for [seq_len]; NULL: each score is computed twice */
};
/* Element d of K or V at (page, slot, kv_head) lies at first + d / run * step + d % run. */
struct kv_place {
	long long first;
	int run, step;
};
struct kv_place kv_place(const struct attune_args *, const attune_shape *, int is_v, int page,
			 int slot, int kv_head);
void reference_row_from(const struct kv_source *, int seq, int token, int head, double *out);
/* An element of an array, as a double. */
double value_of(enum attune_dtype, const void *array, long long index);
/* Writes an element, rounded to nearest, ties to even. NaN and infinities stay, except that E4M3,
 * whose largest value is 448, has no infinity: what rounds beyond that becomes NaN. */
void value_put(enum attune_dtype, void *array, long long index, float value);

#endif
