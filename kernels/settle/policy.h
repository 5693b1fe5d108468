/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - by how much a choice must be faster than the first to be preferred, in 1000ths. */
#ifndef KERNELS_SETTLE_POLICY_H
#define KERNELS_SETTLE_POLICY_H

#include "cell.h"

/* For the batch itself: beyond this, and beyond 3/2 of what two times of the first differ by. */
enum { SWITCH_MARGIN = 10, AGAIN_FACTOR_HALVES = 3 };

/* For other batches of the cell. */
enum { KEEP_MARGIN_DECODE = 20, KEEP_MARGIN_MIXED = 20, KEEP_MARGIN_PREFILL = 40 };
/* Different batches of a cell that agree on a prefill's choice stand for the margin, each with times
 * of its own. */
enum { AGREEING_PREFILLS = 2 };

/* Whether the winner counts for all batches of the cell. Times in ns. */
static inline int is_kept(enum cell_kind kind, long long first, long long winner, int settles)
{
	static const int margin[] = { [CELL_PREFILL] = KEEP_MARGIN_PREFILL,
				      [CELL_DECODE] = KEEP_MARGIN_DECODE,
				      [CELL_MIXED] = KEEP_MARGIN_MIXED };
	if (kind == CELL_PREFILL && settles >= AGREEING_PREFILLS)
		return 1;
	return winner * 1000 < first * (1000 - margin[kind]);
}

#endif
