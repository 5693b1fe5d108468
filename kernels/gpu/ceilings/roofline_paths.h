/* SPDX-License-Identifier: Apache-2.0 */
/* roofline_paths.h - the ways in which roofline.cu reads, and the size of an item. */
#ifndef ATTUNE_ROOFLINE_PATHS_H
#define ATTUNE_ROOFLINE_PATHS_H

#include "../gpu.h"
#include "roofline.h"

#define LOADS 0
#define ASYNC 1
#define BULK  2

#define WORDS (ROOFLINE_ITEM / 16 / WARP) /* of 16 bytes, of an item, a lane */

#endif
