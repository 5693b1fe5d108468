/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.cu - lists the Q blocks of a part for the persistent kernel that follows. option[0] is
 * that kernel's number of tokens in a Q block. One block does it: a scan over a thousand sequences
 * takes less time than a second launch. */
#include "schedule.h"

KERNEL(NUM_WARPS * 32) ENTRY(const attune_args a)
{
	__shared__ int sums[SCHEDULE_MAX_WARPS];
	schedule_write(a, a.option[0], a.segments, 0, (int *)a.scratch, sums);
}
