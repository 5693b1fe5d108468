/* SPDX-License-Identifier: Apache-2.0 */
/* qblock_static.cu - qblock as a persistent kernel: the blocks of a fixed grid take Q blocks in
 * turn, longest first. It has qblock's bounds. SMs idle at the end of the launch only, not at the
 * end of each wave. In return it needs a list, made beforehand, and a search in it for each item.
 * */
#define PARTIALS 0
#include "attend_static.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend_static(a);
}
