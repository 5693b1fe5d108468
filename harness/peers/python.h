/* python.h - the Python interpreter in this process, as host.py serves it. */
#ifndef HARNESS_PEERS_PYTHON_H
#define HARNESS_PEERS_PYTHON_H

#include "kernels/attune_plugin.h"

/* What host.py reads of a batch and of its tensors, in the order of X. */
#define EACH_TENSOR(X)                                                                            \
	X(out)                                                                                    \
	X(q) X(k_cache) X(v_cache) X(block_table) X(seq_lens) X(sinks) X(alibi_slopes) X(k_scale) \
	    X(v_scale) X(lse) X(q_token_stride) X(q_head_stride) X(out_token_stride)              \
		X(out_head_stride) X(k_page_stride) X(k_slot_stride) X(k_head_stride)             \
		    X(v_page_stride) X(v_slot_stride) X(v_head_stride) X(block_table_stride)      \
			X(k_scale_seq_stride) X(k_scale_head_stride) X(v_scale_seq_stride)        \
			    X(v_scale_head_stride) X(lse_token_stride) X(lse_head_stride)
#define EACH_OF_BATCH(X) X(stream) X(num_seqs) X(host_query_start) X(host_seq_lens)
enum field {
#define FIELD(name) FIELD_##name,
	EACH_OF_BATCH(FIELD) EACH_TENSOR(FIELD)
#undef FIELD
	    NUM_FIELDS
};

/* Functions of host.py. They return 0 and write one line to `error`, or a number that is not 0: of
 * an op, of a plan. */
struct python_calls {
	long long (*prepare)(const char *path, const char *shape, const int *axes, long long n,
			     char *error);
	long long (*plan)(long long op, const long long *fields, char *error);
	long long (*warm)(long long plan, const long long *fields, char *error);
	long long (*launch)(long long plan, const long long *fields, char *error);
	void (*drop)(long long op_or_plan);
};

/* Opens libpython, once in a process, which then keeps it. NULL and a line. */
const struct python_calls *python_open(const char *library, const char *executable, char *error);

#endif
