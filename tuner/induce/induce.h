/* induce.h - learns a forest from data: choices, trees, what each leaf says.
 * Includes forest, costmodel, policy. */
#ifndef TUNER_INDUCE_INDUCE_H
#define TUNER_INDUCE_INDUCE_H

#include "kernels/kernel.h"

struct data;
struct forest;
struct growth;
struct limits;
struct matrix;
struct pick;
struct tree;

/* ---- induction.c: the trees of all decisions are made ----------------------------------- */
int forest_induce(struct forest *, const struct data *, const struct limits *); /* 0 + complain */

/* ---- overlap_decision.c: one after the other, or side by side ----------------------------- */
/* At most so many fused choices, the one that gains most over the best serial plans of training
 * scenarios first, then what gains most beside those; how many. */
int overlap_portfolio(const struct data *, int *choice, int most);
/* Training rows of the decision, given the picks [data->n] without it. Mixed scenarios that were
 * measured in another way than serial. Columns are ways. */
struct matrix *matrix_overlap(const struct data *, const struct pick *picks);
/* Makes the last tree, of the others; may add choices. 0 without memory. */
int fit_overlap(struct forest *, const struct data *, const struct growth *);

/* ---- leaves.c: what each leaf should say, and is said of it ------------------------ */
/* Whether that choice is slower there than the kernels' defaults, beyond noise. */
int is_unsafe(const struct data *, int scenario, enum phase, int choice);
/* Adds (sign 1) or takes away (-1) what makes induction shun choices that are. */
void matrix_shun(struct matrix *, const struct data *, enum phase, int sign);
/* Gives leaves whose choice is slower than the defaults on average the defaults, -1. */
int leaves_make_safe(struct tree *, const struct matrix *);
/* Figures and remarks for the actions as they are. */
int leaves_describe(struct tree *, const struct matrix *);

/* ---- validity.c: is what a leaf says legal wherever it may be asked ---------------- */
/* Sets node.guarded of all leaves. 0 + complain when the defaults that stand in for
 * an illegal choice are not legal either somewhere in the leaf's box. */
int forest_prove(struct forest *, const struct data *);

#endif
