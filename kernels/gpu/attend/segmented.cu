/* SPDX-License-Identifier: Apache-2.0 */
/* segmented.cu - attention by a block per (Q block, KV head, segment of the keys). Each block
 * writes a partial; reduce.cu merges them. Segments divide the tiles that a Q block sees, after
 * window and causal mask, evenly to one tile. With one segment it equals qblock; a formula for
 * SEGMENTS may choose that. */
#define PARTIALS 1
#include "attend_body.inc"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend(a);
}
