/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - decision trees, grown or read from a header: finding leaves, the boxes of features that
 * reach them, and tidying. */
#include "tree.h"
#include "harness/base/base.h"
#include <limits.h>
#include <stdlib.h>

const char *const remark_words[NUM_REMARKS] = {
	[REMARK_NONE] = "",
	[REMARK_FEW] = "few",
	[REMARK_UNSURE] = "no better than the defaults for sure",
	[REMARK_UNSAFE] = "no choice is faster than the defaults",
};

int tree_new_node(struct tree *t)
{
	if (!array_grow(&t->v, t->n, &t->room, sizeof *t->v))
		return -1;
	t->v[t->n] = (struct node){
		.feature = -1, .below = -1, .above = -1, .runner_up = -1, .row_cost = -1
	};
	return t->n++;
}

int tree_constant(struct tree *t, int action)
{
	tree_free(t);
	if (tree_new_node(t) < 0)
		return 0;
	t->v[0].action = action;
	return 1;
}

void tree_free(struct tree *t)
{
	free(t->v);
	*t = (struct tree){ 0 };
}

int tree_leaf(const struct tree *t, const struct attune_features *f)
{
	const long long *value = (const long long *)f;
	int at = 0;
	while (t->v[at].feature >= 0)
		at =
		    value[t->v[at].feature] <= t->v[at].threshold ? t->v[at].below : t->v[at].above;
	return at;
}

static int leaves_below(const struct tree *t, int node)
{
	const struct node *v = &t->v[node];
	return v->feature < 0 ? 1 : leaves_below(t, v->below) + leaves_below(t, v->above);
}

int tree_leaves(const struct tree *t)
{
	return t->n ? leaves_below(t, 0) : 0;
}

long long tree_cost(const struct tree *t, int node)
{
	const struct node *v = &t->v[node];
	return v->feature < 0 ? v->cost : tree_cost(t, v->below) + tree_cost(t, v->above);
}

/* ---- boxes ------------------------------------------------------------------------ */
void box_all(struct box *b)
{
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		b->lo[i] = 0, b->hi[i] = LLONG_MAX;
}

struct visit {
	const struct tree *t;
	void (*each)(void *, int leaf, const struct box *);
	void *arg;
};

static void visit_boxes(const struct visit *v, int node, struct box *b)
{
	const struct node *n = &v->t->v[node];
	const int f = n->feature;
	if (f < 0) {
		v->each(v->arg, node, b);
		return;
	}
	const long long lo = b->lo[f], hi = b->hi[f];
	if (lo <= n->threshold) {
		b->hi[f] = hi < n->threshold ? hi : n->threshold;
		visit_boxes(v, n->below, b);
		b->hi[f] = hi;
	}
	if (hi > n->threshold) {
		b->lo[f] = lo > n->threshold ? lo : n->threshold + 1;
		visit_boxes(v, n->above, b);
		b->lo[f] = lo;
	}
}

void tree_boxes(const struct tree *t, const struct box *within,
		void (*each)(void *, int leaf, const struct box *), void *arg)
{
	const struct visit v = { t, each, arg };
	struct box b = *within;
	visit_boxes(&v, 0, &b);
}

/* ---- tidying ------------------------------------------------------------------------ */
static void merge_siblings(struct tree *t, int node)
{
	struct node *v = &t->v[node];
	if (v->feature < 0)
		return;
	merge_siblings(t, v->below);
	merge_siblings(t, v->above);
	const struct node *a = &t->v[v->below], *b = &t->v[v->above];
	/* The best action of both sides is the best of their union, so v's own action is theirs. */
	if (a->feature < 0 && b->feature < 0 && a->action == b->action && a->action == v->action)
		v->feature = -1;
}

/* Copies the reachable part of the subtree to `to`, in preorder. */
static int copy_reachable(const struct tree *t, int node, struct box *b, struct tree *to)
{
	const struct node *n = &t->v[node];
	const int f = n->feature;
	int at, child;
	if (f >= 0 && b->hi[f] <= n->threshold)
		return copy_reachable(t, n->below, b, to);
	if (f >= 0 && b->lo[f] > n->threshold)
		return copy_reachable(t, n->above, b, to);
	at = tree_new_node(to);
	if (at < 0)
		return -1;
	to->v[at] = *n;
	if (f < 0)
		return at;
	const long long lo = b->lo[f], hi = b->hi[f];
	b->hi[f] = n->threshold;
	child = copy_reachable(t, n->below, b, to);
	to->v[at].below = child;
	b->hi[f] = hi;
	b->lo[f] = n->threshold + 1;
	at = child < 0 ? -1 : at;
	child = at < 0 ? -1 : copy_reachable(t, n->above, b, to);
	b->lo[f] = lo;
	if (child < 0)
		return -1;
	to->v[at].above = child;
	return at;
}

int tree_tidy(struct tree *t)
{
	struct tree to = { 0 };
	struct box all;
	box_all(&all);
	merge_siblings(t, 0);
	if (copy_reachable(t, 0, &all, &to) < 0) {
		tree_free(&to);
		return 0;
	}
	tree_free(t);
	*t = to;
	return 1;
}

static long long floor_power(long long v)
{
	long long p = 1;
	while (p <= v / 2)
		p *= 2;
	return p;
}

/* Takes the middle one of several powers of two, since the true boundary is as likely on either
 * side. */
long long round_between(long long lo, long long hi)
{
	long long step = 1, first, last;
	if (lo >= hi || hi < 1)
		return lo;
	last = floor_power(hi);
	first = lo < 1 ? 1 : floor_power(lo);
	if (first < lo)
		first *= 2;
	if (first <= last) {
		while (first < last / 2)
			first *= 2, last /= 2;
		return first;
	}
	while (hi / (2 * step) * (2 * step) >= lo)
		step *= 2;
	return hi / step * step;
}
