/* prices.h - choices of which the cheapest is taken; for price_fit.c, market.c, prices.c and forest.c. */
#ifndef PRICES_H
#define PRICES_H

#include "tuner.h"

struct prices {
	struct choice choice[MAX_PRICED];
	int num_choices;
	struct selector_price price[MAX_PRICES]; /* ids: of choice above */
	int num_prices;
	/* [data.n] for rows that were learned from, what prices say that have not seen the
	 * row, a choice of the data or -1: as good as the rule is elsewhere. */
	int *unseen;
};

/* price_fit.c: one measured time, and what it counts. */
struct cell_fit {
	const struct attune_features *f;
	int segments;
	double us, weight;
};
/* Fills in all but rows and tile, with at most so many slots. 0: without memory. */
int price_fit(struct price *, const struct cell_fit *, int n, int most_slots);

/* prices.c */
void prices_free(struct prices *);
/* At most `most` choices of one decision, and their prices, learned from the rows of m,
 * which has all concrete choices of d. 0 without memory. */
int prices_fit(struct prices *, const struct data *, const struct matrix *, enum decision,
	       int most);

#endif
