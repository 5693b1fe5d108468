/* SPDX-License-Identifier: Apache-2.0 */
/* t_number_formats.c - F16, BF16 and E4M3: all values decode by their formats, and rounding goes to
 * the nearest, ties to even. */
#include "kernels/device/device.h"
#include "harness/check/reference.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* All 256 values, by the formula of the format. Each rounds to itself; half way to the next it
 * rounds to the even one. */
static void e4m3_values(void **state)
{
	(void)state;
	for (int i = 0; i < 256; i++) {
		const uint8_t bits = (uint8_t)i, next = (uint8_t)(i + 1);
		const int exponent = i >> 3 & 15, fraction = i & 7;
		const double size =
		    exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
		const double value = value_of(ATTUNE_E4M3, &bits, 0);
		uint8_t rounded_to[2] = { 0xbe, 0xbe };
		if (i % 128 == 127) {
			assert_true(isnan(value));
			continue;
		}
		assert_true(value == (i < 128 ? size : -size));
		assert_true(!signbit(value) == (i < 128));
		value_put(ATTUNE_E4M3, rounded_to, 1, (float)value);
		assert_int_equal(rounded_to[1], bits);
		assert_int_equal(rounded_to[0], 0xbe);
		if (i % 128 == 126) {
			value_put(ATTUNE_E4M3, rounded_to, 1, i < 128 ? 464.5f : -INFINITY);
			assert_int_equal(rounded_to[1], i | 1);
			continue;
		}
		value_put(ATTUNE_E4M3, rounded_to, 1,
			  (float)((value + value_of(ATTUNE_E4M3, &next, 0)) / 2));
		assert_int_equal(rounded_to[1], i % 2 ? next : bits);
	}
}

static const struct encoded {
	const char *name;
	enum attune_dtype dtype;
	unsigned bits;
	double value;
} encoded[] = {
	{ "f16 one", ATTUNE_F16, 0x3c00, 1 },
	{ "f16 -2.5", ATTUNE_F16, 0xc100, -2.5 },
	{ "f16 largest", ATTUNE_F16, 0x7bff, 65504 },
	{ "f16 smallest normal", ATTUNE_F16, 0x0400, 1. / 16384 },
	{ "f16 smallest", ATTUNE_F16, 0x0001, 1. / 16777216 },
	{ "f16 minus infinity", ATTUNE_F16, 0xfc00, -INFINITY },
	{ "bf16 one", ATTUNE_BF16, 0x3f80, 1 },
	{ "bf16 -2.5", ATTUNE_BF16, 0xc020, -2.5 },
	{ "bf16 1 + 1/128", ATTUNE_BF16, 0x3f81, 1.0078125 },
	{ "bf16 infinity", ATTUNE_BF16, 0x7f80, INFINITY },
	{ "f32 1.5", ATTUNE_F32, 0x3fc00000, 1.5 },
};

static void decoding(void **state)
{
	const struct encoded *e = *state;
	const uint16_t half[2] = { 0, (uint16_t)e->bits };
	const uint32_t word[2] = { 0, e->bits };
	const void *base = e->dtype == ATTUNE_F32 ? (const void *)word : half;
	assert_true(value_of(e->dtype, base, 1) == e->value);
	assert_true(value_of(e->dtype, base, 0) == 0);
}

static void decoding_nan(void **state)
{
	const uint16_t f16 = 0x7e01, bf16 = 0xffc1;
	(void)state;
	assert_true(isnan(value_of(ATTUNE_F16, &f16, 0)));
	assert_true(isnan(value_of(ATTUNE_BF16, &bf16, 0)));
}

/* 16-bit patterns that a float rounds to: nearest, ties to even. */
static const struct rounded {
	const char *name;
	enum attune_dtype dtype;
	float value;
	unsigned bits;
} rounded[] = {
	{ "f16 zero", ATTUNE_F16, 0, 0 },
	{ "f16 minus zero", ATTUNE_F16, -0.f, 0x8000 },
	{ "bf16 zero", ATTUNE_BF16, 0, 0 },
	{ "f16 tie down to even", ATTUNE_F16, 2049, 0x6800 },
	{ "f16 tie up to even", ATTUNE_F16, 2051, 0x6802 },
	{ "f16 carry into the exponent", ATTUNE_F16, -4095.f, 0xec00 },
	{ "f16 last finite", ATTUNE_F16, 65519, 0x7bff },
	{ "f16 overflow", ATTUNE_F16, 65520, 0x7c00 },
	{ "f16 subnormal tie to zero", ATTUNE_F16, 0x1p-25f, 0 },
	{ "f16 subnormal", ATTUNE_F16, 0x1.8p-25f, 1 },
	{ "f16 largest subnormal rounds to normal", ATTUNE_F16, 0x1.ffep-15f, 0x0400 },
	{ "f16 exact subnormal", ATTUNE_F16, -0x1p-15f, 0x8200 },
	{ "bf16 tie down to even", ATTUNE_BF16, 257, 0x4380 },
	{ "bf16 tie up to even", ATTUNE_BF16, 259, 0x4382 },
	{ "bf16 carry into the exponent", ATTUNE_BF16, 511, 0x4400 },
	{ "bf16 infinity stays", ATTUNE_BF16, -INFINITY, 0xff80 },
};

static void rounding(void **state)
{
	const struct rounded *r = *state;
	uint16_t bits[2] = { 0xbeef, 0xbeef };
	value_put(r->dtype, bits, 1, r->value);
	assert_int_equal(bits[1], r->bits);
	assert_int_equal(bits[0], 0xbeef);
	bits[0] = 0;
	value_put(r->dtype, bits, 0, NAN);
	assert_true(isnan(value_of(r->dtype, bits, 0)));
}

int main(void)
{
	struct CMUnitTest tests[2 + COUNT(encoded) + COUNT(rounded)] = {
		cmocka_unit_test(e4m3_values),
		cmocka_unit_test(decoding_nan),
	};
	size_t n = 2;
	for (size_t i = 0; i < COUNT(encoded); i++)
		tests[n++] = (struct CMUnitTest){ encoded[i].name, decoding, NULL, NULL,
						  (void *)(uintptr_t)&encoded[i] };
	for (size_t i = 0; i < COUNT(rounded); i++)
		tests[n++] = (struct CMUnitTest){ rounded[i].name, rounding, NULL, NULL,
						  (void *)(uintptr_t)&rounded[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("number_formats", tests, n, NULL, NULL);
}
