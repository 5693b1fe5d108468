/* SPDX-License-Identifier: Apache-2.0 */
/* t_e4m3.c - ring and ring_list over 8-bit caches, and the LSE of these and other kernels: head
 * sizes with each layout of shared memory, page sizes, layouts, each kind of scale (from the
 * seed), queries in registers and in shared memory, BF16 and F16. On a GPU over all corner
 * batches. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "tests/support/all_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#define OWN_SHAPES "tests/kernels/e4m3_shapes.h"
#include "tests/support/gpu_here.h"
#include "tests/support/gpu_rows.h"
#include "front_rows.h"

enum { UNITS = 3, KINDS_OF_SCALES = 3 };

// clang-format off
static const struct point {
	const char *shape; /* its name begins so */
	const char *choice;
} points[] = {
	{ "head 128", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=0 SEGMENTS=1" },
	{ "head 128", "ring BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=1 SEGMENTS=3" },
	{ "head 128", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=4 COMBINE=1 SEGMENTS=8 EARLY=1" },
	{ "head 128", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 128", "ring_list BLOCK_M=8 TILE_SIZE=64 NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=2 START=0 LEAST=64 BESIDE=0" },
	{ "head 64, f16", "ring BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=2" },
	{ "head 64, f16", "ring_list BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=8 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 64, pages", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 COMBINE=1 SEGMENTS=4" },
	{ "head 64, pages", "ring BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=2 COMBINE=0 SEGMENTS=1 EARLY=2" },
	{ "head 64, pages", "ring_list BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=2 START=64 LEAST=256 BESIDE=1" },
	{ "head 96", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=4 KV_HINT=0 COMBINE=1 SEGMENTS=2" },
	{ "head 96", "ring_list BLOCK_M=32 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 80", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 COMBINE=1 SEGMENTS=3" },
	{ "head 80", "ring_list BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 48", "ring BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=1 SEGMENTS=2" },
	{ "head 192", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=6" },
	{ "head 192", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 256", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=3 COMBINE=1 SEGMENTS=4" },
	{ "head 256", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=0 SEGMENTS=1" },
	{ "head 256", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "head 256, f16", "ring BLOCK_M=8 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3 COMBINE=1 SEGMENTS=8" },
	{ "head 256, f16", "ring_list BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=2 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "group 40", "ring BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 COMBINE=0 SEGMENTS=4" },
	{ "group 40", "ring BLOCK_M=32 TILE_SIZE=16 NUM_WARPS=8 NUM_STAGES=2 COMBINE=0 SEGMENTS=3 EARLY=2" },
	{ "group 40", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "bf16 cache", "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 COMBINE=1 SEGMENTS=3" },
	{ "bf16 cache", "ring_list BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=3 BLOCKS_PER_SM=1 START=64 LEAST=64 BESIDE=1" },
	{ "f16 cache", "ring BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=2 COMBINE=0 SEGMENTS=1 EARLY=1" },
	{ "f16 cache", "ring_list BLOCK_M=16 TILE_SIZE=16 NUM_WARPS=2 NUM_STAGES=3 BLOCKS_PER_SM=2 START=64 LEAST=64 BESIDE=1" },
#define WARPGROUP(m, tile, stages, per_sm, turns, rest) "warpgroup BLOCK_M=" #m " TILE_SIZE=" #tile " NUM_STAGES=" #stages \
	" BLOCKS_PER_SM=" #per_sm " TURNS=" #turns " PERSISTENT=1 HEADS=0" rest
	{ "head 128", WARPGROUP(128, 128, 2, 1, 1, "") },
	{ "head 64, f16", WARPGROUP(192, 96, 2, 1, 1, "") },
	{ "head 64, pages", WARPGROUP(128, 112, 3, 1, 0, " EARLY=1") },
	{ "head 96", WARPGROUP(128, 80, 2, 1, 1, "") },
	{ "head 192", WARPGROUP(64, 80, 2, 1, 0, "") },
	{ "head 256, f16", WARPGROUP(128, 64, 2, 1, 1, "") },
	{ "group 40", WARPGROUP(64, 64, 2, 2, 0, "") },
	{ "bf16 cache", WARPGROUP(128, 128, 2, 1, 1, " EARLY=1") },
	{ "bf16 cache", "warpgroup_mixed PREFILL_TILE=128 DECODE_TILE=16 DECODE_WARPS=8 DECODE_STAGES=3 DECODE_UNITS=0 PREFILL_SEGMENTS=2" },
	{ "f16 cache", "warpgroup_mixed PREFILL_TILE=96 DECODE_TILE=32 DECODE_WARPS=12 DECODE_STAGES=2 DECODE_UNITS=0 PREFILL_SEGMENTS=1" },
};

/* For the emulated GPU; ragged, so that segments and warps of some are without a key. */
static const char *const small[] = {
	"q1s1_q1s15_q1s17_q1s127_q1s700", "q2s2_q2s33_q4s129_q8s8_q8s263", "q4s1_q8s3_q1s0_q2s2",
	"q9s9_q40s17_q12s300_q1s5_q150s170", NULL
};
// clang-format on

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	struct binary b;
	if (is_emulated(&dev))
		return simt_load(&dev, code, k->source, flags);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log ? b.log : "no compiler");
	const enum attune_status status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static void pose(const struct row *r)
{
	if (!is_emulated(&dev))
		return;
	front_shape = &shapes[r->shape].s;
	simt_set(&dev, UNITS, (unsigned)row_seed);
	simt_say_front(&dev, what_is_pending);
}

static void passes(void **state)
{
	const struct row *r = *state;
	const char *const *batches = is_emulated(&dev) ? small : corner_batches;
	struct loaded l;
	struct verdict v;
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (row_seed = 0; row_seed < KINDS_OF_SCALES; row_seed++) {
		pose(r);
		for (const char *const *text = batches; *text; text++) {
			run_phases(&v, r, &l, *text, ~0u);
			if (v.outcome != OUTCOME_OK)
				fail_msg("%s, seed %llu: %s: %s", *text, row_seed,
					 outcome_name(v.outcome),
					 v.outcome == OUTCOME_CRASH ? attune_last_error() : v.text);
		}
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

/* Compiles for the emulated GPU, all at once; a row reports its own compilation error. */
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
	(void)simt_compile(v, n);
	while (n)
		dev.ops->unload(&dev, v[--n]);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(points)];
	if (gpu_open(&dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	const size_t step = is_emulated(&dev) && !all_rows_asked() ? 2 : 1;
	size_t n = 0;
	for (size_t i = 0; i < COUNT(points); i += step) {
		const int legal = add(&points[i]);
		tests[n++] =
		    (struct CMUnitTest){ legal ? rows[num_rows - 1].name : points[i].choice,
					 legal ? passes : is_illegal, NULL, NULL,
					 legal ? (void *)&rows[num_rows - 1]
					       : (void *)(uintptr_t)points[i].choice };
	}
	if (is_emulated(&dev))
		compile_all();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("e4m3", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
