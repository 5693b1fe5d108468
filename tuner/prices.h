/* prices.h - choices of which the cheapest is taken; for prices.c and forest.c. */
#ifndef PRICES_H
#define PRICES_H

#include "tuner.h"

struct prices {
	struct choice choice[MAX_PRICED];
	int num_choices;
	struct selector_price price[MAX_PRICES]; /* ids: of choice above */
	int num_prices;
};

/* At most `most` choices of one decision, and their prices, learned from the rows of m,
 * which has all concrete choices of d. 0 without memory. */
int prices_fit(struct prices *, const struct data *, const struct matrix *, enum decision,
	       int most);

#endif
