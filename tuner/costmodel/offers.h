/* SPDX-License-Identifier: Apache-2.0 */
/* offers.h - offers: choices with a fitted cost model, and their estimates and costs in each
 * training row. Private to tuner/costmodel. */
#ifndef TUNER_COSTMODEL_OFFERS_H
#define TUNER_COSTMODEL_OFFERS_H

#include "costmodel.h"

enum { MAX_SIZES = 16, FOLDS = 5 };

/* A choice, or a family of choices that differ in SEGMENTS. */
struct offer {
	struct choice choice;                 /* with SEGMENTS=fitted, if it has the axis */
	int index;                            /* a measured member */
	int number;                           /* its number in the training matrix */
	int member[MAX_MEMBERS], num_members; /* of data.choice; -1: never measured */
	struct cost_model model[MAX_SIZES];   /* by head size; block.rows 0: too few cells */
	int cells[MAX_SIZES];                 /* times that they are fitted to */
	int is_few;                           /* its family has one of the columns `few` */
	/* [rows] estimated fs, or enum no_estimate; cost of the member that it would run; cost of
	 * its best member */
	long long *estimate, *cost, *best;
	int *means; /* [rows] the member that it would run, a choice of the data; -1: none */
};

struct offers {
	const struct data *d;
	const struct matrix *m, *few; /* few: for prefills, the columns that become offers */
	enum phase phase;
	int *column;     /* [data.num_choices] of the matrix */
	double *best_us; /* [rows] the least time of all choices */
	int size[MAX_SIZES], num_sizes;
	struct offer *offer;
	int num_offers;
	int fold; /* rows r with r % FOLDS == fold are held out; -1: none */
};

/* Lists the offers, given d, m, few and phase. 0 without memory; close it either way. */
int offers_open(struct offers *);
void offers_close(struct offers *);
/* Fits its models by head size, without the rows of the fold. cell: scratch, [rows * MAX_MEMBERS].
 * 0 without memory. */
int offer_fit(const struct offers *, struct offer *, struct cell_fit *cell);
/* Sets estimate, means and best in all rows. */
void offer_estimate_rows(const struct offers *, struct offer *);
/* Sets cost of the offers with in[offer], at most COST_CAP per unit of weight. A failed run costs
 * that, too, and not COST_FORBIDDEN, since leaves can separate such rows. */
void offers_set_costs(const struct offers *, const char *in);
/* Whether the member that the offer would run there has failed. */
int offer_has_failed(const struct offers *, const struct offer *, int row);
/* The least estimate of a part in fs, by the model of the shape's head size or of the one that
 * stands for it; *means is the configuration that reaches it. */
enum no_estimate { NO_MODEL = -1, NOT_LEGAL = -2 };
long long offer_estimate(const struct offers *, const struct offer *, const attune_shape *,
			 const struct part *, struct config *means);

/* made_up_batches.c: the matrix from which a tree learns. Columns are the n offers. The first
 * *measured rows are scenarios, with measured costs; the others are made-up batches, with estimated
 * costs. Features are rounded to few levels. NULL without memory. */
struct probes;
struct matrix *make_training_matrix(const struct offers *, const struct probes *,
				    const struct offer *const *, int n, int *measured,
				    int *similar);

#endif
