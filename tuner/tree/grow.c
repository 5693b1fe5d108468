/* grow.c - grows trees that minimise the total cost of choices, not the number of rows where the
 * choice is not the fastest.
 *
 * Each node takes the root split of the exact best tree of two levels over its rows
 * (branch_and_bound.c); its halves are then searched in the same way. This is the "hybrid" tree of
 * policytree (Zhou, Athey, Wager 2023): any depth, in a fraction of the time of an exact tree. Ties
 * go to fewer leaves, the first feature in features.def, the lower threshold, the lower column. All
 * sums are integers and nothing is random, so the tree depends only on the matrix. */
#include "solver.h"
#include "tree.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>

struct grower {
	struct solver *s;
	struct tree *tree;
	int apart;
};

/* The first split of g->apart that leaves either side enough rows; f -1: none. */
static struct answer split_apart(const struct grower *g)
{
	const struct solver *s = g->s;
	const struct view *v = &s->view;
	for (int f = 0; f < s->p; f++)
		for (int l = 0; s->feature[f] == g->apart - 1 && l < v->u[f] - 1; l++) {
			const int below = v->below[f * s->room + l];
			if (below >= s->support && v->count - below >= s->support)
				return (struct answer){ .f = f, .at = v->rank[f * s->room + l] };
		}
	return (struct answer){ .f = -1 };
}

/* Grows the subtree over rows of the solver. Returns its node, -1 without memory. */
static int grow_node(struct grower *g, const int *rows, int n, int depth)
{
	struct solver *s = g->s;
	const int node = tree_new_node(g->tree);
	int *sides, child[2] = { -1, -1 };
	view_fill(s, rows, n);
	struct answer a = split_apart(g);
	if (a.f < 0 || !depth)
		a = solve(s, &s->view, depth < LOOK ? depth : LOOK);
	if (node < 0 || a.f < 0)
		return node;
	sides = malloc(sizeof *sides * (size_t)n);
	if (!sides)
		return -1;
	const int below = view_divide(s, &s->view, a.f, a.at, sides);
	const long long threshold = view_threshold(s, &s->view, a.f, a.at);
	child[0] = grow_node(g, sides, below, depth - 1);
	child[1] = child[0] < 0 ? -1 : grow_node(g, sides + below, n - below, depth - 1);
	free(sides);
	if (child[1] < 0)
		return -1;
	g->tree->v[node].feature = s->feature[a.f];
	g->tree->v[node].threshold = threshold;
	g->tree->v[node].below = child[0];
	g->tree->v[node].above = child[1];
	return node;
}

int tree_grow(struct tree *t, const struct matrix *m, const int *rows, int n,
	      const struct growth *how)
{
	struct solver s;
	struct grower g = { &s, t, how->apart };
	int *own = malloc(sizeof *own * (size_t)(n + 1)), done;
	*t = (struct tree){ 0 };
	for (int i = 0; own && i < n; i++)
		own[i] = rows ? rows[i] : i;
	done = own && solver_open(&s, m, own, n, how->min_support) &&
	       grow_node(&g, s.all, s.n, how->max_depth) == 0 && tree_annotate(t, m, own, n);
	if (own)
		solver_close(&s);
	free(own);
	return done;
}
