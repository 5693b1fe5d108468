/* cart.c - grows trees greedily (Breiman and others, Classification and Regression Trees, 1984): it
 * splits the leaf with the largest gain until the budget is spent or no split gains. These are
 * baselines for our own trees (grow.c). */
#include "policy.h"
#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct growing {
	const struct matrix *m;
	const struct cart *how;
	struct tree *tree;
	int *rows;        /* rows of a leaf are contiguous */
	int *order;       /* scratch: [m->rows] */
	long long *below; /* scratch: [cols], sums over rows of one side */
	long long *above;
	struct leaf {
		int node, first, n, depth;
		double gain; /* of the best split; 0: none */
		int feature;
		long long threshold;
	} leaf[256];
	int leaves;
};

static long long value_at(const struct matrix *m, int row, int feature)
{
	return ((const long long *)&m->f[row])[feature];
}

static int best_column(const struct growing *g, const long long *sum)
{
	int best = 0;
	for (int c = 1; c < g->m->cols; c++)
		if (sum[c] < sum[best])
			best = c;
	return best;
}

/* The loss of the best single action for n rows with these sums. */
static double impurity(const struct growing *g, const long long *sum, int n)
{
	double bits = 0;
	if (g->how->criterion == CART_COST)
		return (double)sum[best_column(g, sum)];
	for (int c = 0; c < g->m->cols; c++) {
		const double wins = (double)(n - sum[c]);
		if (wins > 0)
			bits += wins * log2(n / wins);
	}
	return bits;
}

static void add(const struct growing *g, long long *sum, int row, int sign)
{
	for (int c = 0; c < g->m->cols; c++)
		sum[c] += sign * matrix_at(g->m, row, c);
}

struct key {
	const struct matrix *m;
	int feature;
};

static int by_feature(const void *pa, const void *pb, void *arg)
{
	const struct key *k = arg;
	const int a = *(const int *)pa, b = *(const int *)pb;
	const long long x = value_at(k->m, a, k->feature), y = value_at(k->m, b, k->feature);
	return x != y ? (x > y) - (x < y) : a - b;
}

/* The gain of every split of a leaf by one feature; the first best is kept. */
static void scan(struct growing *g, struct leaf *l, int feature, double whole)
{
	const struct key key = { g->m, feature };
	const size_t size = sizeof *g->below * (size_t)g->m->cols;
	memcpy(g->order, &g->rows[l->first], sizeof *g->order * (size_t)l->n);
	qsort_r(g->order, (size_t)l->n, sizeof *g->order, by_feature, (void *)&key);
	memset(g->below, 0, size);
	memset(g->above, 0, size);
	for (int i = 0; i < l->n; i++)
		add(g, g->above, g->order[i], 1);
	for (int i = 1; i < l->n; i++) {
		const long long lo = value_at(g->m, g->order[i - 1], feature);
		const long long hi = value_at(g->m, g->order[i], feature);
		add(g, g->below, g->order[i - 1], 1);
		add(g, g->above, g->order[i - 1], -1);
		if (lo == hi)
			continue;
		const double gain =
		    whole - impurity(g, g->below, i) - impurity(g, g->above, l->n - i);
		if (gain > l->gain * (1 + 1e-12) + 1e-9) {
			l->gain = gain;
			l->feature = feature;
			l->threshold = lo + (hi - lo) / 2;
		}
	}
}

static void enter(struct growing *g, int node, int first, int n, int depth)
{
	struct leaf *l = &g->leaf[g->leaves++];
	double whole;
	*l = (struct leaf){ .node = node, .first = first, .n = n, .depth = depth };
	memset(g->above, 0, sizeof *g->above * (size_t)g->m->cols);
	for (int i = 0; i < n; i++)
		add(g, g->above, g->rows[first + i], 1);
	whole = impurity(g, g->above, n);
	g->tree->v[node].action = best_column(g, g->above);
	g->tree->v[node].support = n;
	for (int f = 0; f < ATTUNE_NUM_FEATURES && depth < g->how->max_depth; f++)
		scan(g, l, f, whole);
}

static int split(struct growing *g, int which)
{
	const struct leaf l = g->leaf[which];
	const int below = tree_new_node(g->tree), above = tree_new_node(g->tree);
	struct node *v = &g->tree->v[l.node];
	int n = 0, m = 0;
	if (below < 0 || above < 0)
		return 0;
	v->feature = l.feature;
	v->threshold = l.threshold;
	v->below = below;
	v->above = above;
	for (int i = 0; i < l.n; i++) { /* keeps the order of rows on either side */
		const int row = g->rows[l.first + i];
		if (value_at(g->m, row, l.feature) <= l.threshold)
			g->rows[l.first + n++] = row;
		else
			g->order[m++] = row;
	}
	memcpy(&g->rows[l.first + n], g->order, sizeof *g->order * (size_t)m);
	g->leaf[which] = g->leaf[--g->leaves];
	enter(g, below, l.first, n, l.depth + 1);
	enter(g, above, l.first + n, m, l.depth + 1);
	return 1;
}

int cart_grow(struct tree *t, const struct matrix *m, const struct cart *how)
{
	struct growing *g = calloc(1, sizeof *g);
	const int most =
	    how->max_leaves < (int)COUNT(g->leaf) ? how->max_leaves : (int)COUNT(g->leaf);
	int done = 0;
	*t = (struct tree){ 0 };
	if (g) {
		*g = (struct growing){ .m = m, .how = how, .tree = t };
		g->rows = matrix_rows(m);
		g->order = calloc((size_t)m->rows + 1, sizeof *g->order);
		g->below = calloc((size_t)m->cols + 1, sizeof *g->below);
		g->above = calloc((size_t)m->cols + 1, sizeof *g->above);
		done = g->rows && g->order && g->below && g->above && tree_new_node(t) >= 0;
	}
	if (done)
		enter(g, 0, 0, m->rows, 0);
	while (done && g->leaves < most) {
		int best = 0;
		for (int i = 1; i < g->leaves; i++)
			if (g->leaf[i].gain > g->leaf[best].gain ||
			    (g->leaf[i].gain == g->leaf[best].gain &&
			     g->leaf[i].node < g->leaf[best].node))
				best = i;
		if (!(g->leaf[best].gain > 0))
			break;
		done = split(g, best);
	}
	if (g) {
		free(g->rows);
		free(g->order);
		free(g->below);
		free(g->above);
	}
	free(g);
	return done;
}
