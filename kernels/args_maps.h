/* args_maps.h - what a kernel is given beyond args.h whose .def has MAPS: descriptors by which an
 * SM's copy engine brings boxes of a tensor from K and V to shared memory (tensor maps of sm_90).
 * Apart from args.h, since what has been measured of the others is known by the text they include.
 *
 * To a map K is five-dimensional, the same elements as by page, slot and head:
 *
 *   [KV head][group of 8 slots][piece of a head][slot of the group][column of the piece]
 *
 * Slots that follow one another are slot_stride apart, so groups are 8 times that. Those of page p
 * begin at group p * groups, groups = page_stride / (8 * slot_stride), which must be whole. A box
 * is of all pieces of whole groups of one head. Beyond the last KV head there are zeros. */
#ifndef ATTUNE_ARGS_MAPS_H
#define ATTUNE_ARGS_MAPS_H

#include "args_more.h"

/* Columns of a piece: as many as fill a row of the swizzle, 128 or 64 bytes. */
#define MAP_PIECE(head_size) ((head_size) % 64 ? 32 : 64)

/* Of the driver's making. */
struct __attribute__((aligned(64))) attune_map {
	unsigned long long word[16];
};

/* What such a kernel is launched with, by value. */
struct attune_mapped {
	struct attune_call call;
	int k_groups, v_groups; /* of a page */
	struct attune_map k, v; /* of caches of 16 bits; there are none of others */
};

#endif
