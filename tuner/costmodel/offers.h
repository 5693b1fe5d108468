/* offers.h - between offers.c and cheapest_set.c: choices that might be priced, and what each would
 * come to in the rows that are learned from. */
#ifndef TUNER_COSTMODEL_OFFERS_H
#define TUNER_COSTMODEL_OFFERS_H

#include "costmodel.h"

enum { MAX_SIZES = 16, FOLDS = 5 };

/* A choice without its formula axis, and what is known of it. */
struct offer {
	struct choice choice; /* of decodes SEGMENTS=fitted, where it has the axis */
	int index;            /* of a member that was measured */
	int number;           /* what the taught matrix calls it */
	int member[MAX_MEMBERS], num_members; /* of data.choice; -1: never measured */
	struct price price[MAX_SIZES];        /* by head size; block.rows 0: too few cells */
	/* [rows] of the matrix: the least estimate, -1: not legal; the cost there; and the
	 * cost of the best member */
	long long *estimate, *cost, *best;
	int *means; /* [rows] what it would run, a choice of the data; -1: none */
};

struct offers {
	const struct data *d;
	const struct matrix *m, *few; /* few: for prefills, whose columns are the offers */
	enum phase phase;
	int *column;     /* [data.num_choices] of the matrix */
	double *best_us; /* [rows] the least of all choices' times there */
	int size[MAX_SIZES], num_sizes;
	struct offer *offer;
	int num_offers;
	int fold; /* rows r with r % FOLDS == fold are not learned from; -1: all are */
};

/* Of d, m, few and phase the rest. 0 without memory; close it either way. */
int offers_open(struct offers *);
void offers_close(struct offers *);
/* Its prices by head size, from all rows but the fold's. cell: room for MAX_MEMBERS a row. 0
 * without memory. */
int offers_fit(const struct offers *, struct offer *, struct cell_fit *cell);
/* What the offer would run in each row. 0 without memory. */
int offers_appraise(const struct offers *, struct offer *);
/* What that costs, of those with in[offer]: at most COST_CAP, also where it failed, since leaves
 * can keep such rows apart. */
void offers_settle(const struct offers *, const char *in);
/* Whether what the offer would run there was seen to fail. */
int offer_has_failed(const struct offers *, const struct offer *, int row);
/* The least estimate of a part, in fs, by the offer's prices at the shape's head size or those
 * that stand for it; else one of these. means: what makes it. */
enum { NO_ESTIMATE = -1 /* no price, or no legal value */, NO_MEMORY = -2 };
long long offer_estimate(const struct offers *, const struct offer *, const attune_shape *,
			 const attune_batch *, const struct part *, struct config *means);

/* made_up_batches.c: a matrix whose columns are the n offers, by their numbers. First come rows of scenarios,
 * *measured of them, at what the offers cost there; then rows of made-up batches, by estimate.
 * Features are rounded to few levels. NULL without memory. */
struct matrix *teach(const struct offers *, const struct offer *const *, int n, int *measured);

#endif
