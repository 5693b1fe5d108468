/* fit.c - chooses the number of leaves by blocked cross-validation. All rows with the same batch
 * size, length (by power of two) or model are held out together, since a scenario similar to a
 * held-out one would give its answer away. Rows are also held out alone, since most batches do lie
 * between measured ones.
 *
 * SIZE_MOST (enum size_rule) is the largest tree within one standard error of the least loss: past its
 * minimum the curve is flat, leaves are cheap, and the budget bounds them. Slowdowns, also by the tree of
 * least loss, on rows held out of all this, five outer folds in each of the four blockings, 16 leaves, 12
 * columns, H200 (93 prefill and 160 decode rows):
 *
 *             most    least   fewest
 *   prefill   1.0956  1.1260  1.1114
 *   decode    1.0723  1.0746  1.0999
 *
 * SIZE_ALL cross-validates nothing. Most of its rows are made up from the others, and so not held out
 * with them: the largest tree always had the least loss. */
#include "tree.h"
#include "tuner/base/base.h"
#include "tuner/matrix/matrix.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDS = 5, MAX_LEAVES = 256 };

/* Cost of each row while held out, by number of leaves, summed over blockings. */
struct losses {
	int rows, leaves, folds;
	long long *v; /* [rows][leaves + 1] */
};

/* A forbidden choice costs what the library runs in its place. */
static long long held_out_cost(const struct tree *t, const struct matrix *m, int row)
{
	const int action = t->v[tree_leaf(t, &m->f[row])].action;
	const int32_t cost = m->cost[(size_t)row * (size_t)m->cols + (size_t)action];
	return (long long)m->weight[row] * (cost == COST_FORBIDDEN ? m->fallback[row] : cost);
}

/* Adds to the losses of rows[0..n) at `leaves` leaves. */
static void add_losses(struct losses *l, const struct tree *t, const struct matrix *m,
		       const int *rows, int n, int leaves)
{
	for (int i = 0; i < n; i++)
		l->v[(size_t)rows[i] * ((size_t)l->leaves + 1) + (size_t)leaves] +=
		    held_out_cost(t, m, rows[i]);
}

/* Prunes t step by step on rows[0..n); scores every size on the other rows. Size k is the largest
 * tree of at most k leaves. */
static int score_sizes(struct losses *l, struct tree *t, const struct matrix *m, int *rows, int n)
{
	int upto = l->leaves;
	struct cut cut;
	for (;;) {
		const int leaves = tree_leaves(t);
		for (; upto >= leaves; upto--)
			add_losses(l, t, m, rows + n, m->rows - n, upto);
		if (!tree_cheapest_cut(t, m, rows, n, &cut))
			return 1;
		if (!tree_apply_cut(t, m, rows, n, &cut))
			return 0;
	}
}

static int by_int32(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	return (x > y) - (x < y);
}

int matrix_folds(const struct matrix *m, int blocking, int *fold)
{
	int32_t *values = malloc(sizeof *values * (size_t)(m->rows + 1));
	int distinct = 0;
	if (!values)
		return 0;
	for (int r = 0; r < m->rows; r++)
		values[r] = m->block[r * NUM_BLOCKINGS + blocking];
	qsort(values, (size_t)m->rows, sizeof *values, by_int32);
	for (int r = 0; r < m->rows; r++)
		if (!distinct || values[r] != values[distinct - 1])
			values[distinct++] = values[r];
	const int folds = distinct < FOLDS ? distinct : FOLDS;
	for (int r = 0; r < m->rows; r++) {
		const int32_t *at = bsearch(&m->block[r * NUM_BLOCKINGS + blocking], values,
					    (size_t)distinct, sizeof *values, by_int32);
		fold[r] = (int)(at - values) % folds;
	}
	free(values);
	return folds > 1 ? folds : 0;
}

/* Puts the rows outside the fold first; returns their number. */
static int split_rows(const struct matrix *m, const int *fold, int held, int *rows)
{
	int n = 0, end = m->rows;
	for (int r = 0; r < m->rows; r++)
		if (fold[r] != held)
			rows[n++] = r;
	for (int r = m->rows - 1; r >= 0; r--)
		if (fold[r] == held)
			rows[--end] = r;
	return n;
}

/* The trees of a cross-validation, grown in parallel: one per fold of each blocking, and one of all
 * rows. */
struct growing {
	const struct matrix *m;
	const struct growth *how;
	struct losses *losses[NUM_BLOCKINGS]; /* of a blocking's folds, which share no rows */
	int *fold[NUM_BLOCKINGS];
	struct lot {
		int blocking, held; /* blocking -1: all rows, to `whole` */
	} lot[NUM_BLOCKINGS * FOLDS + 1];
	int failed[NUM_BLOCKINGS * FOLDS + 1], n;
	struct tree *whole;
};

static void grow_one(void *arg, size_t i)
{
	struct growing *g = arg;
	const struct lot *lot = &g->lot[i];
	if (lot->blocking < 0) {
		g->failed[i] = !tree_grow(g->whole, g->m, NULL, g->m->rows, g->how);
		return;
	}
	int *rows = malloc(sizeof *rows * (size_t)(g->m->rows + 1));
	struct tree t = { 0 };
	const int n = rows ? split_rows(g->m, g->fold[lot->blocking], lot->held, rows) : 0;
	g->failed[i] = !rows || !tree_grow(&t, g->m, rows, n, g->how) ||
		       !score_sizes(g->losses[lot->blocking], &t, g->m, rows, n);
	tree_free(&t);
	free(rows);
}

static struct losses *losses_new(const struct losses *like)
{
	struct losses *l = malloc(sizeof *l);
	if (!l)
		return NULL;
	*l = *like;
	l->v = calloc((size_t)l->rows + 1, ((size_t)l->leaves + 1) * sizeof *l->v);
	if (l->v)
		return l;
	free(l);
	return NULL;
}

/* Adds those of one blocking to those of all, and frees them. */
static void losses_join(struct losses *all, struct losses *of)
{
	const size_t n = (size_t)all->rows * ((size_t)all->leaves + 1);
	for (size_t i = 0; of && i < n; i++)
		all->v[i] += of->v[i];
	if (of)
		free(of->v);
	free(of);
}

/* Fills the losses of all blockings, and grows the tree of all rows. */
static int cross_validate(const struct matrix *m, const struct growth *how, struct losses *l,
			  struct tree *whole)
{
	struct growing g = { .m = m, .how = how, .whole = whole };
	int done = 1;
	g.lot[g.n++] = (struct lot){ -1, 0 }; /* the longest task starts first */
	for (int b = 0; b < NUM_BLOCKINGS; b++) {
		g.fold[b] = malloc(sizeof *g.fold[b] * (size_t)(m->rows + 1));
		g.losses[b] = losses_new(l);
		done = done && g.fold[b] && g.losses[b];
		const int folds = g.fold[b] ? matrix_folds(m, b, g.fold[b]) : 0;
		for (int held = 0; held < folds; held++)
			g.lot[g.n++] = (struct lot){ b, held };
		l->folds += folds;
	}
	if (done)
		in_parallel(g.n, grow_one, &g);
	for (int i = 0; i < g.n; i++)
		done = done && !g.failed[i];
	for (int b = 0; b < NUM_BLOCKINGS; b++) {
		losses_join(l, g.losses[b]);
		free(g.fold[b]);
	}
	return done;
}

static double loss_at(const struct losses *l, int row, int leaves)
{
	return (double)l->v[(size_t)row * ((size_t)l->leaves + 1) + (size_t)leaves];
}

/* Mean over the rows of the loss with a leaves - the loss with b leaves; *error: its standard
 * error. */
static double compare(const struct losses *l, int a, int b, double *error)
{
	double sum = 0, squares = 0;
	for (int r = 0; r < l->rows; r++) {
		const double more = loss_at(l, r, a) - loss_at(l, r, b);
		sum += more;
		squares += more * more;
	}
	const double mean = sum / l->rows;
	*error = sqrt(fmax(squares / l->rows - mean * mean, 0) / l->rows);
	return mean;
}

static int best_leaves(const struct losses *l, enum size_rule rule)
{
	const int step = rule == SIZE_FEWEST ? 1 : -1;
	double error;
	int best = 1, leaves = rule == SIZE_FEWEST ? 1 : l->leaves;
	for (int i = 2; i <= l->leaves; i++)
		if (compare(l, i, best, &error) < 0)
			best = i;
	while (leaves != best && compare(l, leaves, best, &error) > error)
		leaves += step;
	return leaves;
}

/* Prunes to that many leaves, and further while cuts are free. */
static int prune_to(struct tree *t, const struct matrix *m, int leaves)
{
	int *rows = matrix_rows(m), done = rows != NULL;
	struct cut cut;
	while (done && tree_cheapest_cut(t, m, rows, m->rows, &cut) &&
	       (tree_leaves(t) > leaves || cut.price <= 0))
		done = tree_apply_cut(t, m, rows, m->rows, &cut);
	free(rows);
	return done;
}

int tree_fit(struct tree *t, const struct matrix *m, const struct growth *how)
{
	struct losses l = { .rows = m->rows };
	int done;
	*t = (struct tree){ 0 };
	if (how->rule == SIZE_ALL)
		return tree_grow(t, m, NULL, m->rows, how) && prune_to(t, m, how->max_leaves) &&
		       tree_tidy(t);
	l.leaves = how->max_leaves < MAX_LEAVES ? how->max_leaves : MAX_LEAVES;
	l.v = calloc((size_t)m->rows + 1, ((size_t)l.leaves + 1) * sizeof *l.v);
	done = l.v && cross_validate(m, how, &l, t) &&
	       prune_to(t, m, l.folds ? best_leaves(&l, how->rule) : l.leaves) && tree_tidy(t);
	free(l.v);
	return done;
}
