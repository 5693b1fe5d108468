/* schedule.cu - lists the Q blocks of a part for the persistent kernel that follows, which
 * hands on its tokens of a Q block as option[0]. One block: a scan over a thousand
 * sequences takes less than a second launch would. */
#include "schedule.h"

KERNEL(NUM_WARPS * 32) ENTRY(const attune_args a)
{
	__shared__ int sums[SCHEDULE_MAX_WARPS];
	schedule_write(a, a.option[0], a.segments, 0, (int *)a.scratch, sums);
}
