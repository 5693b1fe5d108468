/* early.h - the early decision: which launches should begin before the one in front of them is
 * over, where the caller lets them (ATTUNE_START_EARLY). early.c learns it, early_eval.c says
 * what it brings. */
#ifndef EARLY_H
#define EARLY_H

#include "tuner.h"

/* A part by a choice that begins early, or by the same in turn, in one race: rows of pass E, as
 * `attune sweep --early` makes them. */
struct paced {
	int scenario, choice, value; /* choice: the same in turn; value: of its early axis */
	enum phase phase;
	struct cell cell;
};

/* A part and a choice that have such times. */
struct pace {
	int scenario, choice;
	enum phase phase;
};
/* All of them in the order of their members; NULL without memory. The caller's to free. */
struct pace *paces_of(const struct data *, int *n);
/* What it takes with that value to what it takes in turn, both of one race; NaN: not known. */
double pace_ratio(const struct data *, const struct pace *, int value);
/* The geometric mean of those of a part; NaN: of none it is known. */
double early_ratio(const struct data *, int scenario, enum phase, int value);

/* Training rows: a pace each, by the features of its part. Columns are the values. */
struct matrix *matrix_early(const struct data *);
/* Makes the forest's last tree; SAYS_OWN where nothing was measured. 0 without memory. */
int fit_early(struct forest *, const struct data *, int leaves);
/* Whether the tree says anything; if not, headers and texts leave it out: of so many decisions
 * they hold trees. */
int forest_says_early(const struct forest *);
int forest_decisions(const struct forest *);
/* What that comes to for a part of a choice of trees, which in itself is in turn. */
int forest_early(const struct forest *, const struct attune_features *);

struct json_out;
struct earliness {
	int n;                                       /* paces with all values */
	double tree, always[MOST_EARLY + 1], oracle; /* geometric means, to in turn */
	double worst;                                /* by the tree */
};
/* Of training scenarios, and of those held out. 0 without memory. */
int count_early(const struct data *, const struct forest *, struct earliness out[2]);
void early_json(struct json_out *, const struct earliness v[2]);
void early_print(const struct earliness v[2]);

#endif
