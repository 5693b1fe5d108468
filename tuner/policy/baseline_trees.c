/* baseline_trees.c - the learning methods of published tuners, as baselines on the same training
 * scenarios as our trees.
 *
 *   nearest_neighbour  the best choice of the nearest training scenario by part_distance()
 *                      (MIOpen's and Helion's fallback)
 *   greedy_tree        cost-sensitive CART without look-ahead, over the same portfolio of
 *                      choices and with as many leaves as a tree may have
 *   label_tree         CART by entropy on each scenario's fastest choice, depth 6
 *                      (AutoHeuristic, Helion)
 *
 * Each method learns all three decisions. An illegal choice is replaced by the library's default,
 * as in the library. */
#include "policy.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_DEPTH = 6, LABEL_LEAVES = 64 };

struct learned {
	const struct data *d;
	enum policy policy;
	const struct basics *basics[2]; /* for the prefill and the decode part */
	struct matrix *ways;            /* mixed batches, with the choices learned for the parts */
	struct tree tree[2], way_tree;  /* no nodes: nothing learned, or nearest neighbour */
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

/* The matrix that a part's tree is grown over; NULL: nothing was measured. */
static const struct matrix *columns_of(const struct learned *l, enum decision t)
{
	return l->policy == POLICY_GREEDY ? l->basics[t]->few : l->basics[t]->winners;
}

static int tree_action(const struct tree *t, const struct attune_features *f)
{
	return t->v[tree_leaf(t, f)].action;
}

/* A choice; -1 when nothing was learned. */
static int learned_choice(const struct learned *l, enum decision t, const struct attune_features *f)
{
	const struct matrix *m = columns_of(l, t);
	if (!m)
		return -1;
	if (l->policy == POLICY_NEAREST)
		return l->basics[t]->winner[nearest_row(m, f)];
	return m->choice[tree_action(&l->tree[t], f)];
}

static enum baseline_way learned_way(const struct learned *l, const struct attune_features *f)
{
	int best = BASELINE_SERIAL;
	if (!l->ways || !l->ways->rows)
		return BASELINE_SERIAL;
	if (l->policy != POLICY_NEAREST)
		return (enum baseline_way)tree_action(&l->way_tree, f);
	const int row = nearest_row(l->ways, f);
	for (int w = 0; w < l->ways->cols; w++)
		if (matrix_at(l->ways, row, w) < matrix_at(l->ways, row, best))
			best = w;
	return (enum baseline_way)best;
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
		struct decided made;
		learned_make(l, &d->v[s], &made);
		decided_pick(d, &made, &picks[s]);
	}
	if (done) {
		l->ways = matrix_ways(d, picks);
		done = l->ways && grow(l, &l->way_tree, l->ways);
	}
	free(picks);
	if (done)
		return l;
	learned_free(l);
	return NULL;
}

void learned_make(const struct learned *l, const struct measured *m, struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	for (int p = 0; p < 2; p++) {
		const enum phase phase = decision_phase((enum decision)p);
		const int choice =
		    m->has[phase] ? learned_choice(l, (enum decision)p, &m->part[phase].f) : -1;
		if (m->has[phase])
			decided_or_default(l->d, m, phase,
					   choice < 0 ? NULL : &l->d->choice[choice],
					   p ? &out->decode : &out->prefill);
	}
	if (out->prefill.kernel && out->decode.kernel)
		decided_in_way(l->d, m, learned_way(l, &m->part[PHASE_ALL].f), out);
}

void learned_free(struct learned *l)
{
	if (!l)
		return;
	for (int t = 0; t < 2; t++)
		tree_free(&l->tree[t]);
	tree_free(&l->way_tree);
	matrix_free(l->ways);
	free(l);
}
