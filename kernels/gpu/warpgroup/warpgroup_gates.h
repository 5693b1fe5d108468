/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_gates.h - the start of shared memory: gates (mbarriers) of the rings of K and V and of
 * Q's buffers, and the items in these buffers. */
#ifndef ATTUNE_WARPGROUP_GATES_H
#define ATTUNE_WARPGROUP_GATES_H

#include "warpgroup_items.h"
#include "warpgroup_nvidia.h"
#include "warpgroup_shape.h"

#define HEADER (KV_DTYPE == E4M3 ? 2048 : 1024) /* bytes; the tiles follow */

#if KV_DTYPE == E4M3
/* Factors of an item: of the products of each row, and of the values */
struct scales {
	float row[BLOCK_M], value;
};
#endif

/* At the beginning of shared memory */
struct header {
	unsigned long long k_full[NUM_STAGES], k_empty[NUM_STAGES];
	unsigned long long v_full[NUM_STAGES], v_empty[NUM_STAGES];
	unsigned long long q_full[2], q_empty[2];
	item slot[2]; /* the items in Q's buffers */
#if KV_DTYPE == E4M3
	scales scale[2]; /* of these items */
#endif
};
static_assert(sizeof(header) <= HEADER, "gates and slots");

/* A place of a ring, and the parity of the next phase of its gates. */
struct cursor {
	u32 at, parity;
};

DEVICE void advance(cursor &c, u32 places)
{
	if (++c.at == places) {
		c.at = 0;
		c.parity ^= 1;
	}
}

DEVICE u32 gate(unsigned long long *gates, u32 at)
{
	return shared_address(gates) + at * 8;
}

#endif
