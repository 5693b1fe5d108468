/* SPDX-License-Identifier: Apache-2.0 */
/* flags.c - the compiler flags of CPU kernels for each instruction set. Separate from the device,
 * since the build uses them too. */
#include "kernels/device/device.h"
#include <string.h>

/* Infinities stand for masked scores, so the part of -ffast-math that denies
 * them is left out. */
#define CPU_FLAGS "-std=c11 -fno-math-errno -fno-trapping-math -ffp-contract=fast"

/* GCC's -O3 is not faster on F16 and F32 than this, slower on BF16, and takes half as long again to
 * compile (results/DIARY.md, "AVX2 without -O3"). clang warns that it ignores the last
 * three. */
#define AVX2_FLAGS "-O2 -ftree-vectorize -fpeel-loops -funswitch-loops -fgcse-after-reload"

static const struct {
	const char *arch, *flags;
} rows[] = {
	{ "avx512", CPU_FLAGS " -O3 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c"
			      " -mprefer-vector-width=512" },
	{ "avx2", CPU_FLAGS " " AVX2_FLAGS " -mavx2 -mfma -mf16c" },
	{ "neon", CPU_FLAGS " -O3" },
	{ "scalar", CPU_FLAGS " -O3 -DSIMD_SCALAR" },
};

const char *cpu_compile_flags(const char *arch)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcmp(arch, rows[i].arch))
			return rows[i].flags;
	return NULL;
}
