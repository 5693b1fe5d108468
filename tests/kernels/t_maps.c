/* SPDX-License-Identifier: Apache-2.0 */
/* t_maps.c - the maps of K and V that a launch makes from the strides of a cache: what the driver is
 * asked for, and which strides are refused before; and what is read behind the end of ragged K and V. */
#include "kernels/args_maps.h"
#include "kernels/args_more.h"
#include "kernels/device/cuda/context.h"
#include "kernels/launch/run.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/kernel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SLOT = 256, PAGE = 16 * SLOT, BOX = 16, MOST = 2 };

static struct map_view asked[MOST];
static int num_asked;

static enum attune_status keep_view(struct device *dev, struct attune_map *map,
				    const struct map_view *v)
{
	(void)dev, (void)map;
	assert_true(num_asked < MOST);
	asked[num_asked++] = *v;
	return ATTUNE_OK;
}

static const struct device_ops ops = { .name = "asked", .map = keep_view };

// clang-format off
static const struct row {
	const char *name;
	int heads, box;
	long long page, slot, head;
	enum attune_status status;
	long long map_head; /* the head stride of the map */
	int groups; /* of a page, with one at each slot; 0: one at each 8 */
} rows[] = {
	{ "two heads",                        2, BOX, PAGE,       SLOT, 128,       ATTUNE_OK,          128, 0 },
	{ "a lone head",                      1, BOX, PAGE,       SLOT, 128,       ATTUNE_OK,          SLOT, 0 },
	{ "a lone head with a stride of 0",   1, BOX, PAGE,       SLOT, 0,         ATTUNE_OK,          SLOT, 0 },
	{ "a lone head, negative",            1, BOX, PAGE,       SLOT, -8,        ATTUNE_OK,          SLOT, 0 },
	{ "a lone head, beyond a map's",      1, BOX, PAGE,       SLOT, 1ll << 45, ATTUNE_OK,          SLOT, 0 },
	{ "pages of 12 slots' distance",      2, BOX, 12 * SLOT,  SLOT, 128,       ATTUNE_OK,          128, 12 },
	{ "pages of a slot's distance",       2, BOX, SLOT,       SLOT, 128,       ATTUNE_OK,          128, 1 },
	{ "the same, boxes of half a page",   2, 8,   SLOT,       SLOT, 128,       ATTUNE_UNSUPPORTED, 0, 0 },
	{ "pages inside slots",               2, BOX, 128,        SLOT, 64,        ATTUNE_UNSUPPORTED, 0, 0 },
	{ "pages at one place",               2, BOX, 0,          SLOT, 128,       ATTUNE_UNSUPPORTED, 0, 0 },
	{ "slots at one place",               2, BOX, PAGE,       0,    128,       ATTUNE_UNSUPPORTED, 0, 0 },
	{ "heads in reverse",                 2, BOX, PAGE,       SLOT, -128,      ATTUNE_INVALID,     0, 0 },
	{ "heads beyond a map's",             2, BOX, PAGE,       SLOT, 1ll << 45, ATTUNE_INVALID,     0, 0 },
};
// clang-format on

static void maps_follow_strides(void **state)
{
	const struct row *r = *state;
	const attune_shape s = { .size = sizeof(attune_shape),
				 .num_query_heads = 4,
				 .num_kv_heads = r->heads,
				 .head_size = 128,
				 .page_size = 16,
				 .dtype = ATTUNE_BF16,
				 .kv_dtype = ATTUNE_BF16 };
	const struct attune_call call = { .args = { .k_page_stride = r->page,
						    .k_slot_stride = r->slot,
						    .k_head_stride = r->head,
						    .v_page_stride = r->page,
						    .v_slot_stride = r->slot,
						    .v_head_stride = r->head } };
	struct device dev = { .ops = &ops };
	struct attune_mapped m;
	num_asked = 0;
	assert_int_equal(maps_make(&m, &dev, &s, r->box, 0, &call), r->status);
	assert_int_equal(num_asked, r->status ? 0 : 2);
	if (r->status)
		assert_non_null(strstr(attune_last_error(), r->status == ATTUNE_INVALID
								? "k_head_stride is "
								: "slot strides; this cache's"));
	const attune_tensors t = { .size = sizeof t,
				   .k_page_stride = r->page,
				   .k_slot_stride = r->slot,
				   .k_head_stride = r->head,
				   .v_page_stride = r->page,
				   .v_slot_stride = r->slot,
				   .v_head_stride = r->head };
	assert_int_equal(maps_take(&s, &t, r->box), r->status == ATTUNE_OK);
	for (int i = 0; i < num_asked; i++) {
		assert_true(asked[i].head_stride == r->map_head);
		assert_true(asked[i].slot_stride == r->slot);
		assert_int_equal(asked[i].group_slots, r->groups ? 1 : 8);
		assert_int_equal(i ? m.v_groups : m.k_groups, r->groups ? r->groups : 2);
		assert_int_equal(asked[i].num_heads, r->heads);
		assert_true(asked[i].num_slots == 0);
	}
}

/* ---- what the driver gets ------------------------------------------------------------------- */

typedef unsigned long long length;

static struct encoded {
	length rank;
	length sizes[5], strides[4];
	unsigned box[5], steps[5];
} encoded;

static int driver_map(void *map, int type, unsigned rank, void *base, const length *sizes,
		      const length *strides, const unsigned *box, const unsigned *steps,
		      int interleave, int swizzle, int promotion, int fill)
{
	(void)map, (void)type, (void)base, (void)interleave, (void)swizzle, (void)promotion;
	assert_int_equal(fill, 0); /* zeros */
	encoded = (struct encoded){ .rank = rank };
	memcpy(encoded.sizes, sizes, rank * sizeof *sizes);
	memcpy(encoded.strides, strides, (rank - 1) * sizeof *strides);
	memcpy(encoded.box, box, rank * sizeof *box);
	memcpy(encoded.steps, steps, rank * sizeof *steps);
	return 0;
}

static int context_push(void *context)
{
	(void)context;
	return 0;
}

static int context_pop(void **context)
{
	*context = NULL;
	return 0;
}

/* The engine reads nothing beyond a dimension's size: one dimension has all slots, so nothing behind
 * slot 8191 is read, by any box. Other maps have two for them. */
static void a_map_ends_with_its_slots(void **state)
{
	struct cuda c = {
		.cu = { .MapTiled = driver_map, .CtxPush = context_push, .CtxPop = context_pop }
	};
	struct device dev = { .state = &c };
	struct attune_map map;
	struct map_view v = { .dtype = ATTUNE_BF16,
			      .head_size = 128,
			      .num_heads = 8,
			      .box = 16,
			      .group_slots = 1,
			      .slot_stride = 1024,
			      .head_stride = 128,
			      .num_slots = 8192 };
	(void)state;
	assert_int_equal(cuda_map(&dev, &map, &v), ATTUNE_OK);
	assert_memory_equal(
	    &encoded,
	    (&(struct encoded){
		4, { 64, 8192, 2, 8 }, { 2048, 128, 256 }, { 64, 8, 2, 1 }, { 1, 1, 1, 1 } }),
	    sizeof encoded);
	v.num_slots = 0;
	assert_int_equal(cuda_map(&dev, &map, &v), ATTUNE_OK);
	assert_memory_equal(&encoded,
			    (&(struct encoded){ 5,
						{ 64, 8, 2, 0x7fffffff, 8 },
						{ 2048, 128, 2048, 256 },
						{ 64, 8, 2, 16, 1 },
						{ 1, 1, 1, 8, 1 } }),
			    sizeof encoded);
}

/* ---- the end of ragged K and V -------------------------------------------------------------- */

static const char *asked_from[MOST];
static size_t asked_bytes, room;

static int has_room(struct device *dev, const void *from, size_t bytes)
{
	(void)dev;
	assert_true(num_asked < MOST);
	asked_from[num_asked++] = from;
	asked_bytes = bytes;
	return bytes <= room;
}

static int behind(const char *kernel, enum backend backend, int lanes, int box)
{
	const attune_shape s = { .page_size = 16 };
	const struct device_info d = { .backend = backend, .lanes = lanes };
	return slots_behind(kernel_find(backend, kernel)->space, &s, &d, box);
}

static void some_kernels_read_behind_the_last_key(void **state)
{
	(void)state;
	assert_int_equal(behind("warpgroup", BACKEND_GPU, 32, 16), 15);
	assert_int_equal(behind("warpgroup", BACKEND_GPU, 32, 8), 7);
	assert_int_equal(behind("warpgroup", BACKEND_GPU, 32, 0), 7); /* E4M3 */
	assert_int_equal(behind("qblock", BACKEND_GPU, 32, 0), 0);
	assert_int_equal(behind("qblock", BACKEND_GPU, 64, 0), 15); /* AMD */
	assert_int_equal(behind("qblock", BACKEND_CPU, 64, 0), 0);
}

/* The last slot that is read is the last of K and V and 15 more, of the last head. */
static void memory_is_asked_for_up_to_the_last_slot(void **state)
{
	static const struct device_ops with = { .goes_on = has_room }, without = { .name = "none" };
	static char k[1 << 17], v[1 << 17];
	const attune_shape s = { .num_kv_heads = 3, .head_size = 64, .kv_dtype = ATTUNE_BF16 };
	attune_tensors t = { .k_cache = k, .v_cache = v, .kv_slots = 100 };
	struct device dev = { .ops = &with };
	(void)state;
	t.k_slot_stride = 3 * 64, t.k_head_stride = 64;   /* [slots][heads] */
	t.v_slot_stride = 64, t.v_head_stride = 200 * 64; /* [heads][slots] */
	num_asked = 0;
	room = 2 * (15 * 3 * 64 + 64);
	assert_true(memory_goes_on(&dev, &s, &t, 15));
	assert_int_equal(num_asked, 2);
	assert_true(asked_from[0] == k + 2 * (99 * 3 * 64 + 2 * 64));
	assert_true(asked_from[1] == v + 2 * (99 * 64 + 2 * 200 * 64));
	assert_int_equal(asked_bytes, 2 * (15 * 64 + 64));
	num_asked = 0;
	room--;
	assert_false(memory_goes_on(&dev, &s, &t, 15));
	assert_true(memory_goes_on(&dev, &s, &t, 0));
	t.kv_slots = 0; /* not known */
	assert_false(memory_goes_on(&dev, &s, &t, 15));
	t.kv_slots = 100;
	dev.ops = &without;
	assert_false(memory_goes_on(&dev, &s, &t, 15));
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows) + 3] = {
		[COUNT(rows)] = cmocka_unit_test(a_map_ends_with_its_slots),
		cmocka_unit_test(some_kernels_read_behind_the_last_key),
		cmocka_unit_test(memory_is_asked_for_up_to_the_last_slot),
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, maps_follow_strides, NULL, NULL,
						(void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}
