/* SPDX-License-Identifier: Apache-2.0 */
/* lse_apart.c - the LSE on CPUs: a launch of its own behind the parts. */
#include "extra.h"
#include "kernels/args_more.h"
#include "kernels/segments.h"

enum { ROWS = 64 }; /* as in cpu/lse.c */

enum attune_status lse_apart(const attune_op *op, const struct attune_call *c,
			     const attune_tensors *t, int num_tokens)
{
	struct attune_args a = c->args;
	const long long blocks = num_tokens / max_of(ROWS / a.group, 1) + a.num_seqs;
	a.out = t->lse;
	a.out_token_stride = t->lse_token_stride;
	a.out_head_stride = t->lse_head_stride;
	a.seq_begin = 0;
	a.seq_count = a.num_seqs;
	a.min_query = 1;
	a.max_query = 0x7fffffff;
	return extra_launch(op, EXTRA_LSE, (unsigned)a.num_kv_heads, (unsigned)blocks, &a, sizeof a,
			    NULL);
}
