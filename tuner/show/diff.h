/* diff.h - the answers of `attune diff`, by file. */
#ifndef TUNER_SHOW_DIFF_H
#define TUNER_SHOW_DIFF_H

#include "harness/base/base.h"

struct data;
struct forest;

/* diff_cells.c: cells of both that differ by more than noise, and changed outcomes. */
int diff_cells(const struct data *, const struct data *, enum format); /* 0: no memory */
/* diff_leaves.c: regions of features in which two forests choose otherwise; with data, what
 * that changes in the scenarios that lie there, and the regret of both. 0: no memory. */
int diff_leaves(const struct forest *was, const struct forest *is, const struct data *,
		enum format);

#endif
