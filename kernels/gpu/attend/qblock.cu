/* SPDX-License-Identifier: Apache-2.0 */
/* qblock.cu - attention by a block per (Q block, KV head): one pass over all keys, which writes the
 * final output. It is bound by the matrix units for long queries, by device memory for short ones.
 * Few sequences and KV heads make too few blocks to fill the GPU; segmented.cu solves that. */
#define PARTIALS 0
#include "attend_body.inc"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend(a);
}
