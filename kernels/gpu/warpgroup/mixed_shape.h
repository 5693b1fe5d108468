/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_shape.h - the tunables of the prefills of warpgroup_mixed.cu, by the names that the headers
 * of warpgroup read. It is included before these. */
#ifndef ATTUNE_MIXED_SHAPE_H
#define ATTUNE_MIXED_SHAPE_H

#include "mixed_blocks.h"
#include "mixed_decode.h"

#define BLOCK_M	      PREFILL_M
#define TILE_SIZE     PREFILL_TILE
#define NUM_STAGES    2
#define BLOCKS_PER_SM 1
#define TURNS	      1
#define PACKED	      0

#endif
