/* SPDX-License-Identifier: Apache-2.0 */
/* t_simt_ring.c - ring on the emulated GPU, over its special cases: rows that do and do not fill
 * matrix steps, queries in registers or in shared memory, more tiles than page numbers read
 * ahead, segments and warps without a key, each cluster size, and early launches, also of
 * ring_list. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_rows.h"
#include "tests/simt/simt_device.h"
#include "front_rows.h"

enum { UNITS = 7, SEEDS = 3 };

// clang-format off
static const struct point {
	const char *shape; /* its name begins so */
	const char *choice;
} points[] = {
	{ "group 1,", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=0 SEGMENTS=1" },
	{ "group 1,", "ring BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=1 SEGMENTS=3" },
	{ "group 4", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 COMBINE=1 SEGMENTS=1" },
	{ "group 4", "ring BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=2" },
	{ "group 4", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=4 COMBINE=0 SEGMENTS=4" },
	{ "group 4", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=8" },
	{ "group 7", "ring BLOCK_M=32 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=2 COMBINE=0 SEGMENTS=3" },
	{ "group 7", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=4 COMBINE=1 SEGMENTS=4" },
	{ "one KV head", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=6" },
	{ "head 256", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=8" },
	{ "head 256", "ring BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=0 SEGMENTS=2" },
	{ "group 1,", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 COMBINE=2 SEGMENTS=3" },
	{ "group 4", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 COMBINE=2 SEGMENTS=8" },
	{ "head 256", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 COMBINE=2 SEGMENTS=4" },
	{ "window and sinks", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=2 SEGMENTS=2" },
	{ "all at once", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=2 SEGMENTS=6" },
	{ "window and sinks", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 COMBINE=0 SEGMENTS=1" },
	{ "window and sinks", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=2" },
	{ "softcap", "ring BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=3 KV_HINT=0 COMBINE=1 SEGMENTS=4" },
	{ "all at once", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=3" },
	{ "all at once", "ring BLOCK_M=32 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=0 SEGMENTS=1" },
	{ "group 16", "ring BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=2" },
	{ "group 16", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=4 COMBINE=0 SEGMENTS=2" },
	{ "group 4", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=0 SEGMENTS=1 EARLY=1" },
	{ "group 4", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=4 COMBINE=1 SEGMENTS=8 EARLY=2" },
	{ "group 4", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=4 COMBINE=0 SEGMENTS=4 EARLY=2" },
	{ "group 7", "ring BLOCK_M=32 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=2 COMBINE=0 SEGMENTS=3 EARLY=1" },
	{ "window and sinks", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=2 EARLY=2" },
	{ "head 256", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=3 EARLY=1" },
	{ "group 4", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=2 START=64 LEAST=64 BESIDE=1 EARLY=1" },
	{ "window and sinks", "ring_list BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=1 START=0 LEAST=64 BESIDE=0 EARLY=2" },
};

/* Ragged, so that segments and warps of some are without a key. */
static const char *const batches[] = {
	"q1s1_q1s15_q1s16_q1s17_q1s127_q1s1000", "q2s2_q2s33_q4s4_q4s129_q8s8_q8s263", "q4s1_q8s3_q1s0_q2s2",
};
// clang-format on

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return simt_load(&dev, code, k->source, flags);
}

static void passes(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	struct verdict v;
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	front_shape = &shapes[r->shape].s;
	simt_say_front(&dev, what_is_pending);
	for (unsigned seed = 0; seed < SEEDS; seed++)
		for (size_t i = 0; i < COUNT(batches); i++) {
			simt_set(&dev, UNITS, seed);
			run_phases(&v, r, &l, batches[i], 1u << PHASE_ALL);
			if (v.outcome != OUTCOME_OK)
				fail_msg("%s, seed %u: %s: %s", batches[i], seed,
					 outcome_name(v.outcome),
					 v.outcome == OUTCOME_CRASH ? attune_last_error() : v.text);
		}
	unload_choice(&l);
}

static void is_illegal(void **state)
{
	fail_msg("%s: is no point, or a rule refuses it", (const char *)*state);
}

static int add(const struct point *p)
{
	char error[200];
	struct choice c;
	int shape = 0;
	const size_t before = num_rows;
	while (shape < (int)COUNT(shapes) &&
	       strncmp(shapes[shape].name, p->shape, strlen(p->shape)))
		shape++;
	if (shape < (int)COUNT(shapes) &&
	    choice_parse(&c, BACKEND_GPU, p->choice, error, sizeof error))
		add_row(&c, shape);
	return num_rows > before;
}

static void compile_all(void)
{
	struct code *v[(1 + NUM_HELPERS) * COUNT(points)] = { 0 };
	int n = 0;
	for (size_t i = 0; i < num_rows; i++) {
		struct loaded l;
		load_choice(&l, &rows[i].choice, &shapes[rows[i].shape].s);
		v[n++] = l.code;
		for (enum helper h = 0; h < NUM_HELPERS; h++)
			if (l.helper[h])
				v[n++] = l.helper[h];
	}
	(void)simt_compile(v, n); /* a row reports its own compilation error */
	while (n)
		dev.ops->unload(&dev, v[--n]);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(points)];
	if (simt_open(&dev, UNITS, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (size_t i = 0; i < COUNT(points); i++) {
		const int legal = add(&points[i]);
		tests[i] = (struct CMUnitTest){ legal ? rows[num_rows - 1].name : points[i].choice,
						legal ? passes : is_illegal, NULL, NULL,
						legal ? (void *)&rows[num_rows - 1]
						      : (void *)(uintptr_t)points[i].choice };
	}
	compile_all();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt_ring", tests, COUNT(tests), NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
