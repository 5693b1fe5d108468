/* classic_v1.cu - vLLM's paged attention v1: a block per (query token, query head),
 * with the logits of all its keys in shared memory, which bounds the length. Heads
 * that share a KV head read it each for itself. For many short sequences. */
#define PARTITION_SIZE 0
#include "classic.h"

KERNEL(NUM_THREADS) ENTRY(const attune_args a)
{
	classic(a);
}
