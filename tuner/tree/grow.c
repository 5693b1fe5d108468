/* SPDX-License-Identifier: Apache-2.0 */
/* grow.c - grows trees greedily: of all leaves, the one is split next whose best split gains most.
 *
 * A split saves what one choice for all rows of the leaf costs more than the best choice of each
 * side. Its gain is that, and a little for parting rows whose costs differ: the sum of weight x
 * square of what costs differ from their mean falls, and the fall / ALIKE counts, too. Without it a
 * tree finds no split that saves something only together with the next one. Losses of an H200's
 * decodes with 24 leaves, each block of rows held out in turn (fit.c): about 2.5 % with it, 2.9 % without,
 * 2.4 % with the best of all pairs of splits, which took 800 lines.
 *
 * Thresholds are round values between two that occur. Ties go to the earlier leaf, the first feature
 * of features.def, the lower threshold and the lower column. All sums are integers, so that the tree
 * depends only on the matrix.
 *
 * Nodes are appended in the order of the splits, so the first 2 k - 1 of them are the tree of k
 * leaves: fit.c compares all sizes of one grown tree, and nothing has to be pruned. */
#include "tree.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>
#include <string.h>

/* Values of a feature in a matrix. */
struct levels {
	long long *value; /* [n] ascending */
	int *of;          /* [rows of the matrix] */
	int n;
};

/* Costs above HIGHEST, 2.2x, differ no more. */
enum { HIGHEST = 800000, ALIKE = 4 * HIGHEST };

/* A node's rows, rows[first] ..., and its best split; gain 0: none. */
struct lot {
	int first, n, feature;
	long long threshold, gain;
};

/* Of some rows: [cols] costs, weight x cost up to HIGHEST; and the weight. */
struct sums {
	long long *cost, *capped, weight;
	int rows;
};

struct grower {
	const struct matrix *m;
	const struct growth *how;
	struct tree *tree;
	struct levels feature[ATTUNE_NUM_FEATURES];
	struct lot *lot; /* [node] */
	int *rows;
	/* Of the present node: all, by level of a feature, and the two sides of a split. */
	struct sums all, *level, side[2];
	long long *room; /* of the sums */
};

static long long feature_of(const struct matrix *m, int row, int feature)
{
	return ((const long long *)&m->f[row])[feature];
}

/* The first level whose value is not less. */
static int level_of(const struct levels *l, long long value)
{
	int lo = 0, hi = l->n;
	while (lo < hi) {
		const int mid = (lo + hi) / 2;
		if (l->value[mid] < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int levels_open(struct levels *l, const struct matrix *m, int feature)
{
	*l = (struct levels){ malloc(sizeof *l->value * ((size_t)m->rows + 1)),
			      malloc(sizeof *l->of * ((size_t)m->rows + 1)), 0 };
	if (!l->value || !l->of)
		return 0;
	for (int r = 0; r < m->rows; r++) {
		const long long value = feature_of(m, r, feature);
		const int at = level_of(l, value);
		if (at < l->n && l->value[at] == value)
			continue;
		memmove(l->value + at + 1, l->value + at, sizeof *l->value * (size_t)(l->n++ - at));
		l->value[at] = value;
	}
	for (int r = 0; r < m->rows; r++)
		l->of[r] = level_of(l, feature_of(m, r, feature));
	return 1;
}

static int cheapest(const long long *cost, int cols)
{
	int best = 0;
	for (int c = 1; c < cols; c++)
		if (cost[c] < cost[best])
			best = c;
	return best;
}

static void clear_sums(struct sums *s, int cols)
{
	memset(s->cost, 0, sizeof *s->cost * (size_t)cols);
	memset(s->capped, 0, sizeof *s->capped * (size_t)cols);
	s->weight = s->rows = 0;
}

static void add_row(struct sums *s, const struct matrix *m, int row)
{
	const int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols];
	const long long weight = m->weight[row];
	for (int c = 0; c < m->cols; c++) {
		s->cost[c] += matrix_at(m, row, c);
		s->capped[c] += weight * (cost[c] < HIGHEST ? cost[c] : HIGHEST);
	}
	s->weight += weight;
	s->rows++;
}

/* a += sign x b */
static void add_sums(struct sums *a, const struct sums *b, int sign, int cols)
{
	for (int c = 0; c < cols; c++) {
		a->cost[c] += sign * b->cost[c];
		a->capped[c] += sign * b->capped[c];
	}
	a->weight += sign * b->weight;
	a->rows += sign * b->rows;
}

/* What the best choice costs, less what the rows have in common. */
static long long loss_of(const struct sums *s, int cols)
{
	long long loss = s->cost[cheapest(s->cost, cols)];
	for (int c = 0; c < cols; c++)
		loss -= s->capped[c] / s->weight * s->capped[c] / ALIKE;
	return loss;
}

/* Tries all thresholds of a feature. */
static void try_feature(struct grower *g, struct lot *lot, int feature)
{
	const struct levels *l = &g->feature[feature];
	const int cols = g->m->cols, least = g->how->min_support;
	struct sums *below = &g->side[0], *above = &g->side[1];
	const long long loss = loss_of(&g->all, cols);
	for (int i = 0; i < l->n; i++)
		clear_sums(&g->level[i], cols);
	for (int i = 0; i < lot->n; i++) {
		const int row = g->rows[lot->first + i];
		add_row(&g->level[l->of[row]], g->m, row);
	}
	clear_sums(below, cols);
	clear_sums(above, cols);
	add_sums(above, &g->all, 1, cols);
	for (int at = 0, next = 0; at < l->n; at = next) {
		add_sums(below, &g->level[at], 1, cols);
		add_sums(above, &g->level[at], -1, cols);
		if (above->rows < least || !above->rows)
			return;
		for (next = at + 1; !g->level[next].rows;)
			next++;
		if (below->rows < least || !below->rows)
			continue;
		const long long gain = loss - loss_of(below, cols) - loss_of(above, cols);
		if (gain <= lot->gain)
			continue;
		lot->gain = gain;
		lot->feature = feature;
		lot->threshold = round_between(l->value[at], l->value[next] - 1);
	}
}

/* Adds a leaf over rows[first] ...; returns its node, -1 without memory. */
static int add_leaf(struct grower *g, int first, int n)
{
	const int node = tree_new_node(g->tree), cols = g->m->cols;
	if (node < 0)
		return -1;
	struct lot *lot = &g->lot[node];
	struct node *v = &g->tree->v[node];
	*lot = (struct lot){ .first = first, .n = n };
	clear_sums(&g->all, cols);
	for (int i = 0; i < n; i++)
		add_row(&g->all, g->m, g->rows[first + i]);
	v->support = n;
	v->action = cheapest(g->all.cost, cols);
	v->cost = g->all.cost[v->action];
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++)
		if (g->feature[f].n > 1)
			try_feature(g, lot, f);
	return node;
}

/* Splits the leaf whose split gains most. 0: none gains anything; -1: no memory. */
static int split_best(struct grower *g)
{
	struct tree *t = g->tree;
	int best = 0;
	for (int i = 1; i < t->n; i++)
		if (g->lot[i].gain > g->lot[best].gain)
			best = i;
	struct lot *lot = &g->lot[best];
	if (!lot->gain)
		return 0;
	const int below =
	    matrix_divide(g->m, g->rows + lot->first, lot->n, lot->feature, lot->threshold);
	const int child = add_leaf(g, lot->first, below);
	if (child < 0 || add_leaf(g, lot->first + below, lot->n - below) < 0)
		return -1;
	t->v[best].feature = lot->feature;
	t->v[best].threshold = lot->threshold;
	t->v[best].below = child;
	t->v[best].above = child + 1;
	lot->gain = 0;
	return 1;
}

static void place_sums(struct sums *s, long long *room, size_t cols)
{
	*s = (struct sums){ .cost = room, .capped = room + cols };
}

static int grower_open(struct grower *g, const int *rows, int n)
{
	const size_t cols = (size_t)g->m->cols;
	size_t most = 1;
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++) {
		if (!levels_open(&g->feature[f], g->m, f))
			return 0;
		most = (size_t)g->feature[f].n > most ? (size_t)g->feature[f].n : most;
	}
	g->lot = calloc(2 * (size_t)g->how->max_leaves + 1, sizeof *g->lot);
	g->rows = malloc(sizeof *g->rows * ((size_t)n + 1));
	g->level = malloc(sizeof *g->level * most);
	g->room = malloc(sizeof *g->room * 2 * cols * (most + 3));
	if (!g->lot || !g->rows || !g->level || !g->room)
		return 0;
	for (int i = 0; i < n; i++)
		g->rows[i] = rows ? rows[i] : i;
	for (size_t i = 0; i < most; i++)
		place_sums(&g->level[i], g->room + 2 * cols * i, cols);
	place_sums(&g->all, g->room + 2 * cols * most, cols);
	place_sums(&g->side[0], g->room + 2 * cols * (most + 1), cols);
	place_sums(&g->side[1], g->room + 2 * cols * (most + 2), cols);
	return 1;
}

static void grower_close(struct grower *g)
{
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++) {
		free(g->feature[f].value);
		free(g->feature[f].of);
	}
	free(g->lot);
	free(g->rows);
	free(g->level);
	free(g->room);
}

int tree_grow(struct tree *t, const struct matrix *m, const int *rows, int n,
	      const struct growth *how)
{
	struct grower g = { .m = m, .how = how, .tree = t };
	*t = (struct tree){ 0 };
	int grown = m->cols > 0 && grower_open(&g, rows, n) && add_leaf(&g, 0, n) == 0;
	for (int leaves = 1; grown > 0 && leaves < how->max_leaves; leaves++) {
		const int more = split_best(&g);
		grown = more < 0 ? 0 : 1;
		if (more <= 0)
			break;
	}
	grower_close(&g);
	return grown;
}
