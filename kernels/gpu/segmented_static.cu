/* segmented_static.cu - segmented as a persistent kernel: the blocks of a fixed grid take
 * pairs of (Q block, segment) in turn. How many segments there are stands in the list of Q
 * blocks, not in the launch. */
#define PARTIALS 1
#include "attend_static.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend_static(a);
}
