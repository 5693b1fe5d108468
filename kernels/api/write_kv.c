/* SPDX-License-Identifier: Apache-2.0 */
/* write_kv.c - attune_write_kv: writes K and V of a step's new tokens into the cache, on a GPU by
 * the kernel write_kv. */
#include "kernels/gpu/helpers/write_args.h"
#include "kernels/attune.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/launch/write.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"

static const char call[] = "attune_write_kv";

static void fill(struct attune_write *w, const attune_op *op, int num_seqs, int num_tokens,
		 const attune_tensors *t, const int64_t *slots)
{
	const attune_shape *s = &op->shape;
	struct attune_args *a = &w->call.args;
	call_from_tensors(&w->call, s, t, num_seqs);
	a->k_new = t->k_new;
	a->v_new = t->v_new;
	w->slots = (const long long *)slots;
	w->num_tokens = num_tokens;
	w->head_size = s->head_size;
	w->is_classic = s->kv_layout == ATTUNE_KV_CLASSIC;
	w->has_seq_scales = write_needs_seq(t, s);
}

static enum attune_status write_by_cpu(const attune_op *op, const struct attune_write *w)
{
	const attune_shape *s = &op->shape;
	if (w->is_classic || s->kv_dtype != s->dtype)
		return fail(ATTUNE_UNSUPPORTED,
			    "%s: on the CPU the cache must be one of strides, and of the type of "
			    "k_new and v_new",
			    call);
	return write_on_cpu(&op->ctx->device, w, dtype_bytes(s->dtype));
}

/* A row of pieces is K, or V, of a token. Where it has more than a block has threads, several
 * blocks share it. */
static enum attune_status write_by_gpu(const attune_op *op, struct attune_write *w, void *stream)
{
	const int of_head = w->head_size / WRITE_PIECE;
	const int pieces = of_head * op->shape.num_kv_heads;
	w->width = (int)min_of(pieces, WRITE_THREADS);
	w->tokens = WRITE_THREADS / w->width;
	w->width_magic = page_magic(w->width);
	w->of_head_magic = page_magic(of_head);
	const long long blocks = (w->num_tokens + w->tokens - 1ll) / w->tokens;
	return extra_launch(op, EXTRA_WRITE_KV, (unsigned)blocks,
			    (unsigned)((pieces + w->width - 1) / w->width), w, sizeof *w, stream);
}

enum attune_status attune_write_kv(const attune_op *op, int num_seqs, int num_tokens,
				   const attune_tensors *tensors, const int64_t *slots,
				   void *stream)
{
	attune_tensors own, plain;
	struct attune_write w;
	if (!op || !tensors)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	tensors = tensors_read(tensors, &own, call);
	if (!tensors)
		return ATTUNE_INVALID;
	if (num_seqs < 0 || num_tokens < 0)
		return fail(ATTUNE_INVALID,
			    "%s: num_seqs is %d, num_tokens %d: they must be 0 or more", call,
			    num_seqs, num_tokens);
	if (!num_tokens)
		return ATTUNE_OK;
	const enum backend backend = op->ctx->device.info.backend;
	tensors = tensors_plain(&plain, tensors, &op->shape, num_tokens);
	const char *error = write_error(tensors, &op->shape, backend, slots != NULL);
	if (!error && !num_seqs && (!slots || write_needs_seq(tensors, &op->shape)))
		error = "num_seqs is 0: without slots, and with a scale for each sequence, tokens "
			"are those of sequences";
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	fill(&w, op, num_seqs, num_tokens, tensors, slots);
	return backend == BACKEND_CPU ? write_by_cpu(op, &w) : write_by_gpu(op, &w, stream);
}
