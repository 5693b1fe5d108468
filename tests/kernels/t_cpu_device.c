/* SPDX-License-Identifier: Apache-2.0 */
/* t_cpu_device.c - the CPU as a device: its names, graphs of launches, ceilings, and what is said when
 * a driver's library is missing. */
#include "harness/ceilings/ceilings.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/args.h"
#include "kernels/launch/run.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- the device ----------------------------------------------------------------- */

static void bad_names_are_refused(void **state)
{
	struct device d = { 0 };
	(void)state;
	assert_int_equal(cpu_ops.open(&d, "sse9"), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "avx512, avx2, neon or scalar"));
	setenv("ATTUNE_THREADS", "many", 1);
	assert_int_equal(cpu_ops.open(&d, NULL), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "1 to 1024"));
	setenv("ATTUNE_THREADS", "0", 1);
	assert_int_equal(cpu_ops.open(&d, NULL), ATTUNE_INVALID);
	setenv("ATTUNE_THREADS", "3", 1);
	assert_int_equal(cpu_ops.open(&d, "scalar"), ATTUNE_OK);
	assert_int_equal(d.info.units, 3);
	assert_string_equal(d.info.arch, "scalar");
	cpu_ops.close(&d);
	unsetenv("ATTUNE_THREADS");
}

/* Counts in `out` how often each cell ran: args carry two pointers here. */
static void count_cell(const struct attune_args *a, int x, int y, int z)
{
	int *n = a->out;
	__atomic_fetch_add(&n[x + 5 * (y + 3 * z)], 1, __ATOMIC_RELAXED);
}

static void graph_runs_every_cell(void **state)
{
	struct device d = { .ops = &cpu_ops };
	struct blob blob = { .cell = count_cell };
	struct geometry grid = { .x = 5, .y = 3, .z = 2, .threads = 1, .segments = 1 };
	struct code *code;
	struct graph *graph;
	int count[30] = { 0 };
	struct attune_args args = { .out = count };
	double ns = -1;
	(void)state;
	assert_int_equal(cpu_ops.open(&d, NULL), ATTUNE_OK);
	assert_int_equal(cpu_ops.load(&d, &code, &blob), ATTUNE_OK);
	assert_int_equal(cpu_ops.graph_begin(&d), ATTUNE_OK);
	assert_int_equal(cpu_ops.graph_begin(&d), ATTUNE_INVALID);
	for (int i = 0; i < 20; i++)
		assert_int_equal(cpu_ops.launch(&d, code, &grid, &args, sizeof args, NULL), 0);
	assert_int_equal(count[0], 0); /* recorded, not run */
	assert_int_equal(cpu_ops.graph_end(&d, &graph), ATTUNE_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(cpu_ops.graph_play(&d, graph, &ns), ATTUNE_OK);
	for (int i = 0; i < 30; i++)
		assert_int_equal(count[i], 60);
	assert_true(ns > 0);
	assert_true(cpu_last_play_share(&d) >= 0 && cpu_last_play_share(&d) <= 1);
	cpu_ops.graph_free(&d, graph);
	cpu_ops.unload(&d, code);
	cpu_ops.close(&d);
}

static void ceilings_are_plausible(void **state)
{
	struct device d = { .ops = &cpu_ops };
	(void)state;
	assert_int_equal(cpu_ops.open(&d, NULL), ATTUNE_OK);
	const double dram = cpu_dram_gbps(&d), fma = cpu_fma_gflops(&d);
	assert_true(dram == 0 || (dram > 0.1 && dram < 1e4)); /* 0: the machine was too busy */
	assert_true(fma == 0 || (fma > 0.1 && fma < 1e6));
	cpu_ops.close(&d);
}

static void a_missing_library_is_reported(void **state)
{
	struct device d = { .ops = &cpu_ops };
	struct blob blob = { .path = "/nonexistent/kernel.so", .entry = "attune_kernel" };
	struct code *code = NULL;
	(void)state;
	assert_int_equal(cpu_ops.open(&d, NULL), ATTUNE_OK);
	assert_int_equal(cpu_ops.load(&d, &code, &blob), ATTUNE_DEVICE_ERROR);
	assert_non_null(strstr(attune_last_error(), "kernel.so"));
	cpu_ops.close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_names_are_refused),
		cmocka_unit_test(graph_runs_every_cell),
		cmocka_unit_test(ceilings_are_plausible),
		cmocka_unit_test(a_missing_library_is_reported),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cpu_device", tests, NULL, NULL);
}
