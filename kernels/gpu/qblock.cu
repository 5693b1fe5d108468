/* qblock.cu - a block per (Q block, KV head): all keys in one pass, the final
 * output written at once. Bound: the matrix units for long queries, device
 * memory for short ones; too few blocks to fill the GPU when there are few
 * sequences and KV heads, which is what segmented is for. */
#define PARTIALS 0
#include "attend.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend(a);
}
