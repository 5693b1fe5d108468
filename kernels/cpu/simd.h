/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h - the vector operations of the CPU kernels: a type V of LANES floats and about twenty
 * functions, implemented for each instruction set. The compiler's flags set the target; neither
 * simd.h nor a kernel dispatches.
 *
 *   v_set v_load v_store v_fma v_max v_min v_round v_scale
 *   v_top v_sum          the largest lane, the sum of the lanes
 *   v_sums(a)            lane i = sum of a[i], for LANES vectors
 *   v_transpose(r)       r[i][j] <-> r[j][i]
 *   v_f32 v_f16 v_bf16   n elements of that type in order, then zeros
 *   v_bf16_pair          2 x LANES elements as even and odd ones: two operations
 *                        instead of six
 *   v_to_f16 v_to_bf16   the first n lanes as elements, rounded to nearest even
 *
 * n is a constant, 8 or LANES (pair: any multiple of 8). + - * are the language's.
 * ACCS: accumulators of a product that fit in registers with its operands.
 * MR x NV: rows and vectors of the register block of a matrix product. Compilers keep the MR
 * factors of a step in registers too (12 on NEON spilled). */
#ifndef ATTUNE_SIMD_H
#define ATTUNE_SIMD_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
/* A fully unrolled loop, so that the arrays it indexes stay in registers. */
#define foreach(i, n) _Pragma("GCC unroll 32") for (int i = 0; i < (n); i++)

#if defined(SIMD_SCALAR)
#include "simd_four.h"
#elif defined(__AVX512F__)
#include "simd_avx512.h"
#elif defined(__AVX2__)
#include "simd_avx2.h"
#else
#include "simd_four.h"
#endif

/* ---- the same for all --------------------------------------------------------- */

INLINE void v_to_bf16(void *p, V x, int n)
{
	uint32_t bits[LANES];
	uint16_t h[LANES];
	memcpy(bits, &x, sizeof x);
	for (int i = 0; i < LANES; i++) {
		uint32_t round = 0x7fff + (bits[i] >> 16 & 1);
		int nan = (bits[i] & 0x7fffffff) > 0x7f800000;
		h[i] = (uint16_t)(nan ? 0x7fc0 : (bits[i] + round) >> 16);
	}
	memcpy(p, h, (size_t)n * sizeof *h);
}

/* 2^x for x <= 127, relative error below 3e-7; 0 below 2^-126, also for -inf. */
INLINE V v_exp2(V x)
{
	x = v_max(x, v_set(EXP2_LEAST));
	const V n = v_round(x), f = x - n;
	V p = v_set(1.3534167e-3f);
	p = v_fma(p, f, v_set(9.6184373e-3f));
	p = v_fma(p, f, v_set(5.5503324e-2f));
	p = v_fma(p, f, v_set(2.4022652e-1f));
	p = v_fma(p, f, v_set(6.9314718e-1f));
	p = v_fma(p, f, v_set(1));
	return v_scale(p, n);
}

INLINE float exp2_of(float x)
{
	float lane[LANES];
	v_store(lane, v_exp2(v_set(x)));
	return lane[0];
}

/* tanh(x) = 1 - 2 / (e^2x + 1); the argument is cut where the result is 1. */
INLINE V v_tanh(V x)
{
	x = v_max(v_min(x, v_set(10)), v_set(-10));
	return v_set(1) - v_set(2) / (v_exp2(x * v_set(2.88539008f)) + v_set(1));
}

#endif
