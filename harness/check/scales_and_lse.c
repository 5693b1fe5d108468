/* SPDX-License-Identifier: Apache-2.0 */
/* scales_and_lse.c - makes the scales of an 8-bit cache, a guarded LSE, and K and V of the new tokens;
 * checks the LSE.
 *
 *   scales  chosen by the scenario's seed, which is part of its identity:
 *           seed % 3 = 0: none; 1: one for K and one for V; 2: one per sequence and KV head.
 *           A check for a plug-in has no more than ATTUNE_PLUGIN_ONE_SCALE or
 *           ATTUNE_PLUGIN_NO_SCALES allow
 *   lse     guard | [num_tokens][num_query_heads], with gaps where q has gaps | guard
 *
 * The LSE is an fp32 sum of numbers that inherit the error of scores (tolerance.c), then a
 * logarithm, good to 2^-22. */
#include "check.h"
#include "workload.h"
#include "reference.h"
#include "harness/base/base.h"
#include "harness/plugin/plugin.h"
#include "harness/scenario/scenario.h"
#include "kernels/args.h"
#include "kernels/args_more.h"
#include "kernels/launch/run.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most scales that a plug-in of these needs takes. */
static enum scales most_scales(unsigned needs)
{
	return needs & ATTUNE_PLUGIN_NO_SCALES   ? SCALES_NONE
	       : needs & ATTUNE_PLUGIN_ONE_SCALE ? SCALES_ONE
						 : SCALES_EACH;
}

const char *scales_refused(const struct kernel *k, enum scales scales)
{
	const enum scales most = k->plugin ? most_scales(k->plugin->needs) : SCALES_EACH;
	if (scales <= most)
		return NULL;
	return most == SCALES_ONE ? "it takes one scale of K and one of V only"
				  : "it takes an E4M3 cache without scales only";
}

enum scales workload_scales(const struct workload *w)
{
	const enum scales asked = scenario_scales(w->scenario), most = most_scales(w->needs);
	return asked < most ? asked : most;
}

static enum attune_status make_scales(struct workload *w, void **memory)
{
	const size_t heads = (size_t)w->scenario->shape.num_kv_heads;
	const size_t seqs = (size_t)w->scenario->batch->view.num_seqs;
	const enum scales kind = workload_scales(w);
	const size_t n = kind == SCALES_EACH ? seqs * heads : 1, bytes = 2 * n * sizeof(float);
	unsigned long long state = w->scenario->seed;
	attune_tensors *t = &w->tensors;
	enum attune_status status;
	if (kind == SCALES_NONE || !n)
		return ATTUNE_OK;
	w->scales = malloc(bytes);
	if (!w->scales)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < 2 * n; i++) /* 0.25 .. 1.25 */
		w->scales[i] = (float)(next_random(&state) >> 40) / (1 << 24) + 0.25f;
	status = w->dev->ops->alloc(w->dev, memory, bytes);
	if (!status)
		status = w->dev->ops->put(w->dev, *memory, w->scales, bytes);
	t->k_scale = *memory;
	t->v_scale = t->k_scale + n;
	if (kind == SCALES_EACH) {
		t->k_scale_seq_stride = t->v_scale_seq_stride = (int64_t)heads;
		t->k_scale_head_stride = t->v_scale_head_stride = 1;
	}
	return status;
}

static enum attune_status make_lse(struct workload *w, void **memory)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t tokens = b->num_seqs ? (size_t)b->query_start[b->num_seqs] : 0;
	const int64_t gap = w->tensors.q_head_stride - w->scenario->shape.head_size;
	attune_tensors *t = &w->tensors;
	t->lse_head_stride = gap ? 2 : 1;
	t->lse_token_stride = w->scenario->shape.num_query_heads * t->lse_head_stride + gap;
	w->lse_bytes = tokens * (size_t)t->lse_token_stride * sizeof(float) + 2 * GUARD;
	const enum attune_status status = w->dev->ops->alloc(w->dev, memory, w->lse_bytes);
	t->lse = (float *)((char *)*memory + GUARD);
	return status;
}

enum attune_status scales_and_lse_make(struct workload *w, void **scales, void **lse)
{
	const attune_shape *s = &w->scenario->shape;
	enum attune_status status = ATTUNE_OK;
	if (s->kv_dtype == ATTUNE_E4M3)
		status = make_scales(w, scales);
	return status || !s->has_lse ? status : make_lse(w, lse);
}

void workload_host_scales(const struct workload *w, struct attune_more *m)
{
	struct attune_call c;
	call_from_tensors(&c, &w->scenario->shape, &w->tensors, 0);
	*m = c.more;
	if (m->k_scale) {
		m->v_scale = w->scales + (m->v_scale - m->k_scale);
		m->k_scale = w->scales;
	}
	m->lse = NULL;
}

/* ---- what was written ---------------------------------------------------------------------- */

struct written {
	struct verdict *v;
	const struct workload *w;
	enum phase phase;
	const float *row;     /* after the guard */
	unsigned char *taken; /* for each float, guards included: it belongs to a row */
};

static int is_poison(const float *at)
{
	uint32_t bits;
	memcpy(&bits, at, sizeof bits);
	return bits == 0x01010101u * POISON;
}

static size_t place_of(const struct written *x, int token, int head)
{
	const attune_tensors *t = &x->w->tensors;
	return (size_t)(token * t->lse_token_stride + head * t->lse_head_stride);
}

static void report_row(const struct written *x, const struct expected_row *r, const char *what)
{
	x->v->outcome = OUTCOME_WRONG;
	snprintf(x->v->text, sizeof x->v->text, "sequence %d, token %d, head %d: the LSE %s",
		 r->seq, r->token, r->head, what);
}

/* Each row of the phase must hold a number or minus infinity. */
static void check_rows(struct written *x)
{
	const attune_batch *b = &x->w->scenario->batch->view;
	struct expected_row r;
	for (r.seq = 0; r.seq < b->num_seqs; r.seq++)
		for (r.token = 0;
		     batch_is_of_phase(b, x->phase, r.seq) && r.token < batch_query_len(b, r.seq);
		     r.token++)
			for (r.head = 0; r.head < x->w->scenario->shape.num_query_heads; r.head++) {
				const size_t at =
				    place_of(x, b->query_start[r.seq] + r.token, r.head);
				x->taken[GUARD / sizeof(float) + at] = 1;
				if (is_poison(&x->row[at]))
					report_row(x, &r, "was not written");
				else if (isnan(x->row[at]) || x->row[at] == INFINITY)
					report_row(x, &r, "is not a number");
			}
}

static void check_gaps(struct written *x)
{
	const float *first = x->row - GUARD / sizeof(float);
	for (size_t i = 0; i < x->w->lse_bytes / sizeof(float); i++)
		if (!x->taken[i] && !is_poison(&first[i])) {
			x->v->outcome = OUTCOME_WRONG;
			snprintf(x->v->text, sizeof x->v->text,
				 "wrote between or around the rows of the LSE");
		}
}

static void compare(struct written *x, const struct expected *e)
{
	const attune_batch *b = &x->w->scenario->batch->view;
	for (int i = 0; i < e->num_rows && x->v->outcome == OUTCOME_OK; i++) {
		const struct expected_row *r = &e->row[i];
		if (!batch_is_of_phase(b, x->phase, r->seq))
			continue;
		const double got = x->row[place_of(x, b->query_start[r->seq] + r->token, r->head)];
		const double want = e->lse[i], most = 0x1p-12 + 0x1p-18 * fabs(want);
		char what[80];
		if (got == want || fabs(got - want) <= most)
			continue;
		snprintf(what, sizeof what, "is %g, expected %g +- %.2g", got, want, most);
		report_row(x, r, what);
	}
}

void check_lse(struct verdict *v, const struct workload *w, const void *memory,
	       const struct expected *e, enum phase phase)
{
	float *bytes = malloc(w->lse_bytes);
	struct written x = { v, w, phase, NULL, calloc(w->lse_bytes / sizeof(float), 1) };
	if (!bytes || !x.taken || w->dev->ops->get(w->dev, bytes, memory, w->lse_bytes)) {
		v->outcome = OUTCOME_RESOURCES;
		snprintf(v->text, sizeof v->text, "the LSE cannot be read back");
	} else {
		x.row = bytes + GUARD / sizeof(float);
		check_rows(&x);
		check_gaps(&x);
		compare(&x, e);
	}
	free(x.taken);
	free(bytes);
}

/* ---- new keys and values ----------------------------------------------------------- */
/* K and V of the new tokens as separate tensors: the output of a layer's projection, of which the
 * cache holds a copy.
 *
 *   guard | rows [num_tokens][num_kv_heads][head_size], with the gaps of q | guard
 *
 * The values are those of page set 0, so a kernel may read them here or in the cache. If a query
 * is longer than its sequence, its first tokens have no position, and their rows stay poisoned.
 * Other page sets hold other values; they are only timed. */

/* All heads of the token at a position of a sequence. */
static void write_token(const struct workload *w, char *to, int is_v, int seq, int position)
{
	const attune_tensors *t = &w->tensors;
	const attune_shape *s = &w->scenario->shape;
	const int32_t *table = w->host_table + (size_t)seq * (size_t)t->block_table_stride;
	const int page = table[position / s->page_size], slot = position % s->page_size;
	const size_t size = (size_t)dtype_bytes(s->kv_dtype);
	const size_t head = (size_t)t->k_new_head_stride * size;
	struct attune_args a;
	args_from_tensors(&a, s, t, 0);
	for (int h = 0; h < s->num_kv_heads; h++) {
		const struct kv_place at = kv_place(&a, s, is_v, page, slot, h);
		for (int d = 0; d < s->head_size; d += at.run) {
			const struct in_stream from =
			    in_stream_of(&w->order, is_v, at.first + d / at.run * at.step);
			write_values(to + (size_t)h * head + (size_t)d * size, from.stream,
				     from.first, (size_t)at.run, s->kv_dtype);
		}
	}
}

static void write_tokens(const struct workload *w, char *to, size_t token, int is_v)
{
	const attune_batch *b = &w->scenario->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = batch_query_len(b, i), context = b->seq_lens[i] - query;
		for (int t = context < 0 ? -context : 0; t < query; t++)
			write_token(w, to + (size_t)(b->query_start[i] + t) * token, is_v, i,
				    context + t);
	}
}

static enum attune_status make(const struct workload *w, void **memory, int is_v)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t token = (size_t)w->tensors.k_new_token_stride *
			     (size_t)dtype_bytes(w->scenario->shape.kv_dtype);
	const size_t tokens = b->num_seqs ? (size_t)b->query_start[b->num_seqs] : 0;
	const size_t bytes = tokens * token + 2 * GUARD;
	char *host = malloc(bytes);
	enum attune_status status;
	if (!host)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	memset(host, POISON, bytes);
	write_tokens(w, host + GUARD, token, is_v);
	status = w->dev->ops->alloc(w->dev, memory, bytes);
	if (!status)
		status = w->dev->ops->put(w->dev, *memory, host, bytes);
	free(host);
	return status;
}

enum attune_status new_kv_make(struct workload *w, void **k, void **v)
{
	const attune_shape *s = &w->scenario->shape;
	attune_tensors *t = &w->tensors;
	const int64_t gap = t->q_head_stride - s->head_size;
	enum attune_status status;
	t->k_new_head_stride = t->v_new_head_stride = s->head_size + gap;
	t->k_new_token_stride = t->v_new_token_stride =
	    s->num_kv_heads * t->k_new_head_stride + 2 * gap;
	status = make(w, k, 0);
	if (!status)
		status = make(w, v, 1);
	t->k_new = (char *)*k + GUARD;
	t->v_new = (char *)*v + GUARD;
	return status;
}
