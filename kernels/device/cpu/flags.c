/* flags.c - the compiler flags of CPU kernels for each instruction set. Separate from the device,
 * since the build uses them too. */
#include "kernels/device/device.h"
#include <string.h>

/* Infinities stand for masked scores, so the part of -ffast-math that denies
 * them is left out. */
#define CPU_FLAGS "-std=c11 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast"

static const struct {
	const char *arch, *flags;
} rows[] = {
	{ "avx512", CPU_FLAGS " -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c"
			      " -mprefer-vector-width=512" },
	{ "avx2", CPU_FLAGS " -mavx2 -mfma -mf16c" },
	{ "neon", CPU_FLAGS },
	{ "scalar", CPU_FLAGS " -DSIMD_SCALAR" },
};

const char *cpu_compile_flags(const char *arch)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (!strcmp(arch, rows[i].arch))
			return rows[i].flags;
	return NULL;
}
