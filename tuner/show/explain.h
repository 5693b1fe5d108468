/* explain.h - inside the answer to `attune show --why`; for why*.c only. */
#ifndef TUNER_SHOW_EXPLAIN_H
#define TUNER_SHOW_EXPLAIN_H

#include "tuner/data/data.h"
#include "tuner/policy/policy.h"

enum { RIVALS = 3, ESTIMATES = 4, MAX_TEXT = MAX_CHOICE_TEXT + 120 };

struct why {
	const struct data *d;
	const struct forest *f;
	const struct measured *m;
	int scenario; /* -1: not measured */
	struct around *around;
	struct decided made, serial; /* serial: without the overlap */
	struct table *t;
};

/* Adds a row: its time, that to `best`, and the pass whose time it is (NULL: of none, or of
 * several). Times that are not finite are empty. */
void why_row(const struct why *, const char *decision, const char *kind, const char *what,
	     double us, double best, const char *pass);
/* What a choice takes for the phase, and the fastest does; by estimate where the batch was never
 * measured. */
double why_time(const struct why *, enum phase, const struct choice *);
double why_best(const struct why *, enum phase);
/* explain_rivals.c: the rows "picked" and "rival". 0 without memory. */
int why_rivals(const struct why *, enum decision);

#endif
