/* SPDX-License-Identifier: Apache-2.0 */
/* phase_fit.h - the prefill or the decode tree while it is being learned, and the rows of its choices;
 * for induction.c, growing.c, kept_tree.c, settled_order.c and number_choices.c. */
#ifndef TUNER_INDUCE_PHASE_FIT_H
#define TUNER_INDUCE_PHASE_FIT_H

#include "rows.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"

struct phase_fit {
	const struct data *d;
	struct cheapest_set cheapest;
	/* m has made-up batches, too; its choices are numbered from d->num_columns on */
	int with_estimates;
	int is_kept;              /* tree is one of other rules, with new labels */
	struct matrix *m;         /* an illegal cell costs what the column's row runs there */
	struct matrix *raw;       /* the same, with COST_ILLEGAL */
	struct attune_list *list; /* [cols] the row of each column */
	struct row_basis basis;   /* of raw */
	char *timed;              /* basis.timed */
	struct tree tree;         /* actions: columns of m */
	struct making making;
};

/* ---- growing.c ---- */
/* Minimum rows per leaf; 2 for small matrices. */
int min_support(const struct matrix *);
/* Makes fit->tree and fit->list; sets the costs of fit->m by the rows. 0 without memory. */
int grow_phase(struct phase_fit *, enum decision, const struct limits *);
/* Cells of `to` that are illegal in raw cost what their column's row runs; list NULL: they
 * stay COST_ILLEGAL. */
void costs_by_rows(struct matrix *to, const struct matrix *raw, const struct attune_list *list);
/* Sets row_cost of the leaves. */
void settle_leaves(struct phase_fit *);

/* ---- kept_tree.c ---- */
/* The choices that the decision's leaves name, and those of their rows; returns their number. */
int kept_choices(const struct forest *, enum decision, struct choice out[MAX_IDS]);
/* Makes fit->tree. 0 without memory. */
int fit_kept_tree(struct phase_fit *, const struct forest *kept, enum decision);

/* ---- settled_order.c ---- */
/* Puts rivals in the order of the settled batches that they won. */
void order_by_settled(struct phase_fit *, enum phase);

/* ---- number_choices.c ---- */
/* The choice of a matrix's number. */
struct choice choice_of(const struct data *, int number);
/* Gives ids to the choices of both trees and moves trees and segment costs into the forest. 0: no
 * choice, or too many. */
int number_choices(struct forest *, const struct data *, struct phase_fit fit[2]);

#endif
