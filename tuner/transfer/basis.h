/* basis.h - a header whose rules began from those of another GPU; basis.c shows the flow.
 *
 * A GPU that is tuned anew has few times. Its own data are these. Its basis is what it began from: the
 * incumbent, the rules in force before, and the prior, the times of the nearest GPU that has many.
 * Fresh rules are the incumbent's with rows in the order of own times (reorder.h), or trees of their own
 * where own times suffice. The gate then takes, for each decision, the incumbent's or the fresh rules. */
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
/* Whether own times suffice for trees: of choices beyond the incumbent's rows, in three quarters as many
 * scenarios as the prior has; or the basis has no prior, or no rules. */
int inheritance_grows(const struct inheritance *, const struct data *own);
/* Learns fresh rules. 0 + complain. */
int inheritance_learn(const struct inheritance *, const struct data *own, const struct limits *,
		      struct forest *fresh);
/* Combines incumbent and fresh rules as the gate decides, proves them for own's device, and adds
 * notes for the header. 0 + complain. */
int inheritance_judge(const struct inheritance *, const struct data *own,
		      const struct forest *fresh, struct forest *out, struct gate_report *);

#endif
