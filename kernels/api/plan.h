/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - functions that the files which make, check and run plans share. */
#ifndef KERNELS_API_PLAN_H
#define KERNELS_API_PLAN_H

#include "kernels/launch/op.h"

/* plan_query.c. Whether the plan's counts and enums are in range. */
int plan_is_sound(const attune_plan *);
/* NULL, or why the op cannot have made the plan: its id, its counts and its enums. */
const char *plan_error(const attune_op *, const attune_plan *);
extern const char plan_was_changed[];

/* batch_query.c. Why a choice cannot run a part (can_run); NULL: it can. */
const char *why_not(const attune_op *, int id, const struct part *);

/* lengths.c. Widens the areas of a new plan so that they have each query also where it is shorter
 * than planned. p[n]: the parts, prefills first; one part alone is widened in its spans. */
void parts_take_shorter(struct part *, int n, const int32_t *query_start);
/* Fills plan->longest, for attune_plan_serves. */
void plan_slices(attune_plan *, const int32_t *query_start);
/* Whether the plan is right for the batch. Lengths of sequences count only where a launch depends
 * on them. */
int plan_takes(const attune_plan *, const attune_batch *, const attune_shape *);

/* pick.c. Whether a choice can run a part: its code is loaded and it is legal. *as: the choice with
 * its number of segments. */
int can_run(const attune_op *, int id, const struct part *, struct config *as);
/* Takes a choice that can run the part so many values further on its axis SEGMENTS, if its costs said
 * the number and it then still can. Returns whether it did. */
int take_step(const attune_op *, int id, const struct part *, int step, struct config *as);
/* Why a choice that is legal for the part counts as illegal: a launch of the reduction gives no LSE, so
 * the choice runs in one segment, where more would cost at most three quarters. NULL: it does not. */
const char *lacks_cuts(const attune_op *, int id, const struct config *as, const struct part *);
struct picked {
	int id;    /* -1: none; add_part then asks pick_behind */
	int named; /* the choice whose row was asked; -1: none */
	struct config as;
};
/* The first choice that can run the part, of the row of a choice that rules name. without_maps: of
 * those that make no maps of the cache. */
struct picked pick_row(const attune_op *, int named, const struct part *, int without_maps);
/* The same behind the heuristic's row: of the row that the portable rules name, else of the op's
 * defaults, for decodes from the end. */
struct picked pick_behind(const attune_op *, const struct part *, int without_maps);
/* The shape's choice for the phase of the part. Where it cannot run the part none does: another one
 * would depend on the rest of the batch. */
struct picked pick_invariant(const attune_op *, const struct part *);
/* What runs a part alone: by the op's rules, or in batch-invariant mode. */
struct picked pick(const attune_op *, const struct part *);
/* What rules name for a part, an id of theirs; SAYS_DEFAULTS also without rules. */
int rules_say(const struct selector *, const struct part *);
/* Whether the pick makes maps of the cache. */
int needs_maps(const attune_op *, const struct picked *, const struct part *);

/* plan.c: attune_plan_batch with the parts one after the other. The batch is sound. */
enum attune_status plan_serial(const attune_op *, const attune_batch *, attune_plan *);
/* The same with what is given in the place of what the rules say, and of what was settled. The batch
 * is sound. ATTUNE_UNSUPPORTED, without a line: some of it cannot run. */
enum attune_status plan_instead(const attune_op *, const attune_batch *, const struct instead *,
				attune_plan *);
/* The parts of a batch, with what the rules name for each, and if it has two the whole of it.
 * Returns whether it has two. The batch is sound. */
int parts_of_batch(const attune_op *, const attune_batch *, struct selection *, struct part *whole);
/* What part i of a plan runs. *c is its choice, with the number of segments that attune_plan_batch
 * computed and, if the caller lets it begin early, the early tree's value. NULL: the part is not
 * from a plan of this op. */
const struct ready *planned(const attune_op *, const attune_plan *, int i, struct config *c);
/* The part as launches take it. */
struct part bounds_of(const attune_part *);
/* Offset in words of a part's list of Q blocks: the parts' lists lie one after the other. */
size_t schedule_at(const attune_op *, const attune_plan *, int part);
/* NULL, or why the op cannot run the plan. */
const char *why_not_of(const attune_op *, const attune_plan *);
/* Adds a part to the plan. */
enum attune_status add_part(const attune_op *, attune_plan *, const struct part *, struct picked);

#endif
