/* SPDX-License-Identifier: Apache-2.0 */
/* page_lists.h - struct attune_page_lists_args, the argument of page_table: a step's page lists, and
 * the block table that they become. Device sources include this file too. */
#ifndef ATTUNE_GPU_PAGE_LISTS_H
#define ATTUNE_GPU_PAGE_LISTS_H

/* Passed by value. Row i of the table gets, for j from 0 on:
 *
 *   lists       indices[indptr[i] + j]         up to the end of the list, indptr[i + 1]
 *   no indices  indptr[i] + j * page_size      pages of one token's distance: below indptr[i + 1]
 *
 * What does not fit into the row is left out; entries behind are not written. */
struct attune_page_lists_args {
	const int *indptr;   /* [num_seqs + 1] */
	const void *indices; /* 4 or 8 bytes each; null: none */
	int *table;
	int *seq_lens; /* [num_seqs], gets indptr[i + 1] - indptr[i]; null: none */
	int table_stride, index_bytes, page_size;
};

#endif
