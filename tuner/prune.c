/* prune.c - smaller trees: which leaves can go at the least cost. Besides making
 * a leaf of a node, a child may take its parent's place: look-ahead sometimes
 * splits first where chance said so and only then where it matters, and then
 * the first split can go for nothing. */
#include "tuner.h"
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

/* Moves those that go below to the front; how many. */
static int divide(const struct node *v, const struct matrix *m, int *rows, int n)
{
	int below = 0;
	for (int i = 0; i < n; i++)
		if (goes_below(v, &m->f[rows[i]])) {
			const int row = rows[i];
			rows[i] = rows[below];
			rows[below++] = row;
		}
	return below;
}

/* What rows cost that are sent into the subtree as it stands. */
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

/* Cost of the subtree over its rows; looks at all cuts in it. */
static long long weigh(const struct tree *t, int node, const struct matrix *m, int *rows, int n,
		       struct cut *best)
{
	const struct node *v = &t->v[node];
	if (v->feature < 0)
		return cost_through(t, node, m, rows, n);
	const int split = divide(v, m, rows, n);
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

static void annotate(struct tree *t, int node, const struct matrix *m, int *rows, int n,
		     long long *sum)
{
	struct node *v = &t->v[node];
	memset(sum, 0, sizeof *sum * (size_t)m->cols);
	v->support = n;
	v->weight = 0;
	for (int i = 0; i < n; i++) {
		v->weight += m->weight[rows[i]];
		for (int c = 0; c < m->cols; c++)
			sum[c] += matrix_at(m, rows[i], c);
	}
	v->action = 0;
	v->runner_up = -1;
	for (int c = 1; c < m->cols; c++)
		if (sum[c] < sum[v->action])
			v->action = c;
	for (int c = 0; c < m->cols; c++)
		if (c != v->action && (v->runner_up < 0 || sum[c] < sum[v->runner_up]))
			v->runner_up = c;
	v->cost = sum[v->action];
	v->runner_up_cost = v->runner_up < 0 ? 0 : sum[v->runner_up];
	if (v->feature < 0)
		return;
	const int split = divide(v, m, rows, n);
	annotate(t, v->below, m, rows, split, sum);
	annotate(t, v->above, m, rows + split, n - split, sum);
}

int tree_annotate(struct tree *t, const struct matrix *m, int *rows, int n)
{
	long long *sum = malloc(sizeof *sum * ((size_t)m->cols + 1));
	if (!sum)
		return 0;
	annotate(t, 0, m, rows, n, sum);
	free(sum);
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
