/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_lists.c - block tables from page lists and from starts of ragged K and V, on this machine's GPU,
 * else the emulated one, whose memory ends where an array ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/library/rules_header.h"
#include "tests/support/gpu_here.h"
#include "lists_world.h"

enum { MOST_ALLOCATIONS = 64 };

static void *allocation[MOST_ALLOCATIONS];
static int num_allocations;

static void *exact(size_t bytes)
{
	const size_t whole = (bytes + 15) / 16 * 16;
	void *memory;
	assert_true(num_allocations < MOST_ALLOCATIONS);
	if (dev.ops->alloc(&dev, &memory, whole ? whole : 16))
		return NULL;
	allocation[num_allocations++] = memory;
	return memory;
}

static void release_exact(void)
{
	while (num_allocations)
		dev.ops->release(&dev, allocation[--num_allocations]);
}

#define STEPS "q1s17_q20s33_q3s1_q2s0_q9s0_q0s5_q12s3_q1s1_q33s100_q1s64"
#define NO_KEYS "q1s17_q5s3_q2s0_q40s9_q20s0_q8s8"
#define SINKS(type) .has_sinks = 1, .sinks_dtype = ATTUNE_##type
// clang-format off
static const struct lists_row rows[] = {
	{ "ragged, BF16, head 128",                STEPS,                       { SHAPE(8, 2, 128, 16, BF16, BF16) }, RAGGED },
	{ "ragged, F16, head 64, pages of 64",     STEPS,                       { SHAPE(4, 2, 64, 64, F16, F16) }, RAGGED },
	{ "ragged, window, sinks",                 STEPS,                       { SHAPE(8, 2, 128, 16, BF16, BF16), .window = 9, .has_sinks = 1 }, RAGGED },
	{ "ragged prefills without a cache",       "q70s70_q129s129_q16s16_q15s15", { SHAPE(4, 2, 128, 16, BF16, BF16) }, RAGGED },
	{ "ragged prefills to the end",            "q70s70_q129s129_q16s16_q15s15", { SHAPE(4, 2, 128, 16, BF16, BF16) }, RAGGED_TO_END },
	{ "ragged prefills with LSE, to the end",  "q70s70_q129s133_q16s16_q15s15_q9s9", { SHAPE(4, 2, 128, 16, BF16, BF16), .has_lse = 1 }, RAGGED_TO_END },
	{ "ragged, not causal, to the end",        "q9s3_q140s130_q20s7",       { sizeof(attune_shape), 6, 2, 64, 64, ATTUNE_F16, ATTUNE_F16, .has_lse = 1 }, RAGGED_TO_END },
	{ "ragged, window, sinks, to the end",     "q30s130_q40s41_q12s12",     { SHAPE(4, 4, 96, 8, F16, F16), .window = 20, .has_sinks = 1, .has_lse = 1 }, RAGGED_TO_END },
	{ "ragged, head 192, to the end",          "q30s130_q12s13",            { SHAPE(8, 2, 192, 16, BF16, BF16), .has_lse = 1 }, RAGGED_TO_END },
	{ "ragged, head 256, to the end",          "q30s130_q12s13",            { SHAPE(3, 1, 256, 16, BF16, BF16), .has_lse = 1 }, RAGGED_TO_END },
	{ "ragged, both phases, to the end",       STEPS,                       { SHAPE(8, 2, 128, 16, BF16, BF16) }, RAGGED_TO_END },
	{ "ragged prefills with LSE, room behind", "q70s70_q129s133_q16s16_q15s15_q9s9", { SHAPE(4, 2, 128, 16, BF16, BF16), .has_lse = 1 }, RAGGED_WITH_ROOM },
	{ "ragged prefills, E4M3, room behind",    "q70s70_q40s41_q1s30",       { SHAPE(4, 2, 128, 16, BF16, E4M3) }, RAGGED_WITH_ROOM },
	{ "ragged, head 64, room behind",          STEPS,                       { SHAPE(4, 2, 64, 16, F16, F16), .window = 40 }, RAGGED_WITH_ROOM },
	{ "ragged, head 96, pages of 8, room behind", STEPS,                    { SHAPE(4, 2, 96, 8, F16, F16), .has_lse = 1 }, RAGGED_WITH_ROOM },
	{ "ragged decodes",                        "q1s15_4q1s300_q2s31",       { SHAPE(8, 1, 128, 16, F16, F16) }, RAGGED },
	{ "ragged decodes, E4M3",                  "q1s15_4q1s300_q2s31",       { SHAPE(8, 1, 128, 16, BF16, E4M3) }, RAGGED },
	{ "page lists of 4 bytes",                 STEPS,                       { SHAPE(8, 2, 64, 16, BF16, BF16) }, PAGES },
	{ "page lists of 8 bytes, pages of 1",     STEPS,                       { SHAPE(4, 2, 64, 1, F16, F16) }, LONG_PAGES },
	{ "sinks of BF16, segments",               "q1s700_2q1s300",            { SHAPE(8, 2, 128, 16, BF16, BF16), SINKS(BF16) }, PAGES },
	{ "sinks of BF16, prefills",               STEPS,                       { SHAPE(8, 2, 128, 16, BF16, BF16), SINKS(BF16) }, PAGES },
	{ "sinks of F16, LSE",                     NO_KEYS,                     { SHAPE(8, 2, 64, 16, BF16, BF16), SINKS(F16), .has_lse = 1 }, PAGES },
	{ "sinks of F32, LSE",                     NO_KEYS,                     { SHAPE(8, 2, 128, 16, F16, F16), SINKS(F32), .has_lse = 1 }, PAGES },
	{ "sinks of BF16, LSE, not causal",        NO_KEYS,                     { sizeof(attune_shape), 4, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, SINKS(BF16), .has_lse = 1 }, PAGES },
	{ "LSE without sinks",                     NO_KEYS,                     { SHAPE(8, 2, 128, 16, BF16, BF16), .has_lse = 1 }, PAGES },
};
// clang-format on

static struct device_ops ops; /* the device's, with note_map */
static enum attune_status (*make_map)(struct device *, struct attune_map *,
				      const struct map_view *);
static int ends_of_maps, emulated;

/* What reads behind the last key and has no stand-in. */
static void ragged_keys_of_unknown_end_are_refused(void **state)
{
	static const attune_shape lse = { SHAPE(4, 2, 128, 16, BF16, BF16), .has_lse = 1 };
	static const attune_shape e4m3 = { SHAPE(4, 2, 128, 16, BF16, E4M3) };
	static const struct {
		const attune_shape *s;
		int is_said;
	} cases[] = { { &lse, 0 }, { &e4m3, 0 }, { &e4m3, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lists_world w;
		if (cases[i].is_said && !emulated) /* a GPU's memory ends at 2 MiB */
			continue;
		lists_make(&w, cases[i].s, cases[i].is_said ? RAGGED_TO_END : RAGGED, "q20s20");
		write_table(&w);
		assert_int_equal(plan_and_run(&w, ATTUNE_START_IN_TURN), ATTUNE_UNSUPPORTED);
		lists_free(&w);
	}
}

static enum attune_status note_map(struct device *d, struct attune_map *map,
				   const struct map_view *v)
{
	ends_of_maps += v->num_slots > 0;
	return make_map(d, map, v);
}

/* Prefills are not left to a slower kernel. */
static void row_passes(void **state)
{
	const struct lists_row *r = *state;
	ends_of_maps = 0;
	lists_row_passes(state);
	if (emulated)
		assert_int_equal(ends_of_maps > 0, r->lists == RAGGED_TO_END);
}

/* A context whose plans have one launch for both phases. */
static void open_fused(void)
{
	static const struct rules rules = {
		.choice = { "segmented BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 SEGMENTS=4",
			    "warpgroup_mixed PREFILL_TILE=128 DECODE_TILE=16 DECODE_WARPS=8 "
			    "DECODE_STAGES=2 DECODE_UNITS=0 PREFILL_SEGMENTS=0" },
		.overlap = "1"
	};
	const int file = memfd_create("rules", 0);
	char path[40];
	dprintf(file, "%s", rules_header(dev.info.gpu, &rules));
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	setenv("ATTUNE_HEURISTICS", path, 1);
	fine(attune_adopt(&ctx, &dev));
	unsetenv("ATTUNE_HEURISTICS");
	close(file);
}

static void fused_plans_run_to_the_end(void **state)
{
	static const struct lists_row row = { "fused",
					      "q140s150_5q1s30_q20s20",
					      { SHAPE(8, 2, 128, 16, BF16, BF16) },
					      RAGGED_TO_END };
	attune_context *usual = ctx;
	(void)state;
	open_fused();
	row_passes(&(void *){ (void *)(uintptr_t)&row });
	attune_close(ctx);
	ctx = usual;
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows) + 2] = {
		cmocka_unit_test(ragged_keys_of_unknown_end_are_refused),
		cmocka_unit_test(fused_plans_run_to_the_end)
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i + 2] = (struct CMUnitTest){ rows[i].name, row_passes, NULL, NULL,
						    (void *)(uintptr_t)&rows[i] };
	if (gpu_open(&dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	emulated = is_emulated(&dev);
	ops = *dev.ops;
	make_map = ops.map;
	ops.map = note_map;
	dev.ops = &ops;
	if (attune_adopt(&ctx, &dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = cmocka_run_group_tests_name("gpu_lists", tests, NULL, NULL);
	attune_close(ctx);
	device_close(&dev);
	return failed;
}
