/* warpgroup_grid.h - the grid by functions: warpgroup_mixed.cu redefines CUDA's names for ring_list. */
#ifndef ATTUNE_WARPGROUP_GRID_H
#define ATTUNE_WARPGROUP_GRID_H

#include "../gpu.h"

DEVICE int all_blocks()
{
	return gridDim.x;
}

DEVICE int own_block()
{
	return blockIdx.x;
}

#endif
