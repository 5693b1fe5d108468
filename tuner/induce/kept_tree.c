/* SPDX-License-Identifier: Apache-2.0 */
/* kept_tree.c - keeps the tree of rules from another GPU and lets its leaves name other choices where
 * this GPU's times show that they are faster.
 *
 * Such thresholds hold on GPUs of the same architecture. On an H100, trees grown from its own times, of
 * 1,112 training scenarios, were 0.5 % slower than the H200's trees as they are, and the H200's trees with
 * new labels 0.7 % faster (125 batches that none was learned from, `attune bench`). */
#include "phase_fit.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/forest/forest.h"
#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"
#include <stdlib.h>

/* A choice that the leaf does not name yet must be 1 % faster, the noise of a time. */
enum { PREFERENCE = 10000 };

/* The choice as offers have it: the number of segments follows from costs fitted here. */
static struct choice offered(struct choice c)
{
	const int axis = c.kernel->space->formula_axis;
	if (axis >= 0)
		c.config.v[axis] = SEGMENTS_FITTED;
	return c;
}

int kept_choices(const struct forest *kept, enum decision decision, struct choice out[MAX_IDS])
{
	const struct tree *t = &kept->tree[decision];
	int named[MAX_IDS] = { 0 }, n = 0;
	for (int i = 0; i < t->n; i++) {
		if (t->v[i].feature >= 0 || t->v[i].action < 0)
			continue;
		const struct attune_list *l = &kept->list[t->v[i].action];
		named[t->v[i].action] = 1;
		for (int k = 0; k < l->n; k++)
			named[l->at[k]] = 1;
	}
	for (int c = 0; c < kept->num_choices; c++)
		if (named[c])
			out[n++] = offered(kept->choice[c]);
	return n;
}

/* The column of a leaf's choice; -1: it has none. */
static int column_of(const struct phase_fit *fit, const struct forest *kept,
		     const struct node *leaf)
{
	if (leaf->action < 0)
		return -1;
	const struct choice named = offered(kept->choice[leaf->action]);
	for (int c = 0; c < fit->m->cols; c++)
		if (choice_same(&named, &fit->cheapest.choice[c]))
			return c;
	return -1;
}

/* Sums over the rows of each node: [nodes][cols + 1], the costs of the columns, then the weight. */
static long long *sum_nodes(const struct tree *t, const struct matrix *m)
{
	const size_t width = (size_t)m->cols + 1;
	long long *sum = calloc((size_t)t->n * width, sizeof *sum);
	for (int r = 0; sum && r < m->rows; r++) {
		long long *leaf = sum + (size_t)tree_leaf(t, &m->f[r]) * width;
		for (int c = 0; c < m->cols; c++)
			leaf[c] += matrix_at(m, r, c);
		leaf[m->cols] += m->weight[r];
	}
	for (int i = t->n - 1; sum && i >= 0; i--) { /* a node comes before those below */
		const struct node *v = &t->v[i];
		for (size_t c = 0; v->feature >= 0 && c < width; c++)
			sum[(size_t)i * width + c] =
			    sum[(size_t)v->below * width + c] + sum[(size_t)v->above * width + c];
	}
	return sum;
}

struct labels {
	struct phase_fit *fit;
	const struct forest *kept;
	const long long *sum;
};

/* Labels the leaves below a node. A node without rows takes the sums of the one above. */
static void label(const struct labels *x, int node, const long long *above)
{
	struct node *v = &x->fit->tree.v[node];
	const int cols = x->fit->m->cols;
	const long long *own = x->sum + (size_t)node * ((size_t)cols + 1);
	const long long *sum = own[cols] ? own : above;
	if (v->feature >= 0) {
		label(x, v->below, sum);
		label(x, v->above, sum);
		v->action = x->fit->tree.v[v->below].action; /* so equal leaves merge (tree_tidy) */
		return;
	}
	const int named = column_of(x->fit, x->kept, v);
	int best = named < 0 ? 0 : named;
	long long least = sum[best] - (named < 0 ? 0 : PREFERENCE * sum[cols]);
	for (int c = 0; c < cols; c++)
		if (sum[c] < least)
			least = sum[best = c];
	v->action = best;
	v->remark = REMARK_NONE;
}

int fit_kept_tree(struct phase_fit *fit, const struct forest *kept, enum decision decision)
{
	const struct tree *t = &kept->tree[decision];
	long long *sum = sum_nodes(t, fit->m);
	while (sum && fit->tree.n < t->n && tree_new_node(&fit->tree) >= 0)
		fit->tree.v[fit->tree.n - 1] = t->v[fit->tree.n - 1];
	const int done = sum && fit->tree.n == t->n;
	if (done)
		label(&(struct labels){ fit, kept, sum }, 0, sum);
	fit->is_kept = done;
	free(sum);
	return done;
}
