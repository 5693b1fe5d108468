/* SPDX-License-Identifier: Apache-2.0 */
/* api_hostile.c - calls that must be refused, or answered right where they happen to be sound: fields
 * out of range, missing arguments, plans with other counts, workspaces that are too small. A run that
 * is refused leaves its output alone. */
#include "api.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAY_PASS = 1u << ATTUNE_OK, INVALID = 1u << ATTUNE_INVALID };
enum { UNSUPPORTED = 1u << ATTUNE_UNSUPPORTED, TOO_SMALL = 1u << ATTUNE_TOO_SMALL };

static int odd_int(struct dice *d)
{
	return PICK(d, INT_MIN, INT_MIN + 1, -65536, -2, -1, 0, 1, 2, 3, 7, 9, 63, 65, 255, 513,
		    65535, 65536, 65537, 1 << 24, 1 << 29, (1 << 29) + 1, 1 << 30, INT_MAX - 1,
		    INT_MAX);
}

static float odd_float(struct dice *d)
{
	static const float v[] = { NAN,       INFINITY,  -INFINITY, -1,         -0.f,     0x1p-149f,
				   0x1p-127f, 0x1p-126f, 0x1p120f,  0x1.2p120f, FLT_MAX,  1e-4f,
				   0.99e-4f,  1000,      1001,      1,          0x1p-100f };
	return v[below(d, (int)COUNT(v))];
}

/* ---- shapes ------------------------------------------------------------------------------ */

static void spoil_shape(struct dice *d, attune_shape *s)
{
	int *const ints[] = { &s->num_query_heads, &s->num_kv_heads, &s->head_size,
			      &s->page_size,       &s->window,       &s->causal };
	switch (below(d, 10)) {
	case 0: s->scale = odd_float(d); break;
	case 1: s->softcap = odd_float(d); break;
	case 2: s->dtype = (enum attune_dtype)odd_int(d); break;
	case 3: s->kv_dtype = (enum attune_dtype)odd_int(d); break;
	case 4: s->kv_layout = (enum attune_kv_layout)odd_int(d); break;
	default: *ints[below(d, (int)COUNT(ints))] = odd_int(d);
	}
}

/* A head size that the documents leave open is refused one way or the other. */
static unsigned allowed_for(enum where where, const attune_shape *s)
{
	const enum promise p = promise_of(where, s);
	if (p == IS_SUPPORTED)
		return MAY_PASS;
	return p == IS_INVALID ? INVALID : MAY_PASS | UNSUPPORTED | INVALID;
}

/* Plans of such an op are made, and not run. */
static void plan_something(attune_op *op, const attune_shape *s)
{
	const int32_t starts[] = { 0, 1, 31 }, lens[] = { 40, 30 };
	const attune_batch b = { sizeof(attune_batch), 2, starts, lens };
	attune_plan plan = { .size = sizeof plan };
	size_t most = 0;
	const unsigned may = MAY_PASS | UNSUPPORTED;
	if ((long long)s->num_query_heads * 33 > INT_MAX)
		return;
	const enum attune_status status = attune_plan_batch(op, &b, &plan);
	check_refusal(status, may, "attune_plan_batch for an odd shape");
	check_refusal(attune_max_workspace(op, 2, 31, &most), MAY_PASS, "attune_max_workspace");
	if (!status && plan.workspace > most)
		fault("attune_max_workspace: %zu bytes, and the plan needs %zu", most,
		      plan.workspace);
}

void hostile_shapes(struct dice *d, enum where where, attune_context *ctx,
		    const attune_shape *sound)
{
	attune_op *op = NULL;
	for (int i = 0; i < 4; i++) {
		attune_shape s = *sound;
		for (int edits = between(d, 1, 3); edits > 0; edits--)
			spoil_shape(d, &s);
		op = (attune_op *)&s;
		const enum attune_status status = attune_prepare(ctx, &s, &op);
		if (!(allowed_for(where, &s) >> status & 1))
			note_shape(&s);
		check_refusal(status, allowed_for(where, &s), "attune_prepare of an odd shape");
		if (status && op)
			fault("attune_prepare: an op though it is refused");
		if (!status)
			plan_something(op, &s);
		attune_release(op);
	}
	check_refusal(attune_prepare(NULL, sound, &op), INVALID,
		      "attune_prepare without a context");
	check_refusal(attune_prepare(ctx, NULL, &op), INVALID, "attune_prepare without a shape");
	check_refusal(attune_prepare(ctx, sound, NULL), INVALID, "attune_prepare without an op");
}

/* ---- batches ----------------------------------------------------------------------------- */

/* As attune.h words its limits; page sizes that are no power of two may allow less. */
static int is_sound(const attune_batch *b, const attune_shape *s, int *is_certain)
{
	const int is_power = (s->page_size & (s->page_size - 1)) == 0;
	long long keys = 0, rows = b->num_seqs;
	*is_certain = 1;
	if (b->num_seqs < 0 || (b->num_seqs && b->query_start[0]))
		return 0;
	for (int i = 0; i < b->num_seqs; i++) {
		if (b->query_start[i + 1] < b->query_start[i] || b->seq_lens[i] < 0 ||
		    b->seq_lens[i] > 1 << 29 || b->query_start[i + 1] - b->query_start[i] > 1 << 29)
			return 0;
		*is_certain &= is_power || b->seq_lens[i] < 1 << 15;
		keys += b->seq_lens[i];
	}
	rows += b->num_seqs ? b->query_start[b->num_seqs] : 0;
	return rows * s->num_query_heads <= INT_MAX && keys * s->num_kv_heads <= 1ll << 48;
}

static void query_plan(const struct planned *p, const attune_batch *b, const attune_plan *plan)
{
	const int tokens = b->num_seqs ? b->query_start[b->num_seqs] : 0;
	size_t most = 0;
	check_refusal(attune_max_workspace(p->op, b->num_seqs, tokens, &most), MAY_PASS,
		      "attune_max_workspace");
	if (most < plan->workspace)
		fault("attune_max_workspace of %d sequences, %d tokens: %zu bytes, and the plan "
		      "needs %zu",
		      b->num_seqs, tokens, most, plan->workspace);
}

static void spoil_lengths(struct dice *d, int n, int32_t *starts, int32_t *lens)
{
	for (int edits = between(d, 1, 3); edits > 0; edits--) {
		int32_t *v = one_in(d, 2) ? &starts[below(d, n + 1)] : &lens[n ? below(d, n) : 0];
		*v = odd_int(d);
	}
	if (one_in(d, 3)) /* sound again, with long queries */
		for (int i = 0; i < n; i++)
			starts[i + 1] = starts[i + 1] < starts[i] ? starts[i] : starts[i + 1];
}

void hostile_batches(struct dice *d, const struct planned *p)
{
	int32_t starts[MOST_SEQS + 1] = { 0 }, lens[MOST_SEQS] = { 0 };
	attune_plan plan = { .size = sizeof plan };
	size_t bytes;
	int is_certain;
	const int n = p->w->batch.num_seqs;
	for (int i = 0; i < 6; i++) {
		memcpy(starts, p->w->query_start, (size_t)(n + 1) * sizeof *starts);
		memcpy(lens, p->w->seq_lens, (size_t)n * sizeof *lens);
		spoil_lengths(d, n, starts, lens);
		const attune_batch b = { sizeof(attune_batch),
					 one_in(d, 6) ? -between(d, 1, INT_MAX) : n, starts, lens };
		const int sound = is_sound(&b, &p->w->s, &is_certain);
		const enum attune_status status = attune_plan_batch(p->op, &b, &plan);
		const unsigned may = sound ? MAY_PASS | UNSUPPORTED : INVALID;
		check_refusal(status, may | (is_certain ? 0 : INVALID),
			      "attune_plan_batch of odd lengths");
		if (!status)
			query_plan(p, &b, &plan);
	}
	const attune_batch none = { sizeof(attune_batch), 1, NULL, NULL };
	check_refusal(attune_plan_batch(p->op, &none, &plan), INVALID, "a batch without lengths");
	check_refusal(attune_plan_batch(NULL, &none, &plan), INVALID, "a plan without an op");
	check_refusal(attune_plan_batch(p->op, NULL, &plan), INVALID, "a plan without a batch");
	check_refusal(attune_plan_batch(p->op, &p->w->batch, NULL), INVALID, "no room for a plan");
	const int seqs = odd_int(d), tokens = odd_int(d);
	check_refusal(attune_max_workspace(p->op, seqs, tokens, &bytes),
		      seqs < 0 || tokens < 0 ? INVALID : MAY_PASS, "attune_max_workspace");
}

/* ---- runs -------------------------------------------------------------------------------- */

static void refuse_run(const struct planned *p, const attune_plan *plan, const attune_tensors *t,
		       void *workspace, size_t bytes, unsigned allowed, const char *what)
{
	void *stream = p->w->dev->ops->stream(p->w->dev);
	check_refusal(attune_run(p->op, plan, t, workspace, bytes, stream), allowed, what);
	world_fetch(p->w);
	if (!is_untouched(p->w))
		fault("%s: it is refused, but out or lse is written", what);
}

static void spoil_tensors(struct dice *d, enum where where, const attune_shape *s,
			  attune_tensors *t)
{
	const void **given[12];
	int n = 0;
	given[n++] = (const void **)&t->out, given[n++] = &t->q;
	given[n++] = &t->k_cache, given[n++] = &t->v_cache;
	given[n++] = (const void **)&t->block_table, given[n++] = (const void **)&t->query_start;
	given[n++] = (const void **)&t->seq_lens;
	if (s->has_sinks)
		given[n++] = (const void **)&t->sinks;
	if (s->has_alibi)
		given[n++] = (const void **)&t->alibi_slopes;
	if (s->has_lse)
		given[n++] = (const void **)&t->lse;
	if (s->has_new_kv)
		given[n++] = &t->k_new, given[n++] = &t->v_new;
	/* Those of dimensions that may be 1 come last: then they may be anything. */
	int64_t *const strides[] = { &t->k_page_stride,   &t->v_page_stride, &t->q_head_stride,
				     &t->out_head_stride, &t->k_head_stride, &t->v_head_stride };
	const int matter = s->num_kv_heads > 1 ? 6 : s->num_query_heads > 1 ? 4 : 2;
	if (where == ON_CPU || one_in(d, 2))
		*given[below(d, n)] = NULL;
	else if (one_in(d, 2)) /* not aligned */
		given[below(d, 4)][0] = (const char *)given[0][0] + between(d, 1, 15);
	else
		*strides[below(d, matter)] += between(d, 1, 7);
}

static void spoil_plan(struct dice *d, attune_plan *plan)
{
	switch (below(d, 8)) {
	case 0: plan->num_parts = PICK(d, -1, 3, INT_MIN, INT_MAX, 1000); break;
	case 1: plan->num_seqs = PICK(d, -1, INT_MIN); break;
	case 2: plan->how = (enum attune_how)PICK(d, -1, 2, INT_MAX, INT_MIN); break;
	case 3: plan->unused = PICK(d, -1, 1, INT_MAX); break;
	case 4: plan->start = (enum attune_start)PICK(d, -1, 2, INT_MAX); break;
	case 5: plan->part[0].choice = PICK(d, -1, INT_MIN, INT_MAX, 100000); break;
	default: plan->early[0] = PICK(d, -1, INT_MAX, 3, INT_MIN);
	}
}

void hostile_runs(struct dice *d, enum where where, const struct planned *p)
{
	const attune_tensors *t = &p->w->device;
	const size_t whole = (p->plan.workspace + 15) / 16 * 16;
	char text[600];
	size_t words;
	if (!p->plan.num_parts)
		return;
	char *workspace = guarded(p->w->dev, whole, 0);
	world_poison(p->w);
	for (int i = 0; i < 4; i++) {
		attune_tensors spoilt = *t;
		attune_plan plan = p->plan;
		spoil_tensors(d, where, &p->w->s, &spoilt);
		refuse_run(p, &p->plan, &spoilt, workspace, whole, INVALID, "a run of odd tensors");
		spoil_plan(d, &plan);
		refuse_run(p, &plan, t, workspace, whole, INVALID, "a run of an odd plan");
		check_refusal(attune_plan_text(p->op, &plan, text, sizeof text), INVALID,
			      "attune_plan_text of an odd plan");
		check_refusal(attune_schedule(p->op, &plan, &p->w->batch, NULL, 0, &words), INVALID,
			      "attune_schedule of an odd plan");
		if (attune_plan_serves(&p->plan, &plan) == ATTUNE_SERVES_ALIKE &&
		    plan.early[0] == p->plan.early[0])
			fault("attune_plan_serves: an odd plan");
	}
	if (p->plan.workspace) {
		refuse_run(p, &p->plan, t, workspace, p->plan.workspace - 1, TOO_SMALL,
			   "a run with a byte too little");
		refuse_run(p, &p->plan, t, NULL, whole, TOO_SMALL, "a run without a workspace");
	}
	refuse_run(p, NULL, t, workspace, whole, INVALID, "a run without a plan");
	refuse_run(p, &p->plan, NULL, workspace, whole, INVALID, "a run without tensors");
	check_refusal(attune_run(NULL, &p->plan, t, workspace, whole, NULL), INVALID,
		      "a run without an op");
	release_guarded(p->w->dev, workspace);
}

/* ---- contexts ---------------------------------------------------------------------------- */

static void refuse_open(const char *variable, const char *value, const char *device,
			unsigned allowed)
{
	attune_context *ctx = (attune_context *)&ctx;
	char what[200];
	if (variable)
		setenv(variable, value, 1);
	snprintf(what, sizeof what, "attune_open of \"%.40s\" with %s=%s", device,
		 variable ? variable : "nothing", variable ? value : "");
	check_refusal(attune_open(&ctx, device), allowed, what);
	if (ctx)
		fault("%s: a context though it is refused", what);
	if (variable)
		unsetenv(variable);
}

void hostile_opens(struct dice *d)
{
	static const char *const devices[] = {
		"",        "cpu:",   "cpu:zz", "gpu",         "CPU",   "cuda:-1",
		"cuda:99", "cuda:x", "hip:77", "cpu:avx512 ", "cpu\n", "cuda:99999999999999999999",
		"%s%n",    "hip:"
	};
	static const char *const threads[] = { "0",   "-1", "1025", "two",
					       "1e3", " ",  "2 ",   "99999999999999999999" };
	static const char *const modes[] = { "2", "yes", "-1", "1 ", "01" };
	const unsigned may = INVALID | 1u << ATTUNE_NO_DEVICE;
	unsetenv("ATTUNE_THREADS");
	unsetenv("ATTUNE_INVARIANT");
	refuse_open(NULL, NULL, devices[below(d, (int)COUNT(devices))], may);
	refuse_open("ATTUNE_THREADS", threads[below(d, (int)COUNT(threads))], "cpu", INVALID);
	refuse_open("ATTUNE_INVARIANT", modes[below(d, (int)COUNT(modes))], "cpu", INVALID);
	refuse_open("ATTUNE_HEURISTICS", "/no/such/file", "cpu", INVALID | 1u << ATTUNE_NO_DEVICE);
	check_refusal(attune_open(NULL, "cpu"), INVALID, "attune_open without a context");
}
