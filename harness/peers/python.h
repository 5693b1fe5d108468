/* SPDX-License-Identifier: Apache-2.0 */
/* python.h - the Python interpreter in this process, and the functions of host.py that run in it. */
#ifndef HARNESS_PEERS_PYTHON_H
#define HARNESS_PEERS_PYTHON_H

#include "kernels/attune_plugin.h"

/* The numbers and addresses that host.py gets of a batch and its tensors, in this order. */
// clang-format off
#define EACH_TENSOR(X) \
	X(out) X(q) X(k_cache) X(v_cache) X(block_table) X(seq_lens) \
	X(sinks) X(alibi_slopes) X(k_scale) X(v_scale) X(lse) \
	X(q_token_stride) X(q_head_stride) X(out_token_stride) X(out_head_stride) \
	X(k_page_stride) X(k_slot_stride) X(k_head_stride) \
	X(v_page_stride) X(v_slot_stride) X(v_head_stride) X(block_table_stride) \
	X(k_scale_seq_stride) X(k_scale_head_stride) X(v_scale_seq_stride) X(v_scale_head_stride) \
	X(lse_token_stride) X(lse_head_stride)
#define EACH_OF_BATCH(X) X(stream) X(num_seqs) X(host_query_start) X(host_seq_lens)
// clang-format on
enum field {
#define FIELD(name) FIELD_##name,
	EACH_OF_BATCH(FIELD) EACH_TENSOR(FIELD)
#undef FIELD
	    NUM_FIELDS
};

/* Functions of host.py. On failure they return 0 and write one line to `error`. Else `prepare`
 * returns the number of an op and `plan` that of a plan; the others return 1. */
struct python_calls {
	long long (*prepare)(const char *path, const char *shape, const int *axes, long long n,
			     char *error);
	long long (*plan)(long long op, const long long *fields, char *error);
	long long (*warm)(long long plan, const long long *fields, char *error);
	long long (*launch)(long long plan, const long long *fields, char *error);
	void (*drop)(long long op_or_plan);
};

/* Opens libpython and starts the interpreter at the first call in a process; neither is ever
 * closed. NULL: failed, and `error` says why. */
const struct python_calls *python_open(const char *library, const char *executable, char *error);

#endif
