/* branch_and_bound.c - finds the least-cost tree of up to two levels and proves that it is optimal.
 *
 * The trees are "policy trees" over per-instance costs (Zhou, Athey, Wager 2023; policytree). For
 * each split depth2.c gives the best split of both sides. The search skips most splits:
 *   - ConTree, Brita, van der Linden, Demirovic 2025, arXiv 2501.07903, section 4.2. Thresholds
 *     come in bisection order; the answers at the ends of an interval bound all thresholds between.
 *     The paper counts errors. The bound holds for any non-negative cost: a tree costs no more on a
 *     subset than on the whole set.
 *
 *       left(lo) in left(a), right(hi) in right(a)  for lo < a < hi
 *       => cost(a) >= relaxed(left(lo)) + relaxed(right(hi))
 *
 *   - STreeD, van der Linden, de Weerdt, Demirovic 2023, arXiv 2305.19706, section 4.4. The
 *     similarity bound relates sets that differ by a few rows.
 *
 * On a subset a leaf can fall below the minimum support. Bounds therefore ignore minimum support
 * (`relaxed` in struct half); only incumbents observe it.
 *
 * Ties go to fewer leaves, then at each node to the first feature and the lowest threshold. A bound
 * prunes a tie only if it would lose, so the answer does not depend on the order of search. */
#include "solver.h"
#include <string.h>

struct search {
	struct solver *s;
	const struct view *v;
	struct answer best;
};

/* The highest cost at which a tree with root (f, rank) replaces the best: the best cost if it wins
 * the tie, else one less. */
static int64_t limit_at(const struct search *x, int f, int rank)
{
	const struct answer *b = &x->best;
	const int wins = b->f > f || (b->f == f && b->at > rank);
	return wins ? b->value : b->value - 1;
}

static void raise_to(int64_t *v, int64_t to)
{
	*v = to > *v ? to : *v;
}

/* Prefix sums, by level of a feature, of the greatest cost of each row. */
static void sum_most(const struct search *x, int f)
{
	const uint16_t *local = &x->v->local[(size_t)f * (size_t)x->s->n];
	int64_t *most = x->v->most;
	memset(most, 0, sizeof *most * (size_t)x->v->u[f]);
	for (int i = 0; i < x->v->n; i++)
		most[local[i]] += x->s->most[x->v->row[i]];
	for (int l = 1; l < x->v->u[f]; l++)
		most[l] += most[l - 1];
}

/* Bounds of both sides at the ends of an interval, 0: none. */
struct ends {
	int lo, hi;
	int64_t left[2], right[2]; /* at lo and at hi */
};

/* A bound of the split after level a. By similarity, a side costs at least what the larger one at the
 * other end does, minus the most that the rows in between can cost. */
static int64_t bound_at(const struct search *x, const struct ends *e, int a)
{
	const int64_t *most = x->v->most;
	int64_t left = e->left[0], right = e->right[1];
	if (e->left[1])
		raise_to(&left, e->left[1] - most[e->hi] + most[a]);
	if (e->right[0])
		raise_to(&right, e->right[0] - most[a] + most[e->lo]);
	return left + right;
}

/* The middle one of the thresholds in the interval that can still win; -1: none can. */
static int middle_of(const struct search *x, int f, const struct ends *e)
{
	const uint16_t *rank = &x->v->rank[f * x->s->room];
	int first = -1, last = -1;
	for (int a = e->lo + 1; a < e->hi; a++) {
		if (bound_at(x, e, a) > limit_at(x, f, rank[a]))
			continue;
		first = first < 0 ? a : first;
		last = a;
	}
	return first < 0 ? -1 : first + (last - first) / 2;
}

/* Tries the thresholds lo < a < hi of a feature. */
static void bisect(struct search *x, int f, const struct ends *e)
{
	const int mid = middle_of(x, f, e);
	struct half side[2];
	if (mid < 0)
		return;
	solve_pair(x->s, x->v, f, mid, side);
	const int rank = x->v->rank[f * x->s->room + mid];
	const int64_t cost = side[0].cost + side[1].cost;
	if (cost <= limit_at(x, f, rank))
		x->best = (struct answer){ cost, f, rank };
	const struct ends lower = {
		e->lo, mid, { e->left[0], side[0].relaxed }, { e->right[0], side[1].relaxed }
	};
	const struct ends upper = {
		mid, e->hi, { side[0].relaxed, e->left[1] }, { side[1].relaxed, e->right[1] }
	};
	bisect(x, f, &lower);
	bisect(x, f, &upper);
}

/* The thresholds with enough support on both sides form one interval. */
static void try_feature(struct search *x, int f)
{
	const struct view *v = x->v;
	const int *below = &v->below[f * x->s->room], support = x->s->support;
	int lo = -1, hi = v->u[f] - 1;
	if (hi < 1)
		return;
	while (lo + 1 < hi && below[lo + 1] < support)
		lo++;
	while (hi - 1 > lo && v->count - below[hi - 1] < support)
		hi--;
	sum_most(x, f);
	bisect(x, f, &(struct ends){ lo, hi, { LEAF, 0 }, { 0, LEAF } });
}

/* Searches features in the order of their best single split, to find good trees early. */
static void search_features(struct search *x, const int64_t *cost)
{
	int order[ATTUNE_NUM_FEATURES];
	for (int f = 0; f < x->s->p; f++) {
		int i = f;
		for (; i > 0 && cost[order[i - 1]] > cost[f]; i--)
			order[i] = order[i - 1];
		order[i] = f;
	}
	for (int i = 0; i < x->s->p; i++)
		try_feature(x, order[i]);
}

struct answer solve(struct solver *s, const struct view *v, int depth)
{
	const int64_t leaf = least_of(v->total, s->d) + LEAF;
	int64_t by_feature[ATTUNE_NUM_FEATURES];
	struct search x = { s, v, { leaf, -1, 0 } };
	if (!depth || leaf <= 2 * LEAF)
		return x.best;
	solve_single(s, v, &x.best, by_feature);
	if (depth > 1)
		search_features(&x, by_feature);
	return x.best;
}
