/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_map.c - makes tensor maps (CUDA 12, sm_90), as described in args_maps.h. The driver packs
 * them into 128 bytes, for the current context.
 *
 *   dimension  columns of a piece | slots of a group | pieces | groups          | KV heads
 *   stride     1                  | slot             | piece  | 8 slots         | head
 *   box        all                | all              | all    | tokens / 8      | one
 *
 * Where pages may begin at any slot a group begins at each slot, and a box has every eighth of as
 * many groups as it has tokens. The number of pages is not known here, so a map has as many groups
 * as possible.
 *
 * Of ragged K and V that end with their memory, for warpgroup_ragged:
 *
 *   dimension  columns of a piece | slots           | pieces | KV heads
 *   stride     1                  | slot            | piece  | head
 *   box        all                | 8               | all    | one */
#include "context.h"
#include "kernels/args_maps.h"
#include "kernels/segments.h"

enum { TYPE_F16 = 6, TYPE_BF16 = 9, SWIZZLE_64 = 2, SWIZZLE_128 = 3, MOST_GROUPS = 0x7fffffff };
enum { RANK = 5, SLOTS_RANK = 4, ELEMENT = 2, ERROR_NOT_KNOWN = 801 };

typedef unsigned long long length;

static int encode_rank(const struct cuda_api *cu, struct attune_map *map, const struct map_view *v,
		       unsigned rank, const length *sizes, const length *strides,
		       const unsigned *box, const unsigned *steps)
{
	return cu->MapTiled(map, v->dtype == ATTUNE_BF16 ? TYPE_BF16 : TYPE_F16, rank,
			    (void *)(uintptr_t)v->base, sizes, strides, box, steps, 0,
			    MAP_PIECE(v->head_size) == 64 ? SWIZZLE_128 : SWIZZLE_64, 0, 0);
}

static int encode(const struct cuda_api *cu, struct attune_map *map, const struct map_view *v)
{
	const unsigned piece = MAP_PIECE(v->head_size), pieces = (unsigned)v->head_size / piece;
	const length slot = (length)v->slot_stride * ELEMENT;
	const length head = (length)v->head_stride * ELEMENT;
	const unsigned apart = (unsigned)v->group_slots, step = 8 / apart;
	const length sizes[RANK] = { piece, 8, pieces, MOST_GROUPS, (length)v->num_heads };
	const length strides[RANK - 1] = { slot, piece * ELEMENT, apart * slot, head };
	const unsigned box[RANK] = { piece, 8, pieces, (unsigned)v->box / 8 * step, 1 };
	const unsigned steps[RANK] = { 1, 1, 1, step, 1 };
	const length slots = (length)min_of(v->num_slots, MOST_GROUPS);
	const length slots_sizes[SLOTS_RANK] = { piece, slots, pieces, (length)v->num_heads };
	const length slots_strides[SLOTS_RANK - 1] = { slot, piece * ELEMENT, head };
	const unsigned slots_box[SLOTS_RANK] = { piece, 8, pieces, 1 };
	const unsigned slots_steps[SLOTS_RANK] = { 1, 1, 1, 1 };
	if (!cu->MapTiled)
		return ERROR_NOT_KNOWN;
	return v->num_slots ? encode_rank(cu, map, v, SLOTS_RANK, slots_sizes, slots_strides,
					  slots_box, slots_steps)
			    : encode_rank(cu, map, v, RANK, sizes, strides, box, steps);
}

enum attune_status cuda_map(struct device *dev, struct attune_map *map, const struct map_view *v)
{
	const struct cuda *c = dev->state;
	return IN_CONTEXT(c, encode(&c->cu, map, v), "map of K or V");
}

enum { MAPPED = 13 }; /* CU_POINTER_ATTRIBUTE_MAPPED */

static int find_range(const struct cuda_api *cu, unsigned long long at, size_t bytes, int *within)
{
	unsigned long long begin = 0;
	size_t size = 0;
	int is_mapped = 0;
	*within = cu->AddressRange && cu->PointerAttr && !cu->AddressRange(&begin, &size, at) &&
		  at - begin <= size && bytes <= size - (at - begin) &&
		  !cu->PointerAttr(&is_mapped, MAPPED, at + bytes - 1) && is_mapped;
	return 0;
}

int cuda_goes_on(struct device *dev, const void *from, size_t bytes)
{
	const struct cuda *c = dev->state;
	int within = 0;
	return !IN_CONTEXT(c, find_range(&c->cu, (uintptr_t)from, bytes, &within), "memory") &&
	       within;
}
