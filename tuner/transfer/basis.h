/* SPDX-License-Identifier: Apache-2.0 */
/* basis.h - a header whose rules began from those of another GPU; basis.c shows the flow.
 *
 * A GPU that is tuned anew has few times. Its own data are these. Its basis is what it began from:
 * the incumbent, the rules in force before, and the prior, the times of the nearest GPU that has
 * many. Fresh rules are the incumbent's with rows in the order of own times (reorder.h), or trees
 * of their own where these suffice. The gate then takes, for each decision, the incumbent's or the
 * fresh rules. */
#ifndef TUNER_TRANSFER_BASIS_H
#define TUNER_TRANSFER_BASIS_H

#include "gate.h"
#include "harness/store/store.h"
#include "tuner/forest/forest.h"

struct inheritance {
	struct store_basis basis; /* the names of both, as the own database keeps them */
	struct forest incumbent;
	struct data *prior; /* NULL: the basis names none */
};
/* Reads the basis of own's header from the database at db_path, and the prior's database from the
 * same folder, else from results/. 1: close it; 0: the header has no basis; -1 + complain. */
int inheritance_open(struct inheritance *, const struct data *own, const char *db_path);
void inheritance_close(struct inheritance *);
/* The same for a given basis, which is copied. 0 + complain. */
int inheritance_of(struct inheritance *, const struct store_basis *, const char *db_path);
/* The basis is now these rules, an installed header of the device; the former incumbent goes to
 * *before. 0 + complain: nothing has changed. */
int inheritance_advance(struct inheritance *, const char *rules, struct forest *before);
/* Learns fresh rules. By the number of scenarios with times of choices beyond the incumbent's
 * rows:
 *
 *   few                     the incumbent's rows in another order
 *   a quarter of what the   that, and trees; the gate takes what gains more. Only with few scenarios:
 *   prior has               those of a CPU, where trees are small
 *   three quarters          trees; also without a prior, or without rules of the incumbent
 *
 * Free them. 0 + complain. */
int inheritance_learn(const struct inheritance *, const struct data *own, const struct limits *,
		      struct fresh_rules *);
void fresh_rules_free(struct fresh_rules *);
/* Combines incumbent and fresh rules as the gate decides, proves them for own's device, and adds
 * notes for the header. 0 + complain. */
int inheritance_judge(const struct inheritance *, const struct data *own,
		      const struct fresh_rules *, struct forest *out, struct gate_report *);

#endif
