/* explain.h - shared by the files of `attune show --why`, explain*.c. */
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
	struct decided made, serial; /* the plan; the same without an overlap */
	struct table *t;
};

/* Adds a row with its time, the ratio to `best`, and the pass of the time (NULL: none or several).
 * Times that are not finite stay empty. */
void why_row(const struct why *, const char *decision, const char *kind, const char *what,
	     double us, double best, const char *pass);
/* The time of a choice for the phase, and of the fastest choice; estimates if the batch was never
 * measured. */
double why_time(const struct why *, enum phase, const struct choice *);
double why_best(const struct why *, enum phase);
/* explain_rivals.c: the rows "picked" and "rival". 0 without memory. */
int why_rivals(const struct why *, enum decision);

#endif
