/* SPDX-License-Identifier: Apache-2.0 */
/* induce.h - learns the rules of a database's header. */
#ifndef TUNER_EMIT_INDUCE_H
#define TUNER_EMIT_INDUCE_H

#include "tuner/forest/forest.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"

struct data;

/* The rules of a database: learned from its own times, or also from the rules that it began
 * from. */
struct induced {
	struct forest f;
	struct gate_report gate; /* valid if has_gate */
	int has_gate;            /* the database began from other rules */
	int too_little;          /* too many times are of older sources to learn from the rest */
};
/* db: the database that d was loaded from. Free the result before d. 0 + complain; if too_little is
 * set, 0 without a complaint. */
int induced_make(struct induced *, const struct data *d, const struct limits *, const char *db);
void induced_free(struct induced *);

#endif
