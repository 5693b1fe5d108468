/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_grid.h - the grid by functions: mixed_decode.h redefines CUDA's names for ring_list. On
 * the emulated GPU these are macros, and are gone afterwards. */
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
