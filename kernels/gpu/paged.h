/* SPDX-License-Identifier: Apache-2.0 */
/* paged.h - finds the sequence of a block, its visible keys and their pages. */
#ifndef ATTUNE_GPU_PAGED_H
#define ATTUNE_GPU_PAGED_H

#include "gpu.h"

/* A Q block: block_q query tokens of one sequence. */
struct q_block {
	int seq, token; /* the sequence; its first token in the block */
	int query_len, seq_len;
	int first_row; /* token 0 of the sequence among all query tokens */
};

DEVICE int block_of_seq(const attune_args &a, int seq, int block_q)
{
	return (a.query_start[seq] - a.query_start[a.seq_begin]) / block_q + seq - a.seq_begin;
}

/* Q block `index` of the launch, numbered as in part_q_blocks(). 0: no work there (a surplus
 * number, or a sequence of the other part). */
DEVICE int find_q_block(const attune_args &a, int index, int block_q, q_block &b)
{
	int lo = a.seq_begin, hi = a.seq_begin + a.seq_count - 1;
	if (a.max_query <= block_q) {
		lo += index; /* one block a sequence */
		b.token = 0;
	} else {
		while (lo < hi) { /* the last sequence that starts at or before index */
			const int mid = (lo + hi + 1) / 2;
			if (block_of_seq(a, mid, block_q) <= index)
				lo = mid;
			else
				hi = mid - 1;
		}
		b.token = (index - block_of_seq(a, lo, block_q)) * block_q;
	}
	b.seq = lo;
	b.first_row = a.query_start[lo];
	b.query_len = a.query_start[lo + 1] - b.first_row;
	b.seq_len = a.seq_lens[lo];
	return b.query_len >= a.min_query && b.query_len <= a.max_query && b.token < b.query_len;
}

/* The Q block of a sequence that begins with that token. 0: no work there. */
DEVICE int q_block_at(const attune_args &a, int seq, int token, q_block &b)
{
	b.seq = seq;
	b.token = token;
	b.first_row = a.query_start[seq];
	b.query_len = a.query_start[seq + 1] - b.first_row;
	b.seq_len = a.seq_lens[seq];
	return b.query_len >= a.min_query && b.query_len <= a.max_query && token < b.query_len;
}

/* Keys [begin, end) that at least one of the tokens first..last sees. */
DEVICE void visible_keys(const attune_args &a, const q_block &b, int first, int last, int &begin,
			 int &end)
{
	const int context = b.seq_len - b.query_len;
	begin = a.window ? max(0, context + first - a.window + 1) : 0;
	end = a.causal ? min(b.seq_len, context + last + 1) : b.seq_len;
	end = max(end, begin);
}

DEVICE u32 page_of(const attune_args &a, u32 key)
{
#ifdef __AMDGCN__
	return __umulhi(key, a.page_magic) + (a.page_magic ? 0 : key); /* else it branches */
#else
	return a.page_magic ? __umulhi(key, a.page_magic) : key;
#endif
}

#endif
