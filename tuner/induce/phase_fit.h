/* phase_fit.h - the prefill or the decode tree while it is being learned; for induction.c and
 * number_choices.c. */
#ifndef TUNER_INDUCE_PHASE_FIT_H
#define TUNER_INDUCE_PHASE_FIT_H

#include "tuner/costmodel/costmodel.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"

struct phase_fit {
	const struct data *d;
	struct cheapest_set cheapest;
	/* m has made-up batches, too; its choices are numbered from d->num_columns on */
	int with_estimates;
	struct matrix *m;
	struct tree tree; /* actions: columns of m */
	struct making making;
};

/* Gives ids to the choices of both trees and moves trees and segment costs into the forest. 0: no
 * choice, or too many. */
int number_choices(struct forest *, const struct data *, struct phase_fit fit[2]);

#endif
