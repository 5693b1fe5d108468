/* induce.h - a database's header in the making: see induce.c. */
#ifndef TUNER_EMIT_INDUCE_H
#define TUNER_EMIT_INDUCE_H

#include "tuner/forest/forest.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"

struct data;

/* A database's header: from its own times, or from the rules that it began from. */
struct induced {
	struct forest f;
	struct data *learned;    /* what f was learned from; NULL: the own data */
	struct gate_report gate; /* where has_gate: it began from other rules */
	int has_gate;
	int too_little; /* too many times are of older sources to learn from the rest */
};
/* db: the database that d was loaded from. Free the result before d. 0 + complain; 0 without a
 * complaint where too_little is set. */
int induced_make(struct induced *, const struct data *d, const struct limits *, const char *db);
void induced_free(struct induced *);

#endif
