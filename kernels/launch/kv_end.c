/* SPDX-License-Identifier: Apache-2.0 */
/* kv_end.c - where ragged K and V end. Some kernels read slots behind the last key in its page,
 * which they do not use. A cache has these, since its pages are whole; ragged K and V need not. */
#include "run.h"
#include "kernels/spec/space.h"

int is_ragged(const attune_shape *s, const attune_tensors *t)
{
	return s->page_size > 1 && s->kv_layout == ATTUNE_KV_STRIDED &&
	       (t->k_page_stride == t->k_slot_stride || t->v_page_stride == t->v_slot_stride);
}

int end_is_known(const attune_tensors *t)
{
	return t->kv_slots > 0 && t->k_page_stride == t->k_slot_stride &&
	       t->v_page_stride == t->v_slot_stride;
}

/* warpgroup copies boxes by maps, else groups of 8 slots; AMD's matrix kernels whole pages. */
int slots_behind(const struct space *space, const attune_shape *s, const struct device_info *d,
		 int box)
{
	enum { AMD_LANES = 64 };
	if (space->takes_maps)
		return (box ? box : 8) - 1;
	return d->backend == BACKEND_GPU && d->lanes == AMD_LANES ? s->page_size - 1 : 0;
}

static int goes_on(struct device *dev, const attune_shape *s, const attune_tensors *t, int is_v,
		   int slots)
{
	const long long slot = is_v ? t->v_slot_stride : t->k_slot_stride;
	const long long head = is_v ? t->v_head_stride : t->k_head_stride;
	const long long last = (t->kv_slots - 1) * slot + (s->num_kv_heads - 1) * head;
	const long long element = dtype_bytes(s->kv_dtype);
	const char *from = (const char *)(is_v ? t->v_cache : t->k_cache) + last * element;
	return slot > 0 &&
	       dev->ops->goes_on(dev, from, (size_t)((slots * slot + s->head_size) * element));
}

int memory_goes_on(struct device *dev, const attune_shape *s, const attune_tensors *t, int slots)
{
	return !slots || (t->kv_slots > 0 && dev->ops->goes_on && goes_on(dev, s, t, 0, slots) &&
			  goes_on(dev, s, t, 1, slots));
}
