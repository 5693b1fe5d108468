/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - what each choice costs in each training scenario, as integers; and the few choices
 * that are worth having. Includes data. */
#ifndef TUNER_MATRIX_MATRIX_H
#define TUNER_MATRIX_MATRIX_H

#include "tuner/data/data.h"

/* ---- matrix.c: a cost matrix in memory -------------------------------------------- */
enum phase decision_phase(enum decision);

/* Costs in micro-nats: 1e6 x log(time / best time) of the whole plan. */
enum {
	COST_CAP = 4000000,    /* e^4: beyond that, slowdowns are not distinguished */
	COST_MISSING = 100000, /* added to the row's worst: an unmeasured choice is never better */
	COST_FORBIDDEN = INT32_MAX,       /* failed: no leaf over this row may choose it */
	COST_ILLEGAL = COST_FORBIDDEN - 1 /* a rule forbids it: another choice runs */
};

struct matrix {
	int rows, cols;
	int *scenario;     /* [rows] index into data.v */
	int *choice;       /* [cols] index into data.choice, or what the matrix's maker says */
	int32_t *cost;     /* [rows][cols] */
	int32_t *fallback; /* [rows] cost of the kernels' default */
	int32_t *weight;   /* [rows] 1 or more */
	int32_t *block;    /* [rows] rows of one block are held out together */
	struct attune_features *f; /* [rows] */
};

struct matrix *matrix_new(int rows, int cols);
struct matrix *matrix_copy(const struct matrix *);
void matrix_free(struct matrix *);
/* Keeps `cols` columns: column c becomes to[c] <= c; -1 drops it. 0 without memory. */
int matrix_keep(struct matrix *, const int *to, int cols);
/* Puts the rows[0..n) with a feature <= threshold first; returns their number. */
int matrix_divide(const struct matrix *, int *rows, int n, int feature, long long threshold);
/* Sets everything of a row but its costs, from the scenario that it names. */
void matrix_describe_row(const struct data *, struct matrix *, int row, enum phase);
int32_t cost_of(double us, double best_us);
#define FORBIDDEN_SUM (1ll << 46)
/* Whether a choice does not run there, or failed. */
static inline int is_forbidden(int32_t cost)
{
	return cost >= COST_ILLEGAL;
}
/* weight x cost; a forbidden or illegal cell costs more than all others together. */
static inline long long matrix_at(const struct matrix *m, int row, int col)
{
	const int32_t cost = m->cost[(size_t)row * (size_t)m->cols + (size_t)col];
	return is_forbidden(cost) ? FORBIDDEN_SUM : (long long)m->weight[row] * cost;
}

/* ---- row_costs.c: the costs of each row --------------------------------------------- */
/* Fills in all rows; their scenarios must be set. 0 without memory. */
int matrix_fill_rows(const struct data *, struct matrix *, enum phase);
/* Whether the part was run there and failed or was wrong. */
int part_failed(const struct data *, int scenario, enum phase, int choice);

/* ---- training_matrix.c: which scenarios and choices are learned from ------------------ */
/* The matrix of the prefill or the decode decision, from pass A; NULL without memory. */
struct matrix *matrix_parts(const struct data *, enum decision);

/* ---- portfolio.c: which choices are worth having ---------------------------------- */
enum { MAX_PORTFOLIO = 32 };
struct portfolio {
	int n;
	double mean[MAX_PORTFOLIO]; /* [k] mean slowdown with the best of the first k + 1 choices */
};
/* Keeps at most `limit` columns with the least sum of row minima. given: a column that must be
 * among them, -1: none. The last argument receives how good they are; it may be NULL. 0 without
 * memory. */
int matrix_portfolio(struct matrix *, int limit, int given, struct portfolio *);

#endif
