/* classic_v2.cu - vLLM's paged attention v2: v1 cut into partitions of PARTITION_SIZE
 * keys, a block each, whose partials reduce.cu merges. Any length, at the price of a
 * second launch; with one partition there is none, and this is v1. */
#include "classic.h"

KERNEL(NUM_THREADS) ENTRY(const attune_args a)
{
	classic(a);
}
