/* early.h - the early decision: which launches should begin before the one in front of them is
 * over, where the caller lets them (ATTUNE_START_EARLY). early.c learns it. */
#ifndef EARLY_H
#define EARLY_H

#include "tuner.h"

/* Training rows: a pace each, by the features of its part. Columns are the values. */
struct matrix *matrix_early(const struct data *);
/* Makes the forest's last tree; SAYS_OWN where nothing was measured. 0 without memory. */
int fit_early(struct forest *, const struct data *, int leaves);

#endif
