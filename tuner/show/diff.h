/* diff.h - shared by the files of `attune show --diff`. */
#ifndef TUNER_SHOW_DIFF_H
#define TUNER_SHOW_DIFF_H

#include "harness/base/base.h"

struct data;
struct forest;

/* diff_cells.c: cells whose times differ by more than noise, and changed outcomes. */
int diff_cells(const struct data *, const struct data *, enum format); /* 0: no memory */
/* diff_leaves.c: regions of features where the choices of two forests differ; with data, the
 * change in the scenarios of each region, and the regret of both. 0: no memory. */
int diff_leaves(const struct forest *was, const struct forest *is, const struct data *,
		enum format);

#endif
