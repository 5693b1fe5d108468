/* SPDX-License-Identifier: Apache-2.0 */
/* classic_v2.cu - vLLM's paged attention v2: like v1, but with a block for each partition of
 * PARTITION_SIZE keys; reduce.cu merges their partials. It takes any length but needs a second
 * launch. With one partition there is no second launch, and it equals v1. */
#include "classic.h"

KERNEL(NUM_THREADS) ENTRY(const attune_args a)
{
	classic(a);
}
