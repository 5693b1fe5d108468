/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_shape.h - sizes that follow from the tunables: threads, tiles, Q blocks; and what a
 * launch passes in args.option. A team is a warpgroup that computes. */
#ifndef ATTUNE_WARPGROUP_SHAPE_H
#define ATTUNE_WARPGROUP_SHAPE_H

#include "../../args_maps.h"
#include "../gpu.h"

#define E4M3 3 /* DTYPE numbers 0 .. 2 are F32 .. BF16 */
#ifndef KV_DTYPE
#define KV_DTYPE DTYPE
#endif
#ifndef PACKED
#define PACKED 0
#endif

#define WARPGROUP   128 /* threads: four warps that multiply together */
#define TEAM_WARPS  (WARPGROUP / WARP)
#define TEAM_ROWS   64 /* of a warpgroup's product */
#define TEAMS	    (BLOCK_M / TEAM_ROWS)
#define THREADS	    ((1 + TEAMS) * WARPGROUP)
#define PIECE	    MAP_PIECE(HEAD_SIZE)
#define CHUNKS	    (HEAD_SIZE / 8)
#define TILE_BYTES  (TILE_SIZE * HEAD_SIZE * 2)
#define Q_BYTES	    (BLOCK_M * HEAD_SIZE * 2)

static_assert(TILE_SIZE % 16 == 0 && HEAD_SIZE % 32 == 0, "whole products, whole pieces");

/* args.option */
enum { BOX, Q_BUFFERS, HEADS, INVERSE };

/* Tokens of a box */
DEVICE int box_of(const attune_args &a)
{
	return a.option[BOX] & 255;
}

/* Whether the preceding launch may still run */
DEVICE int is_early(const attune_args &a)
{
	return a.option[BOX] >> 8;
}

#endif
