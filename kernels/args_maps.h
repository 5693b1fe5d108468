/* SPDX-License-Identifier: Apache-2.0 */
/* args_maps.h - struct attune_mapped, the argument of kernels with MAPS: tensor maps of sm_90, by
 * which an SM's copy engine copies boxes of K and V to shared memory. It is not in args.h, since
 * measurements of other kernels are tied to the text that they include.
 *
 * A map sees K as five-dimensional:
 *
 *   [KV head][group of 8 slots][piece of a head][slot of the group][column of the piece]
 *
 * Slots are slot_stride apart, groups 8 times that. Page p begins at group p * groups, with groups
 * = page_stride / (8 * slot_stride), which must be whole. A box has all pieces of whole groups of
 * one head. Beyond the last KV head a map reads zeros. */
#ifndef ATTUNE_ARGS_MAPS_H
#define ATTUNE_ARGS_MAPS_H

#include "args_more.h"

/* Columns of a piece: they fill a row of the swizzle, 128 or 64 bytes. */
#define MAP_PIECE(head_size) ((head_size) % 64 ? 32 : 64)

/* A CUtensorMap of the driver. */
struct __attribute__((aligned(64))) attune_map {
	unsigned long long word[16];
};

/* Passed by value. */
struct attune_mapped {
	struct attune_call call;
	int k_groups, v_groups; /* of a page */
	struct attune_map k, v; /* only of caches of 16 bits */
};

#endif
