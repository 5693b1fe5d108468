/* maps.c - tensor maps of the emulated GPU: the arguments that they were made from, unencoded. */
#include "maps.h"

enum attune_status simt_make_map(struct device *dev, struct attune_map *map,
				 const struct map_view *v)
{
	const struct simt_map m = {
		v->base,      v->slot_stride, v->head_stride,         v->head_size,
		v->num_heads, v->box,         MAP_PIECE(v->head_size)
	};
	(void)dev;
	_Static_assert(sizeof m <= sizeof *map, "as large as the driver's");
	memcpy(map, &m, sizeof m);
	return ATTUNE_OK;
}
