/* phase_fit.h - the prefill or the decode tree while it is being learned; for induction.c,
 * kept_tree.c and number_choices.c. */
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
	int is_kept; /* tree is one of other rules, with new labels */
	struct matrix *m;
	struct tree tree; /* actions: columns of m */
	struct making making;
};

/* ---- kept_tree.c ---- */
/* The choices that the decision's leaves name; returns their number. */
int kept_choices(const struct forest *, enum decision, struct choice out[MAX_IDS]);
/* Makes fit->tree. 0 without memory. */
int fit_kept_tree(struct phase_fit *, const struct forest *kept, enum decision);

/* ---- number_choices.c ---- */
/* Gives ids to the choices of both trees and moves trees and segment costs into the forest. 0: no
 * choice, or too many. */
int number_choices(struct forest *, const struct data *, struct phase_fit fit[2]);

#endif
