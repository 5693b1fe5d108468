/* SPDX-License-Identifier: Apache-2.0 */
/* kv_maps.c - makes the maps of K and V for a launch of a kernel with MAPS: on the host, for each
 * call, from its tensors. */
#include "run.h"
#include "kernels/args_maps.h"
#include "kernels/args_more.h"
#include "kernels/spec/status.h"

/* Slots from one group of a map to the next: 8 where pages are whole numbers of groups apart, else
 * 1 where each box is a page, so that one may begin at any slot. *groups: from one page to the next.
 * 0: no map. */
static int group_slots(int page_size, int box, long long page_stride, long long slot_stride,
		       int *groups)
{
	for (int apart = 8; apart; apart = apart > 1 && box == page_size) {
		const long long group = apart * slot_stride;
		const long long n = group > 0 ? page_stride / group : 0;
		*groups = (int)n;
		if (n > 0 && n < 1 << 30 && n * group == page_stride)
			return apart;
	}
	return 0;
}

/* Whether the driver takes this head stride. */
static int is_head_stride(long long elements)
{
	return elements >= 0 && elements < 1ll << 39;
}

/* A lone head may have any stride, also one that maps do not take. */
static long long head_stride(const attune_shape *s, long long head, long long slot)
{
	return s->num_kv_heads > 1 ? head : slot;
}

int maps_take(const attune_shape *s, const attune_tensors *t, int box)
{
	int groups;
	return group_slots(s->page_size, box, t->k_page_stride, t->k_slot_stride, &groups) &&
	       group_slots(s->page_size, box, t->v_page_stride, t->v_slot_stride, &groups) &&
	       is_head_stride(head_stride(s, t->k_head_stride, t->k_slot_stride)) &&
	       is_head_stride(head_stride(s, t->v_head_stride, t->v_slot_stride));
}

static enum attune_status no_head_stride(const char *name, long long elements)
{
	return fail(ATTUNE_INVALID,
		    "%s is %lld elements: a kernel that takes maps needs 0 to 2^39 - 1", name,
		    elements);
}

enum attune_status maps_make(struct attune_mapped *m, struct device *dev, const attune_shape *s,
			     int box, int64_t num_slots, const struct attune_call *c)
{
	const struct attune_args *a = &c->args;
	struct map_view view = { .dtype = s->kv_dtype,
				 .head_size = s->head_size,
				 .num_heads = s->num_kv_heads,
				 .box = box,
				 .num_slots = num_slots };
	enum attune_status status;
	m->call = *c;
	if (!box)
		return ATTUNE_OK;
	const int k_apart =
	    group_slots(s->page_size, box, a->k_page_stride, a->k_slot_stride, &m->k_groups);
	const int v_apart =
	    group_slots(s->page_size, box, a->v_page_stride, a->v_slot_stride, &m->v_groups);
	if (!k_apart || !v_apart)
		return fail(ATTUNE_UNSUPPORTED,
			    "a kernel that takes maps needs page strides of K and V that are "
			    "multiples of %d slot strides; this cache's are %lld of %lld, %lld of "
			    "%lld elements",
			    box == s->page_size ? 1 : 8, a->k_page_stride, a->k_slot_stride,
			    a->v_page_stride, a->v_slot_stride);
	if (!is_head_stride(head_stride(s, a->k_head_stride, a->k_slot_stride)))
		return no_head_stride("k_head_stride", a->k_head_stride);
	if (!is_head_stride(head_stride(s, a->v_head_stride, a->v_slot_stride)))
		return no_head_stride("v_head_stride", a->v_head_stride);
	if (!dev->ops->map)
		return fail(ATTUNE_UNSUPPORTED, "%s: makes no maps of tensors", dev->ops->name);
	view.base = a->k_cache;
	view.group_slots = k_apart;
	view.slot_stride = a->k_slot_stride;
	view.head_stride = head_stride(s, a->k_head_stride, a->k_slot_stride);
	status = dev->ops->map(dev, &m->k, &view);
	if (status)
		return status;
	view.base = a->v_cache;
	view.group_slots = v_apart;
	view.slot_stride = a->v_slot_stride;
	view.head_stride = head_stride(s, a->v_head_stride, a->v_slot_stride);
	return dev->ops->map(dev, &m->v, &view);
}
