/* SPDX-License-Identifier: Apache-2.0 */
/* members.h - which choices may run a part in the place of the one that the rules name. */
#ifndef KERNELS_SETTLE_MEMBERS_H
#define KERNELS_SETTLE_MEMBERS_H

#include "kernels/launch/op.h"

struct part;

enum { MAX_MEMBERS = 7 };

/* 1: a part of decodes; 0: of prefills. */
int part_is_decode(const struct part *);
/* Ids of the op, no choice twice: the row of the named choice, then that of the portable rules for
 * the part, then the defaults in their order for its phase. named -1: the rules name none. The list
 * depends on the rules and the part alone, so that a place in it can be remembered; whether a
 * member can run the part is asked apart (can_run). Returns how many. */
int part_members(const attune_op *, int named, const struct part *, int id[MAX_MEMBERS]);
/* The one at a place, whichever that is; -1: there is none. */
int member_at(const attune_op *, int named, const struct part *, int place);
/* Four bits of its name. */
static inline unsigned member_check(const attune_op *op, int id)
{
	return op->ready[id].name & 15;
}
/* The place of a choice among them; -1: it has none. */
int member_place(const attune_op *, int named, const struct part *, int id);
/* The fused choice that WAY_FUSED means for a batch: the one that the rules name, else the first of
 * the rules that can run it; -1: none. */
int fused_choice(const attune_op *, const struct part *whole);
/* Whether parts can run at a time on the op's device. */
int overlaps_parts(const attune_op *);

#endif
