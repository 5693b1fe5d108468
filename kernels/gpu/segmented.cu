/* segmented.cu - a block per (Q block, KV head, segment of the keys); each writes
 * a partial that reduce.cu merges. Segments share out the tiles that a Q block
 * really sees (window and causality cut first), evenly to one tile. One segment
 * is qblock under another name: a formula for SEGMENTS may come out there. */
#define PARTIALS 1
#include "attend.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend(a);
}
