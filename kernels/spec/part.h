/* SPDX-License-Identifier: Apache-2.0 */
/* part.h - batches, parts and features (kernels/segments.h). */
#ifndef KERNELS_SPEC_PART_H
#define KERNELS_SPEC_PART_H

#include "kernels/segments.h"

struct device_info;

void part_shape_of(struct part_shape *, const attune_shape *, const struct device_info *);
/* 0: no sequence of the batch is in the phase. Query length 0 is in none. */
int part_make(struct part *, enum phase, const attune_shape *, const attune_batch *,
	      const struct device_info *);
/* The same for several parts, in one pass over the sequences. */
struct batch_sums {
	struct part_shape shape;
	struct part_sums of[PHASE_DECODE + 1];
};
void batch_count(struct batch_sums *, const attune_shape *, const attune_batch *,
		 const struct device_info *);
int part_of_batch(struct part *, enum phase, const struct batch_sums *, const attune_batch *);
/* Q blocks of one phase of a part, as part_q_blocks counts them. */
long long span_q_blocks(const attune_span *, int block_q);
/* Rows of partials at one segment: sequences x tokens of the longest query x query heads. */
long long span_rows(const attune_span *, const attune_shape *);
/* For one head: key tokens that a part reads, which count its bytes, and query-key pairs, which
 * count its flops. */
long long part_live_keys(const attune_shape *, const attune_batch *, enum phase);
long long part_pairs(const attune_shape *, const attune_batch *, enum phase);
/* (query tokens + sequences) x query heads of a batch stay within this. */
enum { MOST_BATCH_ROWS = 0x7fffffff };
const char *shape_error(const attune_shape *); /* NULL when sound */
/* Without a shape only the checks that hold for all shapes. */
const char *batch_error(const attune_batch *, const attune_shape *);
/* The same for the largest batch within these maxima. */
const char *maxima_error(int num_seqs, int num_tokens, int max_query, int max_keys,
			 const attune_shape *);
/* The window as kernels get it; 0: none, or longer than any sequence may be. */
int window_of(const attune_shape *);
/* The last sequence with keys and the number of its pages: the end of the block table. 0, 0: no
 * sequence has keys. */
void batch_table(const attune_batch *, int page_size, int *seq, int *pages);
unsigned page_magic(int page_size);

#endif
