/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.h - rules of another machine whose rows are put in the order of this one's times. */
#ifndef TUNER_TRANSFER_REORDER_H
#define TUNER_TRANSFER_REORDER_H

#include "tuner/data/data.h"
#include "tuner/forest/forest.h"

/* What may come first in the row of an action:
 *
 *   0            what runs as the rules are
 *   members      the others, in their order
 *   the end      what stands behind the row
 *   segments     a member whose number of segments is a plain number, with each formula of its kernel:
 *                the number suits as many units as the rules were learned on */
enum { ROW_FIRSTS = 64 };
struct row_firsts {
	struct choice named[ROW_FIRSTS]; /* as a header has it; kernel NULL: what stands behind */
	int member[ROW_FIRSTS];          /* its id; -1: none */
	int n;
};
void row_firsts(struct row_firsts *, const struct forest *, int action);
/* What each runs for a part; kernel NULL: it may not run, so the row stays as it is. */
void row_firsts_run(const struct row_firsts *, const struct data *, const struct forest *,
		    enum decision, int action, const struct measured *,
		    struct choice out[ROW_FIRSTS]);

/* How many training scenarios have times of choices that no row of theirs may begin with. */
int times_beyond_rows(const struct data *own, const struct forest *rules);

/* Makes `out` of `rules`: a row, and then a leaf, gets another first where times of `own`, compared
 * within races, show beyond noise that it is faster. The rest stays. 0 + complain. */
int forest_reorder(struct forest *out, const struct forest *rules, const struct data *own);

/* What another order of rows could gain at most, over training scenarios with times of them: the
 * geometric mean of what runs / the fastest of what may come first, differences within noise left
 * out, and the upper end of its 95 % interval. */
struct rows_left {
	int n; /* parts of batches */
	double mean, most;
};
int rows_left(struct rows_left *, const struct data *own, const struct forest *rules);

#endif
