/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - rows of choices while a tree is learned: what else a leaf's choice may run as. Lists have
 * columns of a matrix; attune_list: kernels/attune_list.h. */
#ifndef TUNER_INDUCE_ROWS_H
#define TUNER_INDUCE_ROWS_H

#include "kernels/attune_list.h"
#include "tuner/matrix/matrix.h"

struct tree;

/* What rows are learned from. */
struct row_basis {
	const struct matrix *m; /* with COST_ILLEGAL where a column's rule forbids it */
	const char *timed;      /* [scenarios][cols] whether the column was measured there */
	int scenarios;          /* the first rows of m; the others are made up */
};

/* ---- row_search.c ---- */
enum { ROW_RIVALS = 2 };
/* The row of each column: list[cols]. Of a column that no leaf names, over all rows; t NULL: of all
 * columns. 0 without memory. */
int rows_learn(struct attune_list *list, const struct row_basis *, const struct tree *t);
/* The cost of what runs there by a row: its first legal member, else the defaults. */
int32_t row_runs(const struct matrix *, int row, const struct attune_list *);
/* The same after settling: the least cost of its legal members that were measured there. */
int32_t row_settled(const struct row_basis *, int row, const struct attune_list *);

#endif
