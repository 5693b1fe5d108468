/* SPDX-License-Identifier: Apache-2.0 */
/* alternatives.h - the plans of a batch that are worth a race. */
#ifndef KERNELS_SETTLE_ALTERNATIVES_H
#define KERNELS_SETTLE_ALTERNATIVES_H

#include "settled.h"
#include "kernels/spec/part.h"

struct alternatives {
	const attune_op *op;
	const attune_batch *batch;
	struct selection parts;
	struct part whole;
	int is_mixed; /* it has both parts; `whole` is set */
	int n;
	struct settled_plan of[ATTUNE_MOST_ALTERNATIVES]; /* us: 0 */
	attune_plan plan[ATTUNE_MOST_ALTERNATIVES];
};

/* The plan by the rules, whatever was settled, which stays the first. The batch is sound. */
enum attune_status alternatives_start(struct alternatives *, const attune_op *,
				      const attune_batch *);
/* Adds a plan, unless it cannot run, or runs what one that is there runs, or has what no memory can
 * name: a choice that is no member of its part, more than MOST_STEPS, or there is no room. Returns its place; -1: it was
 * not added. */
int alternatives_add(struct alternatives *, struct settled_plan);
/* Adds members of a batch of one phase. */
void alternatives_add_members(struct alternatives *);
/* Adds plan `from` of a batch of one phase, with so many values more on its axis SEGMENTS, where a
 * number of segments may matter: of decodes, and of prefills whose keys are cut. Returns its place;
 * -1: it was not added. */
int alternatives_add_step(struct alternatives *, int from, int more);
/* Adds the ways to run both parts of a mixed batch, by the choices and steps of `parts`. */
void alternatives_add_ways(struct alternatives *, struct settled_plan parts);
/* The place of a plan that runs the same launches; -1: none does. */
int alternatives_find(const struct alternatives *, const attune_plan *);
/* All of a batch; *present: the place of what attune_plan_batch now gives. */
enum attune_status alternatives_all(struct alternatives *, const attune_op *, const attune_batch *,
				    int *present);

/* What all calls of a batch refuse: NULL, batches that are not sound, ATTUNE_INVARIANT. Returns the
 * batch of this version; NULL: *status says why not. */
const attune_batch *settle_batch(const attune_op *, const attune_batch *, attune_batch *own,
				 const char *call, enum attune_status *);

#endif
