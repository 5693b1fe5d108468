/* SPDX-License-Identifier: Apache-2.0 */
/* sinks_args.h - the arguments of widen_sinks and sink_rows, each passed by value. Device sources
 * include this file too. */
#ifndef ATTUNE_GPU_SINKS_ARGS_H
#define ATTUNE_GPU_SINKS_ARGS_H

/* to[n] = from[n], of 16 bits */
struct attune_widen_sinks_args {
	const unsigned short *from;
	float *to;
	int n, is_bf16;
};

/* Sequences from 0 on; strides by query token and head. */
struct attune_sink_rows_args {
	const float *sinks; /* [num_heads] */
	const int *query_start, *seq_lens;
	float *lse;
	long long lse_token_stride, lse_head_stride;
	int num_heads, causal;
};

#endif
