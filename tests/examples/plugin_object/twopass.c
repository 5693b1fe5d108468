/* SPDX-License-Identifier: Apache-2.0 */
/* twopass.c - a kernel in a shared object of its own (attune_plugin.h), on the CPU: for each row
 * first all scores, then their softmax, then the weighted sum of V. Slow, and short.
 *
 *     cc -O3 -march=native -shared -fPIC twopass.c -o twopass.so $(pkg-config --cflags attune) -lm
 *     attune --plugin ./twopass.so sweep --gpu cpu --batch 4q1s256 */
#include <attune_plugin.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION /* -DVERSION='"2"': of the machine code */
#define VERSION "1"
#endif

/* What all batches of a shape share. */
struct op {
	attune_shape shape;
	int unroll; /* the tunable */
};

/* A batch: the lengths are the caller's, so they are copied. */
struct plan {
	int num_seqs, max_seq;
	int32_t *query_start, *seq_lens;
};

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *part,
			   const attune_plugin_device *device)
{
	(void)values, (void)part, (void)device;
	if (s->dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_F16 || s->kv_dtype == ATTUNE_E4M3)
		return "types other than F32 and BF16";
	if (!s->causal || s->window || s->softcap > 0 || s->has_sinks || s->has_alibi || s->has_lse)
		return "masks other than causal, and extras";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	return NULL;
}

static int prepare(void **op, const attune_shape *shape, const int *values,
		   const attune_plugin_device *device, char *error)
{
	struct op *o = malloc(sizeof *o);
	(void)device;
	if (!o) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "no memory");
		return 1;
	}
	*o = (struct op){ *shape, values[0] };
	*op = o;
	return 0;
}

static void free_plan(void *op, void *plan)
{
	struct plan *p = plan;
	(void)op;
	free(p->query_start);
	free(p->seq_lens);
	free(p);
}

static int plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace, char *error)
{
	const size_t n = (size_t)b->lengths->num_seqs;
	struct plan *p = calloc(1, sizeof *p);
	(void)op;
	if (p) {
		p->query_start = malloc((n + 1) * sizeof *p->query_start);
		p->seq_lens = malloc((n + 1) * sizeof *p->seq_lens);
	}
	if (!p || !p->query_start || !p->seq_lens) {
		if (p)
			free_plan(op, p);
		snprintf(error, ATTUNE_PLUGIN_ERROR, "no memory");
		return 1;
	}
	p->num_seqs = b->lengths->num_seqs;
	for (size_t i = 0; i <= n; i++)
		p->query_start[i] = b->lengths->query_start[i];
	for (size_t i = 0; i < n; i++) {
		p->seq_lens[i] = b->lengths->seq_lens[i];
		p->max_seq = p->seq_lens[i] > p->max_seq ? p->seq_lens[i] : p->max_seq;
	}
	*workspace = (size_t)p->max_seq * sizeof(float); /* the scores of one row */
	*out = p;
	return 0;
}

static float load(enum attune_dtype dtype, const void *array, int64_t at)
{
	const uint32_t bits = (uint32_t)((const uint16_t *)array)[at] << 16;
	float f;
	if (dtype == ATTUNE_F32)
		return ((const float *)array)[at];
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Rounds to nearest, ties to even. */
static void store(enum attune_dtype dtype, void *array, int64_t at, float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if (dtype == ATTUNE_F32)
		((float *)array)[at] = f;
	else
		((uint16_t *)array)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The row of a token and query head: `keys` keys from the start of the sequence. */
static void attend(const struct op *o, const attune_tensors *t, const int32_t *table, int keys,
		   int64_t token, int head, float *score)
{
	const attune_shape *s = &o->shape;
	const int kv_head = head / (s->num_query_heads / s->num_kv_heads);
	const int64_t q = token * t->q_token_stride + head * t->q_head_stride;
	const int64_t out = token * t->out_token_stride + head * t->out_head_stride;
	const float scale = s->scale > 0 ? s->scale : 1 / sqrtf((float)s->head_size);
	float most = -FLT_MAX, sum = 0;
	for (int i = 0; i < keys; i++) {
		const int64_t k = table[i / s->page_size] * t->k_page_stride +
				  i % s->page_size * t->k_slot_stride + kv_head * t->k_head_stride;
		float part[4] = { 0 };
		for (int d = 0; d < s->head_size; d += o->unroll)
			for (int j = 0; j < o->unroll; j++)
				part[j] += load(s->dtype, t->q, q + d + j) *
					   load(s->kv_dtype, t->k_cache, k + d + j);
		score[i] = scale * (part[0] + part[1] + part[2] + part[3]);
		most = fmaxf(most, score[i]);
	}
	for (int i = 0; i < keys; i++)
		sum += score[i] = expf(score[i] - most);
	for (int d = 0; d < s->head_size; d++) {
		float mean = 0;
		for (int i = 0; i < keys; i++)
			mean += score[i] *
				load(s->kv_dtype, t->v_cache,
				     table[i / s->page_size] * t->v_page_stride +
					 i % s->page_size * t->v_slot_stride +
					 kv_head * t->v_head_stride + d);
		store(s->dtype, t->out, out + d, keys > 0 ? mean / sum : 0); /* as attune.h says */
	}
}

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct op *o = op;
	const struct plan *p = plan;
	(void)stream, (void)error;
	for (int i = 0; i < p->num_seqs; i++) {
		const int32_t *table = t->block_table + (int64_t)i * t->block_table_stride;
		const int first = p->query_start[i], queries = p->query_start[i + 1] - first;
		for (int j = 0; j < queries; j++)
			for (int h = 0; h < o->shape.num_query_heads; h++)
				attend(o, t, table, p->seq_lens[i] - queries + j + 1, first + j, h,
				       workspace);
	}
	return 0;
}

static void free_op(void *op)
{
	free(op);
}

const attune_plugin *const *attune_plugins(void)
{
	static const int unrolls[] = { 1, 2, 4 };
	static const attune_plugin_axis axes[] = {
		{ "UNROLL", "products that are summed apart", unrolls, 3, 4 },
	};
	static const attune_plugin twopass = { .abi = ATTUNE_PLUGIN_ABI,
					       .name = "twopass",
					       .version = VERSION,
					       .about = "scores, softmax, sum: one row at a time",
					       .backend = "cpu",
					       .axes = axes,
					       .num_axes = 1,
					       .refuses = refuses,
					       .prepare = prepare,
					       .plan = plan,
					       .launch = launch,
					       .free_plan = free_plan,
					       .free_op = free_op };
	static const attune_plugin *const list[] = { &twopass, NULL };
	return list;
}
