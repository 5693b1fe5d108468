/* SPDX-License-Identifier: Apache-2.0 */
/* induce.h - learns a forest from data: the choices, the trees, and the action of each leaf. */
#ifndef TUNER_INDUCE_INDUCE_H
#define TUNER_INDUCE_INDUCE_H

#include "kernels/segments.h"

struct mixed_rates;
struct data;
struct forest;
struct growth;
struct limits;
struct matrix;
struct pick;
struct tree;

/* Trees learn from estimates with as many scenarios. With fewer they name too much that has no time:
 * 7 of 15 held-out picks of an E4M3 tree that was learned from 78 decodes. */
enum { ROWS_FOR_ESTIMATES = 150 };

/* ---- induction.c: all trees of a forest -------------------------------------------------- */
int forest_induce(struct forest *, const struct data *, const struct limits *); /* 0 + complain */

/* ---- overlap_decision.c: how the two parts of a mixed batch overlap ------------------------ */
/* Picks at most `most` fused choices greedily, by their gain over the best serial plans of training
 * scenarios; returns their number. */
int overlap_portfolio(const struct data *, int *choice, int most);
/* Training rows of the overlap decision: mixed scenarios that were measured with some overlap. Columns
 * are ways to overlap. picks: [data->n] without overlap; one_launch: the same by SAYS_ONE_LAUNCH, join
 * 1 where that may not run. rates: those of the header. */
struct matrix *matrix_overlap(const struct data *, const struct pick *picks,
			      const struct pick *one_launch, const struct mixed_rates *rates);
/* Makes the overlap tree and its rates, given the prefill and the decode tree; may add choices. 0
 * without memory. */
int fit_overlap(struct forest *, const struct data *, const struct growth *);

/* ---- leaves.c: safe actions, and the figures of each leaf ---------------------------- */
/* Adds (sign 1) or removes (-1) a penalty on every cell with an unsafe choice. */
void matrix_penalize_unsafe(struct matrix *, const struct data *, enum phase, int sign);
/* Leaves whose choice is slower than the defaults on average take the best one, or, if that is slower,
 * too, the defaults, -1. */
int leaves_make_safe(struct tree *, const struct matrix *);
/* Sets figures and remarks for the present actions. */
int leaves_describe(struct tree *, const struct matrix *);

/* ---- validity.c: proof that every leaf is legal -------------------------------------- */
/* Sets node.guarded of all leaves. 0 + complain if somewhere in a leaf's box neither its choice nor
 * any default is legal. */
int forest_prove(struct forest *, const struct data *);

/* ---- untimed_members.c ------------------------------------------------------------------- */
/* Sets by_estimate: members without a time in a training scenario where they run in the place of the
 * first or, if they run in none, beside it. */
void rows_mark(struct forest *, const struct data *);

/* ---- last_members.c: the ends of the portable rules' rows ------------------------------- */
/* Adds members to the rows of choices that leaves name, until some member is legal wherever one of
 * the choices or a default is. 0 without memory. */
int rows_close(struct forest *, const struct data *);
/* 0 + complain: a leaf names no choice, or in some part no member of a row is legal, though a choice
 * or a default is. */
int rows_prove(const struct forest *);

#endif
