/* write_args.h - struct attune_write, the argument of the kernel write_kv, which writes K and V of
 * new tokens into the cache. Of `call` it takes the caches, their strides, k_new and v_new with
 * theirs, block_table, query_start, seq_lens, num_seqs, and the scales. The meaning is that of
 * attune_write_kv. */
#ifndef ATTUNE_GPU_WRITE_ARGS_H
#define ATTUNE_GPU_WRITE_ARGS_H

#include "../../args_more.h"

/* Passed by value. */
struct attune_write {
	struct attune_call call;
	const long long *slots; /* [num_tokens] or null: by block_table and the lengths */
	int num_tokens, head_size;
	int is_classic; /* the layout of the cache */
};

#endif
