/* extra_trees.c - extremely randomized trees (Geurts, Ernst and Wehenkel 2006, "Extremely randomized
 * trees", section 2), with one cost a column. Each node tries a threshold drawn at random on half of
 * the features and keeps the split that leaves the least variance. A column that is not known in a
 * row counts in the other rows alone. */
#include "extra_trees.h"
#include "harness/base/base.h"
#include <stdlib.h>

enum { TREES = 100, LEAST_ROWS = 2 /* of a leaf */, HIGHEST = 500000 /* cost that is learned */ };

struct node {
	int feature; /* -1: a leaf */
	int below, above;
	long long threshold;
	int32_t *mean; /* [cols] */
};

struct extra_trees {
	const struct matrix *m; /* NULL once it has grown */
	int cols, *rows;        /* rows: scratch */
	unsigned long long state;
	struct node *node; /* [TREES][most] */
	int32_t *mean;     /* [TREES][most][cols] */
	int most, n[TREES];
};

/* Of the rows on one side of a split. */
struct sums {
	int rows;
	long long n[MAX_COLUMNS], cost[MAX_COLUMNS];
};

static long long feature_of(const struct matrix *m, int row, int feature)
{
	return ((const long long *)&m->f[row])[feature];
}

static void side_clear(struct sums *s, int cols)
{
	s->rows = 0;
	for (int c = 0; c < cols; c++)
		s->n[c] = s->cost[c] = 0;
}

static void side_add(struct sums *s, const struct matrix *m, int row)
{
	const int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols];
	s->rows++;
	for (int c = 0; c < m->cols; c++) {
		if (cost[c] == COST_FORBIDDEN)
			continue;
		s->n[c]++;
		s->cost[c] += cost[c] < HIGHEST ? cost[c] : HIGHEST;
	}
}

/* The larger, the less variance is left. */
static double score_of(const struct sums *s, int cols)
{
	double score = 0;
	for (int c = 0; c < cols; c++)
		if (s->n[c])
			score += (double)s->cost[c] * (double)s->cost[c] / (double)s->n[c];
	return score;
}

/* Tries the value of a random row as the threshold. */
static void try_feature(struct extra_trees *t, const int *rows, int n, int feature,
			struct node *best, double *score)
{
	const struct matrix *m = t->m;
	const int row = rows[random_bits(&t->state) % (unsigned long long)n];
	const long long threshold = feature_of(m, row, feature);
	struct sums side[2];
	side_clear(&side[0], m->cols);
	side_clear(&side[1], m->cols);
	for (int i = 0; i < n; i++)
		side_add(&side[feature_of(m, rows[i], feature) > threshold], m, rows[i]);
	const double now = score_of(&side[0], m->cols) + score_of(&side[1], m->cols);
	if (side[0].rows < LEAST_ROWS || side[1].rows < LEAST_ROWS ||
	    (best->feature >= 0 && now <= *score))
		return;
	*score = now;
	best->feature = feature;
	best->threshold = threshold;
}

/* above: what the parent has, for columns that no row here knows. */
static void set_means(struct node *v, const struct matrix *m, const int *rows, int n,
		      const int32_t *above)
{
	struct sums all;
	side_clear(&all, m->cols);
	for (int i = 0; i < n; i++)
		side_add(&all, m, rows[i]);
	for (int c = 0; c < m->cols; c++)
		v->mean[c] = all.n[c] ? (int32_t)(all.cost[c] / all.n[c])
			     : above  ? above[c]
				      : HIGHEST;
}

/* Adds the tree over rows[0..n) to tree `at`; returns its root. */
static int grow(struct extra_trees *t, int at, int *rows, int n, const int32_t *above)
{
	const int own = t->n[at]++;
	struct node *v = &t->node[at * t->most + own];
	double score = 0;
	*v = (struct node){
		.feature = -1,
		.mean = &t->mean[((size_t)at * (size_t)t->most + (size_t)own) * (size_t)t->cols]
	};
	set_means(v, t->m, rows, n, above);
	for (int f = 0; n >= 2 * LEAST_ROWS && f < ATTUNE_NUM_FEATURES; f++)
		if (random_bits(&t->state) & 1)
			try_feature(t, rows, n, f, v, &score);
	if (v->feature >= 0) {
		const int below = matrix_divide(t->m, rows, n, v->feature, v->threshold);
		v->below = grow(t, at, rows, below, v->mean);
		v->above = grow(t, at, rows + below, n - below, v->mean);
	}
	return own;
}

struct extra_trees *extra_trees_grow(const struct matrix *m)
{
	struct extra_trees *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = (struct extra_trees){ .m = m, .cols = m->cols, .most = 2 * m->rows };
	t->rows = malloc(sizeof *t->rows * ((size_t)m->rows + 1));
	t->node = malloc(sizeof *t->node * TREES * ((size_t)t->most + 1));
	t->mean = malloc(sizeof *t->mean * TREES * ((size_t)t->most + 1) * (size_t)m->cols);
	if (!t->rows || !t->node || !t->mean || m->cols > MAX_COLUMNS) {
		extra_trees_free(t);
		return NULL;
	}
	for (int at = 0; at < TREES; at++) {
		for (int r = 0; r < m->rows; r++)
			t->rows[r] = r;
		grow(t, at, t->rows, m->rows, NULL);
	}
	t->m = NULL;
	return t;
}

void extra_trees_free(struct extra_trees *t)
{
	if (!t)
		return;
	free(t->rows);
	free(t->node);
	free(t->mean);
	free(t);
}

void extra_trees_estimate(const struct extra_trees *t, const struct attune_features *f,
			  int32_t *cost)
{
	const long long *value = (const long long *)f;
	for (int c = 0; c < t->cols; c++) {
		long long sum = 0;
		for (int at = 0; at < TREES; at++) {
			const struct node *v = &t->node[at * t->most];
			while (v->feature >= 0)
				v = &t->node[at * t->most + (value[v->feature] <= v->threshold
								 ? v->below
								 : v->above)];
			sum += v->mean[c];
		}
		cost[c] = (int32_t)(sum / TREES);
	}
}
