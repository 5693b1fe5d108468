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

/* From 2^20 on a base is rounded by 2^-4 and more, and weights overflow with it. Scores of such a
 * row are subtracted before they are scaled. */
DEVICE int is_coarse(float base)
{
	return fabsf(base) >= 1048576.f;
}

#endif
