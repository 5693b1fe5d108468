/* SPDX-License-Identifier: Apache-2.0 */
/* args_more.h - struct attune_call, the argument of kernels with TAKES_MORE: args.h, the scales of
 * an 8-bit cache and the LSE. It is not in args.h, since measurements of other kernels are tied to
 * the text that they include.
 *
 *   k_scale, v_scale  by sequence and KV head; a stride may be 0. Keys and values are the cache's
 *                     elements times these
 *   lse               [num_tokens][num_query_heads], by token and head: log(sum of e^score),
 *                     including a sink's logit; minus infinity if a row sees no key */
#ifndef ATTUNE_ARGS_MORE_H
#define ATTUNE_ARGS_MORE_H

#include "args.h"

struct attune_more {
	const float *k_scale, *v_scale; /* null: 1 */
	long long k_scale_seq_stride, k_scale_head_stride;
	long long v_scale_seq_stride, v_scale_head_stride;
	float *lse; /* null: not wanted */
	long long lse_token_stride, lse_head_stride;
};

/* Passed by value. */
struct attune_call {
	struct attune_args args;
	struct attune_more more;
};

#endif
