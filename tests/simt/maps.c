/* SPDX-License-Identifier: Apache-2.0 */
/* maps.c - tensor maps of the emulated GPU: the arguments that they were made from, unencoded. */
#include "maps.h"
#include "kernels/args_maps.h"
#include "kernels/spec/status.h"

/* As the driver wants them. */
static int is_stride(long long elements)
{
	const long long bytes = 2 * elements;
	return bytes >= 0 && bytes % 16 == 0 && bytes < 1ll << 40;
}

enum attune_status simt_make_map(struct device *dev, struct attune_map *map,
				 const struct map_view *v)
{
	const struct simt_map m = {
		v->base, v->slot_stride,          v->head_stride, v->head_size, v->num_heads,
		v->box,  MAP_PIECE(v->head_size), v->group_slots, v->num_slots
	};
	(void)dev;
	if (!is_stride(v->slot_stride) || !is_stride(v->head_stride))
		return fail(ATTUNE_DEVICE_ERROR,
			    "no map of slots %lld and heads %lld elements apart", v->slot_stride,
			    v->head_stride);
	_Static_assert(sizeof m <= sizeof *map, "as large as the driver's");
	memcpy(map, &m, sizeof m);
	return ATTUNE_OK;
}
