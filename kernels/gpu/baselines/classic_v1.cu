/* SPDX-License-Identifier: Apache-2.0 */
/* classic_v1.cu - vLLM's paged attention v1: a block per (query token, query head). Its logits are
 * in shared memory, which limits the length. Each query head reads its KV head again. It suits many
 * short sequences. */
#define PARTITION_SIZE 0
#include "classic.h"

KERNEL(NUM_THREADS) ENTRY(const attune_args a)
{
	classic(a);
}
