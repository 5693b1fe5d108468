/* SPDX-License-Identifier: Apache-2.0 */
/* api_check.c - outputs of a run against the fp64 reference: all rows for what is simple, some rows for
 * each element. */
#include "api.h"
#include "harness/check/reference.h"
#include "harness/check/check.h"
#include "kernels/args_more.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys x elements of the rows that are computed. */
static const double reference_work = 3e6;

static void fetch_mirror(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
			 double *row)
{
	const struct world *w = source->more;
	const attune_shape *s = &w->s;
	const float *from =
	    (is_v ? w->value : w->key) +
	    (((int64_t)page * s->page_size + slot) * s->num_kv_heads + kv_head) * s->head_size;
	for (int e = 0; e < s->head_size; e++)
		row[e] = from[e];
}

/* What the definition reads, in the caller's words. */
static void args_of(struct attune_args *a, struct attune_more *m, const struct world *w)
{
	const attune_shape *s = &w->s;
	const attune_tensors *t = &w->host;
	const int is_scaled = s->kv_dtype == ATTUNE_E4M3;
	*a = (struct attune_args){
		.q = t->q,
		.block_table = t->block_table,
		.query_start = t->query_start,
		.seq_lens = t->seq_lens,
		.sinks = s->has_sinks ? w->sinks : NULL,
		.alibi_slopes = s->has_alibi ? t->alibi_slopes : NULL,
		.q_token_stride = t->q_token_stride,
		.q_head_stride = t->q_head_stride,
		.block_table_stride = t->block_table_stride,
		.group = s->num_query_heads / s->num_kv_heads,
		.page_size = s->page_size,
		.window = s->window,
		.causal = s->causal,
		.scale = s->scale > 0 ? s->scale : 1 / sqrtf((float)s->head_size),
		.softcap = s->softcap,
	};
	*m = (struct attune_more){
		.k_scale = is_scaled ? t->k_scale : NULL,
		.v_scale = is_scaled ? t->v_scale : NULL,
		.k_scale_seq_stride = t->k_scale_seq_stride,
		.k_scale_head_stride = t->k_scale_head_stride,
		.v_scale_seq_stride = t->v_scale_seq_stride,
		.v_scale_head_stride = t->v_scale_head_stride,
	};
}

static int sees_a_key(const struct world *w, int i, int token)
{
	const int query = w->query_start[i + 1] - w->query_start[i], seq = w->seq_lens[i];
	const long long at = (long long)seq - query + token;
	const long long from = w->s.window ? at - w->s.window + 1 : 0, to = w->s.causal ? at : seq;
	return seq > 0 && to >= 0 && from < seq && from <= (to < seq ? to : seq - 1);
}

/* ---- all rows ---------------------------------------------------------------------------- */

/* Of a row that sees no key. */
static double lse_of_none(const struct world *w, int head)
{
	return w->s.has_sinks && w->sinks[head] > -FLT_MAX ? w->sinks[head] : -INFINITY;
}

static void check_simply(const struct world *w, int i, int token, int head, const char *what)
{
	const attune_shape *s = &w->s;
	const attune_tensors *t = &w->host;
	const int64_t row = w->query_start[i] + token;
	const int sees = sees_a_key(w, i, token);
	const double most = sees ? w->largest_value * 1.02 : 0;
	for (int e = 0; e < s->head_size; e++) {
		const double got = value_of(
		    s->dtype, t->out, row * t->out_token_stride + head * t->out_head_stride + e);
		if (!(fabs(got) <= most))
			fault("%s: sequence %d, token %d, head %d, element %d is %g: %s", what, i,
			      token, head, e, got,
			      sees ? "beyond all values" : "the row sees no key");
	}
	if (!s->has_lse)
		return;
	const double lse = t->lse[row * t->lse_token_stride + head * t->lse_head_stride];
	if (sees ? !isfinite(lse) : lse != lse_of_none(w, head))
		fault("%s: sequence %d, token %d, head %d: LSE %g", what, i, token, head, lse);
}

/* Nothing else was written. Takes the rows away from the host's copy. */
static void check_gaps(const struct world *w, const char *what)
{
	const attune_shape *s = &w->s;
	const attune_tensors *t = &w->host;
	const size_t bytes = (size_t)dtype_bytes(s->dtype);
	for (int64_t row = 0; row < w->query_start[w->batch.num_seqs]; row++)
		for (int h = 0; h < s->num_query_heads; h++) {
			memset(w->a[OUT].host +
				   (row * t->out_token_stride + h * t->out_head_stride) *
				       (int64_t)bytes,
			       API_POISON, (size_t)s->head_size * bytes);
			if (s->has_lse)
				memset(&t->lse[row * t->lse_token_stride + h * t->lse_head_stride],
				       API_POISON, sizeof(float));
		}
	if (!is_untouched(w))
		fault("%s: writes beside the rows of out or lse", what);
}

/* ---- some rows --------------------------------------------------------------------------- */

static void check_exactly(const struct world *w, const struct kv_source *source, int i, int token,
			  int head, const char *what)
{
	const attune_shape *s = &w->s;
	const attune_tensors *t = &w->host;
	const int64_t row = w->query_start[i] + token;
	const double inexact = 0x1p-22 * w->largest_score; /* of a score, in fp32 */
	double want[512], mass[512], lse;
	struct kv_source from = *source;
	from.mass = mass;
	from.lse = &lse;
	reference_row_from(&from, i, token, head, want);
	for (int e = 0; e < s->head_size; e++) {
		const double got = value_of(
		    s->dtype, t->out, row * t->out_token_stride + head * t->out_head_stride + e);
		const double most = check_tolerance(s, mass[e], want[e]) + 2 * inexact * mass[e];
		if (!(fabs(got - want[e]) <= most))
			fault("%s: sequence %d, token %d, head %d, element %d is %g, %g +- %g is "
			      "right",
			      what, i, token, head, e, got, want[e], most);
	}
	if (!s->has_lse)
		return;
	const double got = t->lse[row * t->lse_token_stride + head * t->lse_head_stride];
	if (lse == -INFINITY)
		lse = lse_of_none(w, head);
	if (got != lse && !(fabs(got - lse) <= 1e-3 + 1e-5 * fabs(lse) + inexact))
		fault("%s: sequence %d, token %d, head %d: LSE %g, %g is right", what, i, token,
		      head, got, lse);
}

/* Rows at random, and the last token of some sequences, until so much is computed. */
static void check_some(const struct world *w, struct dice *d, const struct kv_source *source,
		       const char *what)
{
	const int n = w->batch.num_seqs;
	double left = reference_work;
	for (int tries = 0; n && left > 0 && tries < 400; tries++) {
		const int i = below(d, n), query = w->query_start[i + 1] - w->query_start[i];
		if (!query)
			continue;
		const int token = one_in(d, 3) ? query - 1 : below(d, query);
		check_exactly(w, source, i, token, below(d, w->s.num_query_heads), what);
		left -= (double)w->seq_lens[i] * w->s.head_size + 1000;
	}
}

void check_world(struct world *w, struct dice *d, const char *what)
{
	struct attune_args args;
	struct attune_more more;
	args_of(&args, &more, w);
	const struct kv_source source = {
		.fetch = fetch_mirror, .args = &args, .shape = &w->s, .more = w, .scales = &more
	};
	world_fetch(w);
	for (int i = 0; i < w->batch.num_seqs; i++)
		for (int token = 0; token < w->query_start[i + 1] - w->query_start[i]; token++)
			for (int h = 0; h < w->s.num_query_heads; h++)
				check_simply(w, i, token, h, what);
	check_some(w, d, &source, what);
	check_gaps(w, what);
}
