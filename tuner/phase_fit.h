/* phase_fit.h - the prefill or the decode tree in the making; for forest.c and number.c. */
#ifndef PHASE_FIT_H
#define PHASE_FIT_H

#include "prices.h"

struct phase_fit {
	struct data d; /* with what is cheapest */
	int *cheapest;
	struct prices prices;
	struct matrix *m;
	struct tree tree; /* actions: columns of m */
	struct making making;
};

/* Numbers the choices of both trees and moves trees and prices over; the fits lose them.
 * 0: there is none, or too many. */
int number_choices(struct forest *, const struct data *, struct phase_fit fit[2]);

#endif
