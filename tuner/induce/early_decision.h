/* early_decision.h - the early decision: which launches should begin before the one in front of them is
 * over, where the caller lets them (ATTUNE_START_EARLY). early_decision.c learns it. */
#ifndef TUNER_INDUCE_EARLY_DECISION_H
#define TUNER_INDUCE_EARLY_DECISION_H

struct data;
struct forest;
struct matrix;


/* Training rows: a pace each, by the features of its part. Columns are the values. */
struct matrix *matrix_early(const struct data *);
/* Makes the forest's last tree; SAYS_OWN where nothing was measured. 0 without memory. */
int fit_early(struct forest *, const struct data *, int leaves);

#endif
