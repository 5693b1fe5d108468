/* learned.c - baselines that learn from the same training scenarios as our trees do:
 * what published tuners ship.
 *
 *   nearest_neighbour  the best choice of the nearest training scenario, near as in
 *                      part_distance (MIOpen's and Helion's fallback)
 *   greedy_tree        cost-sensitive CART without look-ahead, over the same portfolio of
 *                      choices and with as many leaves as a tree may have
 *   label_tree         CART by entropy on each scenario's fastest choice, depth 6
 *                      (AutoHeuristic, Helion)
 *
 * Each decides all three decisions in its own way; what is illegal for a batch gives way
 * to the library's default, as in the library. */
#include "policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_DEPTH = 6, LABEL_LEAVES = 64 };

struct learned {
	const struct data *d;
	enum policy policy;
	const struct basics *basics[2]; /* of the prefill and the decode part */
	struct matrix *join;            /* both ways, with what the parts would run */
	struct tree tree[2], join_tree; /* no nodes: nothing was learned, or it is the nearest */
};

/* ---- from one decision's costs ------------------------------------------------------ */
static int nearest_row(const struct matrix *m, const struct attune_features *f)
{
	double least = INFINITY;
	int best = 0;
	for (int r = 0; r < m->rows; r++) {
		const double far = part_distance(&m->f[r], f, least);
		if (far < least)
			best = r, least = far;
	}
	return best;
}

/* What the tree of a part is over; NULL: nothing was measured. */
static const struct matrix *columns_of(const struct learned *l, enum decision t)
{
	return l->policy == POLICY_GREEDY ? l->basics[t]->few : l->basics[t]->winners;
}

static int tree_action(const struct tree *t, const struct attune_features *f)
{
	return t->v[tree_leaf(t, f)].action;
}

/* A choice; -1 when nothing was learned. */
static int recall(const struct learned *l, enum decision t, const struct attune_features *f)
{
	const struct matrix *m = columns_of(l, t);
	if (!m)
		return -1;
	if (l->policy == POLICY_NEAREST)
		return l->basics[t]->winner[nearest_row(m, f)];
	return m->choice[tree_action(&l->tree[t], f)];
}

/* 0: in one launch, 1: each part in its own; -1 when nothing was learned. */
static int recall_join(const struct learned *l, const struct attune_features *f)
{
	if (!l->join || !l->join->rows)
		return -1;
	if (l->policy != POLICY_NEAREST)
		return tree_action(&l->join_tree, f);
	const int row = nearest_row(l->join, f);
	return matrix_at(l->join, row, 1) < matrix_at(l->join, row, 0);
}

static int grow(const struct learned *l, struct tree *t, const struct matrix *m)
{
	const struct cart greedy = { CART_COST, default_limits.leaves, 30 };
	const struct cart label = { CART_ENTROPY, LABEL_LEAVES, LABEL_DEPTH };
	if (!m || !m->rows || l->policy == POLICY_NEAREST)
		return 1;
	return cart_grow(t, m, l->policy == POLICY_GREEDY ? &greedy : &label);
}

struct learned *learned_new(const struct data *d, enum policy policy)
{
	struct learned *l = calloc(1, sizeof *l);
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	int done = l && picks;
	if (done)
		*l = (struct learned){ .d = d, .policy = policy };
	for (int t = DECIDE_PREFILL; done && t <= DECIDE_DECODE; t++) {
		l->basics[t] = basics_of(d, (enum decision)t);
		done = l->basics[t] && grow(l, &l->tree[t], columns_of(l, (enum decision)t));
	}
	for (int s = 0; done && s < d->n; s++) {
		struct made made;
		learned_make(l, &d->v[s], &made);
		made_pick(d, &made, &picks[s]);
	}
	if (done) {
		l->join = matrix_join(d, picks);
		done = l->join && grow(l, &l->join_tree, l->join);
	}
	free(picks);
	if (done)
		return l;
	learned_free(l);
	return NULL;
}

void learned_make(const struct learned *l, const struct measured *m, struct made *out)
{
	*out = (struct made){ .join = 1 };
	for (int p = 0; p < 2; p++) {
		const enum phase phase = decision_phase((enum decision)p);
		const int choice =
		    m->has[phase] ? recall(l, (enum decision)p, &m->part[phase].f) : -1;
		if (m->has[phase])
			made_or_default(l->d, m, phase, choice < 0 ? NULL : &l->d->choice[choice],
					p ? &out->decode : &out->prefill);
	}
	if (out->prefill.kernel && out->decode.kernel && !recall_join(l, &m->part[PHASE_ALL].f)) {
		struct choice whole = { 0 };
		if (made_or_default(l->d, m, PHASE_ALL, &out->prefill, &whole) &&
		    whole.kernel == out->prefill.kernel &&
		    !memcmp(&whole.config, &out->prefill.config, sizeof whole.config))
			out->join = 0;
	}
}

void learned_free(struct learned *l)
{
	if (!l)
		return;
	for (int t = 0; t < 2; t++)
		tree_free(&l->tree[t]);
	tree_free(&l->join_tree);
	matrix_free(l->join);
	free(l);
}
