/* SPDX-License-Identifier: Apache-2.0 */
/* t_simt.c - tests the emulated GPU itself: the words of the dialect under several orders of
 * turns, the places of lanes in matrices (by the PTX manual), and that wrong code is caught. */
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/dialect/dialect_host.h"
#include "tests/simt/simt.h"
#include "tests/simt/simt_device.h"

enum { SEEDS = 4, BYTES = DIALECT_INTS * sizeof(int) };

#define BOTH (1u << SIMT_H200 | 1u << SIMT_MI300X)
#define NVIDIA (1u << SIMT_H200)
#define AMD (1u << SIMT_MI300X)

static const struct row {
	const char *name;
	int mode;
	unsigned gpus;
	const char *dies; /* a part of the message; NULL: no message */
	const char *place;
} rows[] = {
	{ "shuffles and votes", SHUFFLES, BOTH, NULL, NULL },
	{ "rows of lanes", LANE_ROWS, AMD, NULL, NULL },
	{ "numbers", NUMBERS, AMD, NULL, NULL },
	{ "barriers", BARRIERS, BOTH, NULL, NULL },
	{ "tickets", TICKETS, BOTH, NULL, NULL },
	{ "the last block sees all", LAST_BLOCK, BOTH, NULL, NULL },
	{ "static and dynamic shared memory", SHARED, BOTH, NULL, NULL },
	{ "named barriers", GROUPS, NVIDIA, NULL, NULL },
	{ "a copy is not there before it is waited for", COPIES, NVIDIA, NULL, NULL },
	{ "matrix step", MATRIX_STEP, BOTH, NULL, NULL },
	{ "matrix step of 32", MATRIX_STEP_32, AMD, NULL, NULL },
	{ "loads of matrices", MATRIX_LOADS, NVIDIA, NULL, NULL },
	{ "a matrix turned round", MATRIX_TURNED, NVIDIA, NULL, NULL },
	{ "clusters", CLUSTERS, NVIDIA, NULL, NULL },
	{ "a barrier is missing", NO_BARRIER, BOTH, "seen[next] == next", NULL },
	{ "lanes part ways", PARTS_WAYS, NVIDIA, "lanes part ways", " at dialect_nvidia.h:" },
	{ "lanes of 64 part ways", PARTS_WAYS, AMD, "lanes part ways", " < dialect_amd.h:" },
	{ "deadlock", NEVER_MEETS, NVIDIA, "nobody can go on", "barrier 5" },
	{ "deadlock of a wave", NEVER_MEETS, AMD, "nobody can go on", "thread 1 in barrier 0" },
	{ "a write behind shared memory", WRITES_BEHIND, BOTH, "17 bytes behind its 4096", NULL },
	{ "a read behind an allocation", READS_BEHIND, BOTH, "no memory of the device",
	  "dialect.cu:" },
	{ "endless loop", SPINS, BOTH, "still running", NULL },
};

static struct device dev;
static struct code *code[2][2]; /* of each GPU F16, BF16 */
static enum simt_gpu gpu;
static struct dialect_args args;

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* All of a test's memory: it ends with the page. */
static void make_args(int *host, int mode, int bf16)
{
	void *memory;
	ok(dev.ops->alloc(&dev, &memory, BYTES));
	args = dialect_lay(host, memory, mode, bf16);
}

static enum attune_status launch(int bf16)
{
	const unsigned cluster = args.mode == CLUSTERS ? 5 : 1;
	const struct geometry g = { .x = DIALECT_BLOCKS,
				    .y = cluster,
				    .z = 1,
				    .threads = DIALECT_THREADS,
				    .smem = DIALECT_SMEM,
				    .cluster = cluster };
	return dev.ops->launch(&dev, code[gpu][bf16], &g, &args, sizeof args, NULL);
}

static void answers(const struct row *r, int bf16)
{
	static int host[DIALECT_INTS];
	make_args(host, r->mode, bf16);
	ok(dev.ops->put(&dev, args.counter, host, BYTES));
	const enum attune_status status = launch(bf16);
	ok(dev.ops->get(&dev, host, args.counter, BYTES));
	dev.ops->release(&dev, args.counter);
	if (r->dies) {
		assert_int_equal(status, ATTUNE_DEVICE_ERROR);
		if (!strstr(attune_last_error(), r->dies) ||
		    (r->place && !strstr(attune_last_error(), r->place)))
			fail_msg("%s", attune_last_error());
		return;
	}
	ok(status);
	is_counted(host, r->mode);
	if (r->mode == MATRIX_STEP)
		is_product(host, 16, gpu == SIMT_H200 ? 8 : 16, 16);
	if (r->mode == MATRIX_STEP_32)
		is_product(host, 32, 32, 8);
}

static int depends_on_type(int mode)
{
	return mode == MATRIX_STEP || mode == MATRIX_STEP_32 || mode == NUMBERS;
}

static void in_each_order(const struct row *r)
{
	for (unsigned seed = 0; seed < (r->mode == SPINS ? 1 : SEEDS); seed++)
		for (int bf16 = 0; bf16 < (depends_on_type(r->mode) ? 2 : 1); bf16++) {
			simt_set(&dev, 4, seed);
			answers(r, bf16);
		}
}

static void on_each_gpu(void **state)
{
	const struct row *r = *state;
	for (gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++) {
		simt_pose(&dev, gpu);
		if (r->gpus >> gpu & 1)
			in_each_order(r);
	}
	gpu = SIMT_H200;
}

/* Between begin and end nothing runs; a replay uses the arguments of that time. */
static void graphs_wait(void **state)
{
	static int host[DIALECT_INTS];
	struct graph *graph;
	double ns;
	(void)state;
	simt_set(&dev, 4, 0);
	make_args(host, LAST_BLOCK, 0);
	ok(dev.ops->put(&dev, args.counter, host, BYTES));
	assert_false(dev.ops->capturing(&dev, NULL));
	ok(dev.ops->graph_begin(&dev));
	assert_true(dev.ops->capturing(&dev, NULL));
	ok(dev.ops->clear(&dev, args.counter, 2 * sizeof(int), NULL));
	ok(launch(0));
	args.mode = SPINS;
	assert_int_equal(dev.ops->get(&dev, host, args.counter, BYTES), ATTUNE_INVALID);
	ok(dev.ops->graph_end(&dev, &graph));
	ok(dev.ops->get(&dev, host, args.counter, BYTES));
	assert_int_equal(host[1], 0);
	for (int times = 0; times < 2; times++) {
		ok(dev.ops->graph_play(&dev, graph, &ns));
		ok(dev.ops->get(&dev, host, args.counter, BYTES));
		assert_int_equal(host[1], 45);
	}
	dev.ops->graph_free(&dev, graph);
	dev.ops->release(&dev, args.counter);
}

/* All halves there and back; floats between two of them go to the even one. */
static void halves_round(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x7c00; h++) {
		const float f = simt_from_half((uint16_t)h), g = simt_from_half((uint16_t)(h + 1));
		assert_int_equal(simt_to_half(f), h);
		assert_int_equal(simt_to_half(-f), h | 0x8000);
		assert_true(h == 0x7bff || f < g);
		if (h < 0x7bff) {
			assert_int_equal(simt_to_half((f + g) / 2), h + h % 2);
			assert_int_equal(simt_to_half(f + (g - f) * 0.75f), h + 1);
		}
	}
	assert_true(simt_from_half(1) == 0x1p-24f && simt_from_half(0x3c00) == 1 &&
		    simt_from_half(0x7bff) == 65504);
	assert_int_equal(simt_to_half(65519), 0x7bff);
	assert_int_equal(simt_to_half(65520), 0x7c00);
	assert_int_equal(simt_to_bfloat(1.00390625f), 0x3f80);
	assert_int_equal(simt_to_bfloat(1.01171875f), 0x3f82);
}

static enum attune_status load_all(const char *source)
{
	static const char *const flags[] = { "-DDTYPE=F16", "-DDTYPE=BF16" };
	for (enum simt_gpu g = SIMT_H200; g <= SIMT_MI300X; g++) {
		simt_pose(&dev, g);
		for (int i = 0; i < 2; i++)
			if (simt_load(&dev, &code[g][i], source, flags[i]))
				return ATTUNE_NO_MEMORY;
	}
	simt_pose(&dev, SIMT_H200);
	return simt_compile(&code[0][0], 4);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows) + 2];
	char source[1000];
	size_t n = 0;
	snprintf(source, sizeof source, "%s/../tests/dialect/dialect.cu",
		 source_root() ? source_root() : "kernels");
	if (simt_open(&dev, 4, 0) || load_all(source)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_give_up_after(&dev, 1);
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[n++] = (struct CMUnitTest){ rows[i].name, on_each_gpu, NULL, NULL,
						  (void *)(uintptr_t)&rows[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(graphs_wait);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(halves_round);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt", tests, n, NULL, NULL);
	for (int i = 0; i < 4; i++)
		dev.ops->unload(&dev, code[i / 2][i % 2]);
	device_close(&dev);
	return failed;
}
