/* softmax.h - numbers that the softmax of every kernel needs: sinks, and the largest score of a
 * row in powers of two. */
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

/* All weights of a row have the factor that its base was rounded by, so that it cancels out. From 2^24
 * on it may be 2 and more, and they overflow: then the largest score is taken off all others before
 * they are scaled. Scores of that size are themselves not known better than to 1. */
DEVICE int is_coarse(float base)
{
	return fabsf(base) >= 16777216.f;
}

#endif
