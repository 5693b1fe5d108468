/* args_more.h - what some attention kernels are given beyond args.h, those whose .def has
 * TAKES_MORE: the scales of an 8-bit cache, and a place for the LSE. Apart from args.h, since what
 * has been measured of the others is known by the text that they include.
 *
 *   k_scale, v_scale  by sequence and KV head; a stride may be 0. A key is scale * what the
 *                     cache has, and so is a value
 *   lse               [num_tokens][num_query_heads], by token and head: log(sum of e^score), a
 *                     sink's logit with it; minus infinity where a row sees no key */
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

/* What such a kernel is launched with, by value. */
struct attune_call {
	struct attune_args args;
	struct attune_more more;
};

#endif
