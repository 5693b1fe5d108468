/* SPDX-License-Identifier: Apache-2.0 */
/* write_args.h - struct attune_write, the argument of the kernel write_kv, which writes K and V of
 * new tokens into the cache. Of `call` it takes the caches, their strides, k_new and v_new with
 * theirs, block_table, query_start, seq_lens, num_seqs, and the scales. The meaning is that of
 * attune_write_kv. */
#ifndef ATTUNE_GPU_WRITE_ARGS_H
#define ATTUNE_GPU_WRITE_ARGS_H

#include "../../args_more.h"

#define WRITE_PIECE   8   /* elements of a thread */
#define WRITE_THREADS 256 /* of a block */

/* Passed by value. */
struct attune_write {
	struct attune_call call;
	const long long *slots; /* [num_tokens] or null: by block_table and the lengths */
	int num_tokens, head_size;
	int is_classic;     /* the layout of the cache */
	int has_seq_scales; /* a scale depends on the sequence */
	/* On a GPU: pieces of a token that a block has, tokens of a block, and what page_magic
	 * gives for `width` and for the pieces of a head. */
	int width, tokens;
	unsigned width_magic, of_head_magic;
};

#endif
