/* SPDX-License-Identifier: Apache-2.0 */
/* t_occupancy.c - how many blocks of a binary fit on a unit at once, by the vendors' rules; each row
 * is bound by one of the limits. */
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

// clang-format off
static const struct row {
	const char *name, *arch;
	unsigned threads;
	int registers, sgprs;
	size_t smem; /* of the launch */
	int smem_static;
	int blocks, waves;
	double share;
} rows[] = {
	{ "H100: threads",                     "sm_90",  128, 32,  0,   0,         0,        16, 0, 1 },
	{ "H100: blocks",                      "sm_90",  32,  16,  0,   0,         0,        32, 0, 0.5 },
	{ "H100: a part of a warp is a whole", "sm_90",  40,  16,  0,   0,         0,        32, 0, 0.625 },
	{ "H100: registers",                   "sm_90",  128, 128, 0,   0,         0,        4,  0, 0.25 },
	{ "H100: registers come in 256s",      "sm_90",  128, 33,  0,   0,         0,        12, 0, 0.75 },
	{ "H100: shared memory",               "sm_90",  256, 32,  0,   50 << 10,  0,        4,  0, 0.5 },
	{ "H100: both kinds of it, and 1 KiB", "sm_90",  256, 32,  0,   48 << 10,  8 << 10,  4,  0, 0.5 },
	{ "H100: does not fit",                "sm_90",  128, 32,  0,   228 << 10, 0,        0,  0, 0 },
	{ "A10: fewer threads",                "sm_86",  128, 32,  0,   0,         0,        12, 0, 1 },
	{ "MI300X: waves of a SIMD",           "gfx942", 64,  64,  50,  0,         0,        32, 8, 1 },
	{ "MI300X: vector registers",          "gfx942", 256, 128, 50,  0,         0,        4,  4, 0.5 },
	{ "MI300X: scalar registers",          "gfx942", 256, 32,  104, 0,         0,        7,  7, 0.875 },
	{ "MI300X: LDS, both kinds",           "gfx942", 256, 32,  50,  24 << 10,  8 << 10,  2,  2, 0.25 },
	{ "MI350X: LDS comes in 1280s",        "gfx950", 256, 32,  50,  24 << 10,  8 << 10,  4,  4, 0.5 },
};
// clang-format on

static void fits(void **state)
{
	const struct row *r = *state;
	const struct binary b = { .registers = r->registers,
				  .sgprs = r->sgprs,
				  .smem_static = r->smem_static };
	const struct geometry g = { .threads = r->threads, .smem = r->smem };
	struct resident found;
	gpu_resident(&found, arch_limits(r->arch), &b, &g);
	assert_int_equal(found.blocks, r->blocks);
	assert_int_equal(found.waves, r->waves);
	assert_float_equal(found.share, r->share, 1e-9);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(rows)];
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, fits, NULL, NULL,
						(void *)(uintptr_t)&rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("occupancy", tests, COUNT(rows), NULL, NULL);
}
