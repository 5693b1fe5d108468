/* SPDX-License-Identifier: Apache-2.0 */
/* validity.c - proves that every leaf is legal for every batch that reaches it.
 *
 * The features that reach a leaf form a box. The rules of the .def tables compare products of their
 * inputs, so a rule that is broken anywhere in a box is broken in one of its corners. The few head
 * sizes and some page sizes are all tried. A choice with a formula is legal if any of its values is.
 *
 * If a corner is illegal the leaf is guarded: the library checks the rule at run time (usable() of
 * context.c) and runs the next legal member of the choice's row, behind it the kernels' defaults. One of
 * these must be legal in that corner, or there is no header. A leaf of the overlap falls back to the
 * serial plan, which is legal if its parts are. */
#include "induce.h"
#include "harness/base/base.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <string.h>

/* The batches that are proven. */
static const struct {
	enum attune_feature feature;
	long long lo, hi;
} domain[] = {
	{ ATTUNE_FEATURE_num_kv_heads, 1, 128 }, { ATTUNE_FEATURE_group, 1, 128 },
	{ ATTUNE_FEATURE_num_seqs, 1, 4096 },    { ATTUNE_FEATURE_max_query, 1, 131072 },
	{ ATTUNE_FEATURE_max_seq, 1, 1 << 20 },
};
static const int head_sizes[] = { 64, 80, 96, 128, 192, 256 };
static const int page_sizes[] = { 1, 4, 12, 16, 20, 64, 128, 272, 528, 1056 };

struct pages_and_head {
	int page_size, head_size;
};

struct proof {
	const struct data *d;
	struct tree *tree;
	enum decision decision;
	const struct forest *f;
	int failed;
};

/* Makes a batch of these features with equal sequences. */
static void make_corner(const struct data *d, const long long v[COUNT(domain)],
			struct pages_and_head at, attune_shape *s, struct part *p)
{
	*s = (attune_shape){ .num_kv_heads = (int)v[0],
			     .num_query_heads = (int)(v[0] * v[1]),
			     .head_size = at.head_size,
			     .page_size = at.page_size,
			     .causal = 1,
			     .has_new_kv = 1 };
	s->dtype = s->kv_dtype = d->run.device.backend == BACKEND_CPU ? ATTUNE_F32 : ATTUNE_BF16;
	/* The most rows that a batch may have (kernels/spec/part.c). */
	const long long rows = 0x7fffffff / s->num_query_heads;
	const long long query = min_of(v[3], rows - 1), seqs = min_of(v[2], rows / (query + 1));
	memset(p, 0, sizeof *p);
	p->seq_count = (int)seqs;
	p->min_query = p->max_query = (int)query;
	p->range_tokens = seqs * query;
	p->f = (struct attune_features){ .num_query_heads = s->num_query_heads,
					 .num_kv_heads = v[0],
					 .group = v[1],
					 .head_size = at.head_size,
					 .page_size = at.page_size,
					 .units = d->run.device.units,
					 .num_seqs = seqs,
					 .max_query = query,
					 .query_tokens = seqs * query,
					 .max_seq = max_of(v[4], query) };
	p->f.mean_seq = p->f.max_seq;
	p->f.kv_tokens = seqs * p->f.max_seq;
	p->f.work = (p->f.query_tokens * p->f.max_seq + 4095) / 4096;
}

static const char *illegal(const struct data *d, const struct choice *c, const attune_shape *s,
			   const struct part *p)
{
	struct config means;
	return config_resolve(&means, &c->config, c->kernel, s, p, &d->run.device);
}

/* The rule that the leaf's choice breaks; NULL: none. */
static const char *action_illegal(const struct proof *proof, int action, const attune_shape *s,
				  const struct part *p)
{
	const struct forest *f = proof->f;
	const struct choice *c = &f->choice[action];
	const struct segment_costs *costs = costs_for(f->costs, f->num_costs, action, s->head_size);
	struct config means;
	return config_fitted(&means, &c->config, c->kernel, costs, s, p, &proof->d->run.device);
}

/* Whether another member of the choice's row can run there. */
static int has_member(const struct proof *proof, int action, const attune_shape *s,
		      const struct part *p)
{
	const struct attune_list *l = &proof->f->list[action];
	for (int i = 1; i < l->n; i++)
		if (!action_illegal(proof, l->at[i], s, p))
			return 1;
	return 0;
}

/* Whether one of the kernels' defaults can run there. */
static int has_default(const struct data *d, const attune_shape *s, const struct part *p)
{
	for (const struct fallback *f = attune_fallbacks; f->kernel; f++) {
		struct choice c = { .kernel = kernel_find(d->run.device.backend, f->kernel) };
		if (!c.kernel)
			continue;
		fallback_config(&c.config, f, c.kernel->space);
		if (!illegal(d, &c, s, p))
			return 1;
	}
	return 0;
}

/* One corner of the leaf's box; bit i of `corner`: the upper end of domain[i]. */
static void try_corner(struct proof *proof, struct node *v, const struct box *b, unsigned corner,
		       struct pages_and_head with)
{
	long long at[COUNT(domain)];
	attune_shape s;
	struct part p;
	for (size_t i = 0; i < COUNT(domain); i++) {
		const enum attune_feature f = domain[i].feature;
		const long long least =
		    f == ATTUNE_FEATURE_max_query && proof->decision == DECIDE_PREFILL
			? DECODE_MAX_QUERY + 1
			: domain[i].lo;
		const long long most =
		    f == ATTUNE_FEATURE_max_query && proof->decision == DECIDE_DECODE
			? DECODE_MAX_QUERY
			: domain[i].hi;
		const long long lo = b->lo[f] > least ? b->lo[f] : least;
		const long long hi = b->hi[f] < most ? b->hi[f] : most;
		if (lo > hi)
			return; /* no batch of the domain reaches this leaf */
		at[i] = corner >> i & 1 ? hi : lo;
	}
	make_corner(proof->d, at, with, &s, &p);
	const char *why = action_illegal(proof, v->action, &s, &p);
	if (!why)
		return;
	if (!v->guarded)
		v->guarded = why;
	if (has_member(proof, v->action, &s, &p) || has_default(proof->d, &s, &p))
		return;
	if (!proof->failed)
		complain(
		    "%s, leaf of choice %d: at %lld KV heads x %lld, head size %d, pages of %d, "
		    "%lld queries of %lld, %lld keys neither it, nor its row, nor a default is "
		    "legal: %s",
		    decision_names[proof->decision], v->action, at[0], at[1], with.head_size,
		    with.page_size, at[2], at[3], at[4], why);
	proof->failed = 1;
}

static int is_within(const struct box *b, enum attune_feature f, long long v)
{
	return b->lo[f] <= v && v <= b->hi[f];
}

static void try_corners(struct proof *proof, struct node *v, const struct box *b)
{
	for (size_t h = 0; h < COUNT(head_sizes); h++)
		for (size_t p = 0; p < COUNT(page_sizes); p++) {
			const struct pages_and_head with = { page_sizes[p], head_sizes[h] };
			if (!is_within(b, ATTUNE_FEATURE_head_size, with.head_size) ||
			    !is_within(b, ATTUNE_FEATURE_page_size, with.page_size))
				continue;
			for (unsigned corner = 0; corner < 1u << COUNT(domain); corner++)
				try_corner(proof, v, b, corner, with);
		}
}

static void prove_leaf(void *arg, int leaf, const struct box *b)
{
	struct proof *proof = arg;
	struct node *v = &proof->tree->v[leaf];
	v->guarded = NULL;
	if (v->action != SAYS_DEFAULTS)
		try_corners(proof, v, b);
}

/* Overlap leaves use features of whole batches, which do not bound those of a part. So a leaf is
 * guarded if any part at all breaks a rule of its choice. */
static void guard_overlap(struct forest *f, const struct data *d)
{
	struct tree *t = &f->tree[DECIDE_OVERLAP];
	struct node any;
	struct proof proof = { d, t, DECIDE_PREFILL, f, 1 };
	struct box all;
	box_all(&all);
	for (int i = 0; i < t->n; i++) {
		any = (struct node){ .action = t->v[i].action };
		t->v[i].guarded = NULL;
		if (t->v[i].feature >= 0 || any.action < 0)
			continue;
		try_corners(&proof, &any, &all);
		t->v[i].guarded = any.guarded;
	}
}

int forest_prove(struct forest *f, const struct data *d)
{
	struct box all;
	int failed = 0;
	box_all(&all);
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		struct proof proof = { d, &f->tree[t], (enum decision)t, f, 0 };
		tree_boxes(&f->tree[t], &all, prove_leaf, &proof);
		failed |= proof.failed;
	}
	guard_overlap(f, d);
	return !failed;
}
