/* SPDX-License-Identifier: Apache-2.0 */
/* t_gpu_binaries.c - which binaries run on a GPU, and whose times a CPU uses. */
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/selector.h"
#include "kernels/ship/shipped.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* All CPUs share a header; where it is another CPU's, that is said. */
static void a_cpu_says_whose_times_it_uses(void **state)
{
	static const struct selector cpus[] = {
		{ .gpu = "cpu", .arch = "avx512", .device = "AMD EPYC, avx512, 2 threads" }
	};
	static const struct {
		const char *name, *arch;
		int units;
		const char *why;
	} r[] = {
		{ "AMD EPYC", "avx512", 2, "measured on AMD EPYC, avx512, 2 threads" },
		{ "Intel(R) Xeon(R)", "avx512", 2,
		  "borrowed: measured on AMD EPYC, avx512, 2 threads; here "
		  "Intel(R) Xeon(R), avx512, 2 threads" },
		{ "AMD EPYC", "avx2", 2,
		  "borrowed: measured on AMD EPYC, avx512, 2 threads; here AMD "
		  "EPYC, avx2, 2 threads" },
		{ "aarch64 CPU", "neon", 1,
		  "borrowed: measured on AMD EPYC, avx512, 2 threads; here aarch64 "
		  "CPU, neon, 1 thread" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .backend = BACKEND_CPU,
					 .units = r[i].units,
					 .gpu = "cpu" };
		char text[SELECTOR_WHY];
		snprintf(d.name, sizeof d.name, "%s", r[i].name);
		snprintf(d.arch, sizeof d.arch, "%s", r[i].arch);
		selector_why(text, sizeof text, cpus, 1, &d);
		assert_string_equal(text, r[i].why);
	}
}

static void binaries_run_where_they_can(void **state)
{
	static const struct {
		const char *arch, *code;
		int runs;
	} r[] = { { "sm_90", "sm_90", 1 },   { "sm_90", "sm_80", 0 },   { "sm_86", "sm_80", 1 },
		  { "sm_80", "sm_86", 0 },   { "sm_89", "sm_86", 1 },   { "sm_87", "sm_86", 0 },
		  { "sm_89", "sm_87", 0 },   { "sm_87", "sm_87", 1 },   { "sm_103", "sm_100", 1 },
		  { "sm_120", "sm_103", 0 }, { "sm_121", "sm_120", 1 }, { "gfx942", "gfx942", 1 },
		  { "gfx950", "gfx942", 0 }, { "gfx942", "gfx90a", 0 }, { "avx512", "avx2", 0 } };
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++)
		assert_int_equal(arch_runs(r[i].arch, r[i].code), r[i].runs);
}

/* The device's own first, then the nearest older one, then PTX; warpgroup has code that one
 * architecture alone executes. */
static void the_best_binary_is_found(void **state)
{
	static const struct shipped binaries[] = {
		{ BACKEND_GPU, "ptx", "qblock", "-DX", { 0 } },
		{ BACKEND_GPU, "sm_80", "qblock", "-DX", { 0 } },
		{ BACKEND_GPU, "sm_86", "qblock", "-DX", { 0 } },
		{ BACKEND_GPU, "sm_90", "qblock", "-DX", { 0 } },
		{ BACKEND_GPU, "sm_80", "warpgroup", "-DX", { 0 } },
		{ BACKEND_GPU, "gfx942", "qblock", "-DX", { 0 } },
	};
	static const struct {
		const char *arch, *kernel;
		int want; /* -1: none */
	} r[] = {
		{ "sm_90", "qblock", 3 },     { "sm_89", "qblock", 2 },
		{ "sm_86", "qblock", 2 },     { "sm_80", "qblock", 1 },
		{ "sm_100", "qblock", 0 },    { "sm_75", "qblock", -1 },
		{ "sm_89", "warpgroup", -1 }, { "sm_80", "warpgroup", 4 },
		{ "gfx942", "qblock", 5 },    { "gfx950", "qblock", -1 },
		{ "sm_90", "naive", -1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .backend = BACKEND_GPU };
		snprintf(d.arch, sizeof d.arch, "%s", r[i].arch);
		const struct shipped *s =
		    shipped_among(binaries, (int)COUNT(binaries), &d, r[i].kernel, "-DX");
		assert_ptr_equal(s, r[i].want < 0 ? NULL : &binaries[r[i].want]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cpu_says_whose_times_it_uses),
		cmocka_unit_test(binaries_run_where_they_can),
		cmocka_unit_test(the_best_binary_is_found),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu binaries", tests, NULL, NULL);
}
