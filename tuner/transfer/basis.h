/* basis.h - a header that began from another one's rules: see basis.c. */
#ifndef TUNER_TRANSFER_BASIS_H
#define TUNER_TRANSFER_BASIS_H

#include "gate.h"
#include "harness/store/store.h"
#include "tuner/forest/forest.h"

struct inheritance {
	struct store_basis basis;
	struct forest incumbent;
	struct data *prior; /* NULL: the basis names none */
};
/* Reads the basis of own's header from the database at db_path, and the prior's database beside it,
 * else in results/. 1: close it; 0: the header has no basis; -1 + complain. */
int inheritance_open(struct inheritance *, const struct data *own, const char *db_path);
void inheritance_close(struct inheritance *);
/* The same of a basis that is at hand, which is copied. 0 + complain. */
int inheritance_of(struct inheritance *, const struct store_basis *, const char *db_path);
/* What to learn from (own times, and the prior's unless there are enough), and rules learned from
 * it alone. *learned is the caller's data to free, after the forest. 0 + complain. */
int inheritance_learn(const struct inheritance *, const struct data *own, const struct limits *,
		      struct data **learned, struct forest *fresh);
/* The rules that the gate leaves, proven for own's device, with notes on it in `learned`. 0 +
 * complain. */
int inheritance_judge(const struct inheritance *, const struct data *own, struct data *learned,
		      const struct forest *fresh, struct forest *out, struct gate_report *);

#endif
