/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - arithmetic that C lacks, by the manual of the instruction set. */
#include "machine.h"
#include <math.h>
#include <string.h>

uint32_t field(uint32_t value, uint32_t at, uint32_t bits)
{
	return value >> (at & 31) & ((1u << (bits & 31)) - 1);
}

uint32_t signed_field(uint32_t value, uint32_t at, uint32_t bits)
{
	const uint32_t n = bits & 31, part = field(value, at, n);
	return n && part >> (n - 1) ? part | ~0u << n : part;
}

uint32_t reversed(uint32_t x)
{
	uint32_t r = 0;
	for (int i = 0; i < 32; i++)
		r |= (x >> i & 1) << (31 - i);
	return r;
}

/* Of each bit: that one of the table's 8 which the bits of a, b and c name. */
uint32_t looked_up(uint32_t a, uint32_t b, uint32_t c, int table)
{
	uint32_t r = 0;
	for (int i = 0; i < 8; i++)
		if (table >> i & 1)
			r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	return r;
}

/* Each byte of `which` names one of the 8: 8..11 are the sign of the words of 16 bits, 12 is 0,
 * and more are 0xff. */
uint32_t permuted(uint64_t bytes, uint32_t which)
{
	uint32_t r = 0;
	for (int i = 0; i < 4; i++) {
		const unsigned k = which >> 8 * i & 255;
		const uint64_t byte = k < 8    ? bytes >> 8 * k & 255
				      : k < 12 ? (bytes >> (16 * (k - 8) + 15) & 1) * 255
				      : k > 12 ? 255
					       : 0;
		r |= (uint32_t)byte << 8 * i;
	}
	return r;
}

/* ---- floats --------------------------------------------------------------------------- */

uint16_t half_to_zero(float f)
{
	const uint16_t h = simt_to_half(f);
	const int is_beyond = fabsf(simt_from_half(h)) > fabsf(f); /* of infinity: the largest */
	return (uint16_t)(h - (is_beyond ? 1 : 0));
}

float normal(float f)
{
	return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f;
}

static int exponent(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits >> 23 & 255;
}

static int is_denormal(float f)
{
	return fpclassify(f) == FP_SUBNORMAL;
}

/* Of above / below, by steps: both are scaled so that nothing of it is denormal or too large;
 * the reciprocal is refined; the last step scales back. `value` is the one of the two asked for. */
float div_scale(float value, float below, float above, int *scaled)
{
	*scaled = 0;
	if (below == 0 || above == 0)
		return NAN;
	const int is_below = value == below, far = exponent(above) - exponent(below);
	if (far >= 96) {
		*scaled = 1;
		return is_below ? ldexpf(value, 64) : value;
	}
	if (is_denormal(below))
		return ldexpf(value, 64);
	const int small_reciprocal = is_denormal(1 / below);
	const int small_quotient = is_denormal((float)((double)above / below));
	if (small_reciprocal && small_quotient) {
		*scaled = 1;
		return is_below ? ldexpf(value, 64) : value;
	}
	if (small_reciprocal)
		return ldexpf(value, -64);
	if (small_quotient) {
		*scaled = 1;
		return value == above ? ldexpf(value, 64) : value;
	}
	return exponent(above) <= 23 ? ldexpf(value, 64) : value;
}

float div_fmas(float a, float b, float c, int scaled)
{
	const float r = fmaf(a, b, c);
	return scaled ? ldexpf(r, exponent(c) > 127 ? 64 : -64) : r;
}

float div_fixup(float quotient, float below, float above)
{
	const float sign = signbit(below) != signbit(above) ? -1.f : 1.f;
	if (above != above || below != below)
		return NAN;
	if ((below == 0 && above == 0) || (isinf(below) && isinf(above)))
		return NAN;
	if (below == 0 || isinf(above))
		return copysignf(INFINITY, sign);
	if (isinf(below) || above == 0)
		return copysignf(0, sign);
	return copysignf(quotient, sign);
}

uint32_t class_of(float f)
{
	const int negative = signbit(f) != 0;
	switch (fpclassify(f)) {
	case FP_NAN: return 2; /* a quiet one */
	case FP_INFINITE: return negative ? 1u << 2 : 1u << 9;
	case FP_NORMAL: return negative ? 1u << 3 : 1u << 8;
	case FP_SUBNORMAL: return negative ? 1u << 4 : 1u << 7;
	}
	return negative ? 1u << 5 : 1u << 6;
}
