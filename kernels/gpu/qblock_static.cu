/* qblock_static.cu - qblock as a persistent kernel: the blocks of a fixed grid take Q blocks
 * in turn, longest first. Bound as qblock. What a block's end costs qblock in idle SMs this
 * has once a launch instead of once a wave; against it stand the list that is made
 * beforehand and a search in it for each item. */
#define PARTIALS 0
#include "attend_static.h"

KERNEL(THREADS) ENTRY(const attune_args a)
{
	attend_static(a);
}
