/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - struct attune_args, the argument of every attention kernel on every backend.
 *
 * GPU kernels take it by value, CPU cells by pointer, so that launches need no per-kernel
 * signature. Device sources include this file too: no pointers to host types, no includes.
 *
 * Shapes (all strides in elements, the innermost stride is 1):
 *
 *   q, out        [num_tokens][num_query_heads][head_size]    by token, head
 *   k_cache, v_c. [num_pages][page_size][num_kv_heads][head_size], any order
 *                 of the first three through page/slot/head strides; or the
 *                 classic layout of attune.h
 *   k_new, v_new  [num_tokens][num_kv_heads][head_size]       by token, head
 *   block_table   [num_seqs][block_table_stride]   logical -> physical page
 *   query_start   [num_seqs + 1]                   running sum of query lengths
 *   seq_lens      [num_seqs]                       context + query length
 *
 * Query token i of a sequence has position seq_len - query_len + i. With `causal` it sees keys
 * 0..position, else all; with `window` w no keys before position - w + 1. A query without a visible
 * key (query longer than the sequence) gets zeros.
 *
 * The cache holds all seq_len keys. k_new and v_new, if the shape has them, repeat those of the
 * query's tokens, with rows as in q. If a query is longer than its sequence, only its last seq_len
 * tokens have keys.
 *
 *   score = scale * (q . k);  softcap c > 0: score = c * tanh(score / c);
 *   alibi: score += slope[head] * (key position - query position);
 *   sinks: one more logit per query head, which has no value row.
 *
 * Segmented runs leave per-segment partials for the reduction:
 *
 *   partial_out [rows][num_query_heads][segments][head_size]   fp32, sum / l
 *   partial_ml  [rows][num_query_heads][segments][2]           m (log2 units), l
 *   row = (seq - seq_begin) * max_query + token in the sequence
 *   A segment with nothing to read has l = 0 and may leave partial_out unset. */
#ifndef ATTUNE_ARGS_H
#define ATTUNE_ARGS_H

/* A range of sequences, as seq_begin .. max_query below. */
struct attune_range {
	int seq_begin, seq_count;
	int min_query, max_query;
};

struct attune_args {
	void *out;
	const void *q;
	const void *k_cache;
	const void *v_cache;
	const int *block_table;
	const int *query_start;
	const int *seq_lens;
	const float *sinks;        /* [num_query_heads] or null */
	const float *alibi_slopes; /* [num_query_heads] or null */
	float *partial_out;
	float *partial_ml;

	long long q_token_stride, q_head_stride;
	long long out_token_stride, out_head_stride;
	long long k_page_stride, k_slot_stride, k_head_stride;
	long long v_page_stride, v_slot_stride, v_head_stride;

	int block_table_stride;
	int num_seqs;
	int num_query_heads;
	int num_kv_heads;
	int group; /* query heads that share one KV head */
	int page_size;
	/* n / page_size == (n * page_magic) >> 32 for all keys n that batches may have: see
	 * page_magic() in spec/part.c */
	unsigned page_magic;

	/* The part of the batch that this launch computes: sequences
	 * seq_begin .. seq_begin + seq_count - 1 whose query length lies in
	 * [min_query, max_query]. Others are left untouched. */
	int seq_begin, seq_count;
	int min_query, max_query;

	int window; /* 0: unlimited */
	int causal;
	int segments; /* 1: write out; more: write partials */
	float scale;
	float softcap; /* 0: none */

	void *scratch; /* SCRATCH of the kernel's .def */

	/* K and V of this step's tokens; null where the shape has none */
	const void *k_new;
	const void *v_new;
	long long k_new_token_stride, k_new_head_stride;
	long long v_new_token_stride, v_new_head_stride;

	union {
		/* The table's entry of the last page of the last sequence that has keys, when the
		 * batch was planned: entries up to it may be read before the lengths. Null: none
		 * may. */
		const int *table_last;
		const int *schedule; /* in persistent kernels; see gpu/helpers/schedule_list.h */
	};
	int option[4];       /* PASS of the kernel's .def */

	struct attune_range prefill, decode; /* sequences of the part; seq_count 0: none */
};

#endif
