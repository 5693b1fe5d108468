/* SPDX-License-Identifier: Apache-2.0 */
/* segmented_static.cu - segmented as a persistent kernel: the blocks of a fixed grid take pairs of
 * (Q block, segment) in turn. The list of Q blocks has the number of segments, not the launch. */
#define PARTIALS 1
#include "attend_static.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend_static(a);
}
