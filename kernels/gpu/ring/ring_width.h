/* SPDX-License-Identifier: Apache-2.0 */
/* ring_width.h - the code for the width of keys and values, 16 or 8 bits, and the bytes of a warp's
 * ring. */
#ifndef ATTUNE_GPU_RING_WIDTH_H
#define ATTUNE_GPU_RING_WIDTH_H

#include "ring_rows.h"
#if KV_DTYPE == E4M3
#include "ring_e4m3.h"
#else
#include "ring_16bit.h"
#endif

#define TILE_BYTES   (TILE_SIZE * ROW * KV_BYTES)
#define STAGE_BYTES  (2 * TILE_BYTES)
#define RING_BYTES   (NUM_STAGES * STAGE_BYTES)
#define WARP_BYTES   (RING_BYTES > MERGE_BYTES ? RING_BYTES : MERGE_BYTES)
#define Q_BYTES	     (Q_HELD ? 0 : Q_ROWS + Q_FACTORS)
#define FOUND(memory)	((float *)((memory) + Q_BYTES))

#endif
