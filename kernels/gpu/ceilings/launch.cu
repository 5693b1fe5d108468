/* SPDX-License-Identifier: Apache-2.0 */
/* launch.cu - a kernel that does almost nothing, to measure the cost of a launch. -DEARLY=1: it may
 * begin before the previous launch ends, and waits for that launch's writes. -DEARLY=2: it also
 * lets the next launch begin at once, not only when it ends. */
#include "../gpu.h"
#include "roofline.h"
#if EARLY
#include "roofline_nvidia.h"
#endif

KERNEL(LAUNCH_THREADS) ENTRY(const launch_args a)
{
#if EARLY == 2
	let_next_begin();
#endif
#if EARLY
	wait_for_last();
#endif
	if (a.runs && !*a.runs)
		return;
	if (!threadIdx.x && !blockIdx.x)
		*a.to = 1;
}
