/* lse_apart.c - the LSE on CPUs: a launch of its own behind the parts. */
#include "extra.h"
#include "kernels/args_more.h"
#include "kernels/segments.h"

enum { ROWS = 64 }; /* as in cpu/lse.c */

enum attune_status lse_apart(const attune_op *op, const struct attune_call *c, float *lse,
			     int64_t token_stride, int64_t head_stride)
{
	struct attune_args a = c->args;
	const int tokens = a.query_start[a.num_seqs];
	const long long blocks = tokens / max_of(ROWS / a.group, 1) + a.num_seqs;
	a.out = lse;
	a.out_token_stride = token_stride;
	a.out_head_stride = head_stride;
	a.seq_begin = 0;
	a.seq_count = a.num_seqs;
	a.min_query = 1;
	a.max_query = 0x7fffffff;
	return extra_launch(op, EXTRA_LSE, (unsigned)a.num_kv_heads, (unsigned)blocks, &a, sizeof a,
			    NULL);
}
