/* SPDX-License-Identifier: Apache-2.0 */
/* sinks.c - what an op does about sinks beside its kernels, which take them as floats and leave
 * minus infinity as the LSE of a row without keys. */
#include "extra.h"
#include "kernels/args_more.h"
#include "kernels/gpu/helpers/sinks_args.h"
#include "kernels/segments.h"
#include "run.h"
#include <string.h>

enum { ALIGN = 16, SHARE = 128 };

size_t op_workspace(const attune_op *op, enum attune_how how, const size_t *part, int n, size_t *at,
		    size_t *sinks_at)
{
	const size_t bytes = parts_workspace(how, part, n, at);
	const size_t aligned = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	if (sinks_at)
		*sinks_at = aligned;
	if (!n || !sinks_are_widened(&op->shape))
		return bytes;
	return aligned + (size_t)op->shape.num_query_heads * sizeof(float);
}

/* The bits of a float that equals one of 16 bits. */
static uint32_t widened(uint16_t bits, int is_bf16)
{
	const uint32_t sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu;
	uint32_t fraction = size & 0x3ff, exponent = (size >> 10) + 112;
	if (is_bf16)
		return (uint32_t)bits << 16;
	if (size >= 0x7c00) /* infinity, NaN */
		return sign | 0x7f800000 | fraction << 13;
	if (size < 0x400) { /* 0, or denormal: shifted until its first bit is the implied one */
		if (!fraction)
			return sign;
		for (exponent = 113; !(fraction & 0x400); exponent--)
			fraction <<= 1;
	}
	return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

enum attune_status sinks_widen(const attune_op *op, const void *sinks, float *to, void *stream)
{
	const attune_shape *s = &op->shape;
	const struct attune_widen_sinks_args a = { sinks, to, s->num_query_heads,
						   s->sinks_dtype == ATTUNE_BF16 };
	if (op->ctx->device.info.backend == BACKEND_GPU)
		return extra_launch(op, EXTRA_WIDEN_SINKS, (unsigned)parts_of(a.n, SHARE), 1, &a,
				    sizeof a, stream);
	for (int i = 0; i < a.n; i++) {
		const uint32_t bits = widened(a.from[i], a.is_bf16);
		memcpy(&to[i], &bits, sizeof bits);
	}
	return ATTUNE_OK;
}

enum attune_status sink_rows(const attune_op *op, const struct attune_call *c, void *stream)
{
	const struct attune_sink_rows_args a = { c->args.sinks,
						 c->args.query_start,
						 c->args.seq_lens,
						 c->more.lse,
						 c->more.lse_token_stride,
						 c->more.lse_head_stride,
						 op->shape.num_query_heads,
						 op->shape.causal };
	return extra_launch(op, EXTRA_SINK_ROWS, (unsigned)c->args.num_seqs, 1, &a, sizeof a,
			    stream);
}
