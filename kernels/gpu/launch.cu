/* launch.cu - a kernel that does next to nothing: what it costs is what a launch costs.
 * -DEARLY=1: it may begin before the launch in front of it is over, for whose writes it waits;
 * 2: it lets the one behind it do so at once, not only when it ends. */
#include "gpu.h"
#include "../roofline.h"
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
