/* SPDX-License-Identifier: Apache-2.0 */
/* t_cpu_f16.c - F16 numbers of the CPU kernels that have no instruction for them. */
#define SIMD_SCALAR
#include "kernels/cpu/simd.h"
#include "kernels/device/cpu/float_mode.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* All of them, in the mode of the kernels, in which denormal floats are zeros: subnormal F16 numbers
 * are normal floats and keep their value, both ways. AVX2, AVX-512 and NEON convert so. */
static void f16_numbers_keep_their_value(void **state)
{
	struct float_mode mode;
	(void)state;
	for (int h = 0; h < 1 << 16; h++) {
		const int exponent = h >> 10 & 31, fraction = h & 0x3ff;
		const double size =
		    exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
		float_mode_enter(&mode);
		const float f = f16_to_f32((uint16_t)h);
		const int back = f32_to_f16(f);
		float_mode_leave(&mode);
		if (exponent == 31) {
			assert_true(fraction ? isnan(f) : isinf(f) && (f < 0) == h >> 15);
			continue;
		}
		assert_true((double)f == (h >> 15 ? -size : size));
		assert_int_equal(signbit(f) != 0, h >> 15);
		assert_int_equal(back, h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(f16_numbers_keep_their_value) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cpu_f16", tests, NULL, NULL);
}
