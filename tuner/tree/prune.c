/* prune.c - removes leaves at the least cost. A node becomes a leaf, or a child takes its parent's
 * place: look-ahead sometimes makes a random split first and the important one below it, and then
 * the first one can be removed for free. */
#include "tree.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>
#include <string.h>

int *matrix_rows(const struct matrix *m)
{
	int *rows = malloc(sizeof *rows * (size_t)(m->rows + 1));
	for (int r = 0; rows && r < m->rows; r++)
		rows[r] = r;
	return rows;
}

static int goes_below(const struct node *v, const struct attune_features *f)
{
	return ((const long long *)f)[v->feature] <= v->threshold;
}

/* Cost of rows that are sent into the present subtree. */
static long long cost_through(const struct tree *t, int node, const struct matrix *m,
			      const int *rows, int n)
{
	long long sum = 0;
	for (int i = 0; i < n; i++) {
		int at = node;
		while (t->v[at].feature >= 0)
			at =
			    goes_below(&t->v[at], &m->f[rows[i]]) ? t->v[at].below : t->v[at].above;
		sum += matrix_at(m, rows[i], t->v[at].action);
	}
	return sum;
}

static void consider(struct cut *best, int node, int child, long long more, int leaves)
{
	const long long price = more / leaves;
	if (best->node >= 0 &&
	    (price > best->price || (price == best->price && leaves <= best->leaves)))
		return;
	*best = (struct cut){ node, child, leaves, price };
}

/* Cost of the subtree over its rows; considers all cuts in it. */
static long long weigh(const struct tree *t, int node, const struct matrix *m, int *rows, int n,
		       struct cut *best)
{
	const struct node *v = &t->v[node];
	if (v->feature < 0)
		return cost_through(t, node, m, rows, n);
	const int split = matrix_divide(m, rows, n, v->feature, v->threshold);
	const int leaves[2] = { tree_leaves_below(t, v->below), tree_leaves_below(t, v->above) };
	const long long below = weigh(t, v->below, m, rows, split, best);
	const long long above = weigh(t, v->above, m, rows + split, n - split, best);
	consider(best, node, -1, v->cost - below - above, leaves[0] + leaves[1] - 1);
	consider(best, node, 0, cost_through(t, v->below, m, rows + split, n - split) - above,
		 leaves[1]);
	consider(best, node, 1, cost_through(t, v->above, m, rows, split) - below, leaves[0]);
	return below + above;
}

int tree_cheapest_cut(const struct tree *t, const struct matrix *m, int *rows, int n,
		      struct cut *cut)
{
	*cut = (struct cut){ -1, -1, 0, 0 };
	weigh(t, 0, m, rows, n, cut);
	return cut->node >= 0;
}

struct annotation {
	struct tree *t;
	const struct matrix *m;
	long long *sum; /* [cols] */
};

/* Cheapest column but one; -1: none. */
static int cheapest(const struct annotation *a, int but)
{
	int best = -1;
	for (int c = 0; c < a->m->cols; c++)
		if (c != but && (best < 0 || a->sum[c] < a->sum[best]))
			best = c;
	return best;
}

static void annotate(const struct annotation *a, int node, int *rows, int n)
{
	struct node *v = &a->t->v[node];
	memset(a->sum, 0, sizeof *a->sum * (size_t)a->m->cols);
	v->support = n;
	v->weight = 0;
	for (int i = 0; i < n; i++) {
		v->weight += a->m->weight[rows[i]];
		for (int c = 0; c < a->m->cols; c++)
			a->sum[c] += matrix_at(a->m, rows[i], c);
	}
	v->action = cheapest(a, -1);
	v->runner_up = cheapest(a, v->action);
	v->cost = a->sum[v->action];
	v->runner_up_cost = v->runner_up < 0 ? 0 : a->sum[v->runner_up];
	if (v->feature < 0)
		return;
	const int split = matrix_divide(a->m, rows, n, v->feature, v->threshold);
	annotate(a, v->below, rows, split);
	annotate(a, v->above, rows + split, n - split);
}

int tree_annotate(struct tree *t, const struct matrix *m, int *rows, int n)
{
	const struct annotation a = { t, m, malloc(sizeof *a.sum * ((size_t)m->cols + 1)) };
	if (!a.sum)
		return 0;
	annotate(&a, 0, rows, n);
	free(a.sum);
	return 1;
}

int tree_apply_cut(struct tree *t, const struct matrix *m, int *rows, int n, const struct cut *cut)
{
	struct node *v = &t->v[cut->node];
	if (cut->child < 0)
		v->feature = -1;
	else
		*v = t->v[cut->child ? v->above : v->below];
	return tree_annotate(t, m, rows, n);
}
