/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.h - numbers of the softmax of every kernel: sinks, and the exponents of weights in log2
 * units. */
#ifndef ATTUNE_GPU_SOFTMAX_H
#define ATTUNE_GPU_SOFTMAX_H

#include "gpu.h"

#define LARGEST 3.402823466e38f /* finite float */
#if defined(__AMDGCN__) && !defined(__HIPCC_RTC__)
#define fabsf(x) __builtin_fabsf(x)
#endif

/* The logit of a head's sink in powers of two. Sinks of up to LARGEST stay finite: infinity minus
 * infinity is NaN. */
DEVICE float sink_of(const attune_args &a, int head)
{
	return fminf(fmaxf(a.sinks[head] * LOG2E, -LARGEST), LARGEST);
}

/* x * y, rounded before it is added to anything. The base that weights are counted from is such a
 * product. It must have the same bits wherever it is computed: a compiler that fuses one of the
 * products with a subtraction makes 2^(base - base) differ from 1. */
DEVICE float rounded_product(float x, float y)
{
#ifdef __AMDGCN__
#pragma clang fp contract(off)
	return x * y;
#else
	return __fmul_rn(x, y);
#endif
}

/* Weights of a row are 2^(score * unit - base), at most 2^shift at the row's largest score `top`.
 * Rounding the base gives all of them the same factor, which cancels. From `coarse` on (0: never)
 * the factor may be so large that weights overflow. Scores are then so far apart that those below
 * the largest weigh next to nothing, so the unit may be a power of two, which makes the base
 * exact. */
struct exponent {
	float unit, base;
};

#define COARSE_16BIT 268435456.f /* 2^28, of weights of up to 1: rounded by up to 2^4 */

DEVICE float power_above(float x)
{
	return __uint_as_float((__float_as_uint(x) + 0x7fffff) & 0x7f800000);
}

DEVICE exponent exponent_of(float top, float unit, float coarse, float shift)
{
	const float product = rounded_product(top, unit);
	exponent x = { unit, product - shift };
	if (coarse > 0 && fabsf(product) >= coarse) {
		x.unit = power_above(unit);
		x.base = top * x.unit - shift;
	}
	return x;
}

/* The factor of the weights of earlier tiles; `top` is the row's largest score there. */
DEVICE float fade_of(const exponent &x, float top, float shift)
{
	return exp2_fast(rounded_product(top, x.unit) - shift - x.base);
}

DEVICE float weight_of(const exponent &x, float score)
{
	return exp2_fast(fmaf(score, x.unit, -x.base));
}

#endif
