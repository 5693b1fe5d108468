/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - chooses the number of leaves by cross-validation.
 *
 * Rows are held out in two ways, whose losses add up. By block, a model and a number of sequences by
 * power of two, since a scenario similar to a held-out one would give its answer away; and each
 * scenario alone, since most batches do lie between measured ones. Made-up rows go with the scenario
 * from which they were made, and only scenarios are scored. Of the sizes whose loss is within one
 * standard error of the least, the fewest leaves are taken (Breiman et al. 1984, "Classification and
 * regression trees", section 3.4.3); but no more than MOST_GIVEN is given for them. Rows of one block
 * err alike, so the error is that of a sum over blocks. */
#include "tree.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/matrix/matrix.h"
#include <math.h>
#include <stdlib.h>

/* MOST_GIVEN: the loss that is given for fewer leaves, at most: 0.03 %. Of few rows the error is so
 * large that a tree of one leaf would do. */
enum { FOLDS = 5, MOST_GIVEN = 300 };
enum way { BY_BLOCK, ALONE, WAYS };

struct fitting {
	const struct matrix *m;
	const struct growth *how;
	int scored;       /* rows */
	int *group[WAYS]; /* [rows] the rank of its block, or scenario */
	int groups[WAYS];
	/* [WAYS][scored][max_leaves + 1] of each row while held out, by number of leaves */
	long long *loss;
	double weight; /* mean of the scored rows */
	struct tree *whole;
	int failed[WAYS * FOLDS + 1];
};

/* Ranks the rows by a key. */
static int number_groups(struct fitting *x, enum way way, const int32_t *key)
{
	const size_t rows = (size_t)x->m->rows;
	int32_t *sorted = malloc(sizeof *sorted * (rows + 1));
	x->group[way] = malloc(sizeof *x->group[way] * (rows + 1));
	for (size_t r = 0; sorted && r < rows; r++)
		sorted[r] = key[r];
	if (sorted)
		qsort(sorted, rows, sizeof *sorted, by_int32);
	for (size_t r = 0; sorted && r < rows; r++)
		if (!x->groups[way] || sorted[r] != sorted[x->groups[way] - 1])
			sorted[x->groups[way]++] = sorted[r];
	for (size_t r = 0; sorted && x->group[way] && r < rows; r++) {
		const int32_t *at =
		    bsearch(&key[r], sorted, (size_t)x->groups[way], sizeof *sorted, by_int32);
		x->group[way][r] = (int)(at - sorted);
	}
	free(sorted);
	return sorted && x->group[way];
}

/* A forbidden choice costs what the library runs in its place. */
static long long held_out_cost(const struct matrix *m, int row, int action)
{
	const int32_t cost = m->cost[(size_t)row * (size_t)m->cols + (size_t)action];
	return (long long)m->weight[row] * (is_forbidden(cost) ? m->fallback[row] : cost);
}

static long long *losses_of(const struct fitting *x, enum way way, int row)
{
	return x->loss +
	       ((size_t)way * (size_t)x->scored + (size_t)row) * ((size_t)x->how->max_leaves + 1);
}

/* Sets the losses of a row: on its way down, a node is the leaf of all sizes that do not split it. */
static void score_row(const struct fitting *x, enum way way, const struct tree *t, int row)
{
	const long long *value = (const long long *)&x->m->f[row];
	long long *loss = losses_of(x, way, row);
	for (int at = 0, leaves = 1; leaves <= x->how->max_leaves;) {
		const struct node *v = &t->v[at];
		const int upto = v->feature < 0 ? x->how->max_leaves : (v->below + 1) / 2;
		for (; leaves <= upto; leaves++)
			loss[leaves] = held_out_cost(x->m, row, v->action);
		if (v->feature >= 0)
			at = value[v->feature] <= v->threshold ? v->below : v->above;
	}
}

/* Grows the tree without the rows of a fold of a way, and scores them; the last tree is of all rows. A
 * fold of all rows teaches nothing. */
static void grow_one(void *arg, size_t lot)
{
	struct fitting *x = arg;
	const enum way way = (enum way)(lot / FOLDS);
	const int fold = (int)(lot % FOLDS), rows = x->m->rows;
	struct tree t = { 0 };
	int *row = malloc(sizeof *row * ((size_t)rows + 1)), n = 0;
	for (int r = 0; row && r < rows; r++)
		if (way == WAYS || x->group[way][r] % FOLDS != fold)
			row[n++] = r;
	x->failed[lot] = !row || (n && !tree_grow(&t, x->m, row, n, x->how));
	free(row);
	if (way == WAYS) {
		*x->whole = t;
		return;
	}
	for (int r = 0; !x->failed[lot] && n && r < x->scored; r++)
		if (x->group[way][r] % FOLDS == fold)
			score_row(x, way, &t, r);
	tree_free(&t);
}

static double loss_of(const struct fitting *x, int row, int leaves)
{
	return (double)(losses_of(x, BY_BLOCK, row)[leaves] + losses_of(x, ALONE, row)[leaves]) /
	       WAYS;
}

static double mean_loss(const struct fitting *x, int leaves)
{
	double sum = 0;
	for (int r = 0; r < x->scored; r++)
		sum += loss_of(x, r, leaves);
	return sum / x->scored;
}

/* Mean over the scored rows of the loss with a leaves - the loss with b leaves; *error: its standard
 * error. sum: scratch, [blocks]. */
static double compare(const struct fitting *x, int a, int b, double *sum, double *error)
{
	double mean = 0, squares = 0;
	for (int r = 0; r < x->scored; r++)
		mean += (loss_of(x, r, a) - loss_of(x, r, b)) / x->scored;
	for (int g = 0; g < x->groups[BY_BLOCK]; g++)
		sum[g] = 0;
	for (int r = 0; r < x->scored; r++)
		sum[x->group[BY_BLOCK][r]] += loss_of(x, r, a) - loss_of(x, r, b) - mean;
	for (int g = 0; g < x->groups[BY_BLOCK]; g++)
		squares += sum[g] * sum[g];
	*error = sqrt(squares) / x->scored;
	return mean;
}

/* The number of leaves; 0 without memory. */
static int choose_size(const struct fitting *x)
{
	double *sum = malloc(sizeof *sum * ((size_t)x->groups[BY_BLOCK] + 1)), error;
	int best = 1, leaves = 1;
	if (!sum)
		return 0;
	for (int i = 2; i <= x->how->max_leaves; i++)
		if (compare(x, i, best, sum, &error) < 0)
			best = i;
	while (leaves < best &&
	       compare(x, leaves, best, sum, &error) > fmin(error, MOST_GIVEN * x->weight))
		leaves++;
	free(sum);
	return leaves;
}

/* The tree of fewer leaves that was grown first. */
static void truncate_tree(struct tree *t, int leaves)
{
	if (t->n > 2 * leaves - 1)
		t->n = 2 * leaves - 1;
	for (int i = 0; i < t->n; i++)
		if (t->v[i].below >= t->n)
			t->v[i].feature = t->v[i].below = t->v[i].above = -1;
}

int tree_fit(struct tree *t, const struct matrix *m, const struct growth *how)
{
	struct fitting x = {
		.m = m, .how = how, .whole = t, .scored = how->scenarios ? how->scenarios : m->rows
	};
	*t = (struct tree){ 0 };
	x.loss =
	    calloc(WAYS * ((size_t)x.scored + 1), ((size_t)how->max_leaves + 1) * sizeof *x.loss);
	int done = x.loss && number_groups(&x, BY_BLOCK, m->block) &&
		   number_groups(&x, ALONE, m->scenario);
	for (int r = 0; r < x.scored; r++)
		x.weight += (double)m->weight[r] / x.scored;
	if (done)
		in_parallel(WAYS * FOLDS + 1, grow_one, &x);
	for (int i = 0; i <= WAYS * FOLDS; i++)
		done = done && !x.failed[i];
	const int leaves = done ? choose_size(&x) : 0;
	if (leaves && how->loss)
		*how->loss = mean_loss(&x, leaves);
	free(x.group[BY_BLOCK]);
	free(x.group[ALONE]);
	free(x.loss);
	if (!leaves)
		return 0;
	truncate_tree(t, leaves);
	return tree_tidy(t);
}
