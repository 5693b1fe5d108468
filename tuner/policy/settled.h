/* SPDX-License-Identifier: Apache-2.0 */
/* settled.h - what settling the rows of a header would run, by times of the database. */
#ifndef TUNER_POLICY_SETTLED_H
#define TUNER_POLICY_SETTLED_H

#include "kernels/select/selector.h"
#include "tuner/data/data.h"

struct forest;

enum { MOST_MEMBERS = 8, MOST_SETTLED = 24 };
struct settled {
	struct decided plan;
	struct pick pick; /* the same plan */
	int is_raced;     /* 0: the header's plan lacks a time, so it stays */
	int left_out;     /* legal members and ways without the times */
};

/* What may run a part: what runs unsettled, then the other legal members of its row. */
int row_members(const struct data *, const struct forest *, enum decision, const struct measured *,
		struct choice out[MOST_MEMBERS]);
/* The plans that race: the header's, then those by the members of the row, or, in a mixed batch, the ways to
 * run the two parts that settled. */
int settle_plans(const struct data *, const struct forest *, int scenario,
		 struct decided out[MOST_SETTLED]);
/* Whether a plan has the times to race. */
int settle_has_times(const struct data *, int scenario, const struct decided *);
void settle(const struct data *, const struct forest *, int scenario, struct settled *);

#endif
