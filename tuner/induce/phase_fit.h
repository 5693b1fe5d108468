/* phase_fit.h - the prefill or the decode tree in the making; for induction.c and number_choices.c. */
#ifndef TUNER_INDUCE_PHASE_FIT_H
#define TUNER_INDUCE_PHASE_FIT_H

#include "tuner/costmodel/costmodel.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"

struct phase_fit {
	const struct data *d;
	struct prices prices;
	int is_taught;    /* m is of prices, whose choices are columns from d->num_columns on */
	struct matrix *m;
	struct tree tree; /* actions: columns of m */
	struct making making;
};

/* Numbers the choices of both trees and moves trees and segment costs over; the fits lose them.
 * 0: there is none, or too many. */
int number_choices(struct forest *, const struct data *, struct phase_fit fit[2]);

#endif
