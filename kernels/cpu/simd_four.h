/* SPDX-License-Identifier: Apache-2.0 */
/* simd_four.h - the operations of simd.h in four lanes: NEON, or the compiler's vector extension if
 * the target has nothing wider. */
#ifndef ATTUNE_SIMD_FOUR_H
#define ATTUNE_SIMD_FOUR_H

#if !defined(SIMD_SCALAR) && defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t V;
enum { LANES = 4, ACCS = 16, MR = 8, NV = 2, EXP2_LEAST = -127 };

INLINE V v_fma(V a, V b, V c)
{
	return vfmaq_f32(c, a, b);
}

INLINE V v_max(V a, V b)
{
	return vmaxnmq_f32(a, b);
}

INLINE V v_min(V a, V b)
{
	return vminnmq_f32(a, b);
}

INLINE V v_round(V x)
{
	return vrndnq_f32(x);
}

INLINE V v_scale(V x, V n)
{
	int32x4_t e = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
	return x * vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}

INLINE V v_f16(const void *p, int n)
{
	(void)n;
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

INLINE void v_to_f16(void *p, V x, int n)
{
	(void)n;
	vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

#else
typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
enum { LANES = 4, ACCS = 8, MR = 4, NV = 2, EXP2_LEAST = -127 };

INLINE V v_fma(V a, V b, V c)
{
	return a * b + c;
}

INLINE V v_choose(VI which, V a, V b)
{
	return (V)((which & (VI)a) | (~which & (VI)b));
}

/* Returns b if the other is NaN. */
INLINE V v_max(V a, V b)
{
	return v_choose(a > b, a, b);
}

INLINE V v_min(V a, V b)
{
	return v_choose(a < b, a, b);
}

/* For |x| < 2^22: adding 1.5 x 2^23 leaves no room for a fraction. */
INLINE V v_round(V x)
{
	const V big = { 12582912, 12582912, 12582912, 12582912 };
	return (x + big) - big;
}

INLINE V v_scale(V x, V n)
{
	VI e = __builtin_convertvector(n, VI) + 127;
	return x * (V)(e << 23);
}

union word {
	uint32_t bits;
	float x;
};

/* Subnormals are whole multiples of 2^-24: as bits of a float they would count as zeros. */
INLINE float f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
	union word w = { .x = (float)(int)magnitude * 0x1p-24f };
	if (magnitude >= 0x400)
		w.bits = (magnitude << 13) + (magnitude < 0x7c00 ? 0x38000000 : 0x70000000);
	w.bits |= sign;
	return w.x;
}

/* Rounds by adding half of the last place kept, and its parity for ties. Below 2^-14 the sum with
 * 2^-1 leaves the bits in place. NaN stays NaN. */
INLINE uint16_t f32_to_f16(float x)
{
	union word w = { .x = x };
	const uint32_t sign = w.bits >> 16 & 0x8000;
	w.bits &= 0x7fffffff;
	if (w.bits > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (w.bits >= 0x47800000)
		return (uint16_t)(sign | 0x7c00);
	if (w.bits < 0x38800000) {
		w.x += 0.5f;
		return (uint16_t)(sign | (w.bits - 0x3f000000));
	}
	w.bits += 0xfff + (w.bits >> 13 & 1);
	return (uint16_t)(sign | (w.bits - 0x38000000) >> 13);
}

INLINE void v_to_f16(void *p, V x, int n)
{
	uint16_t h[4] = { f32_to_f16(x[0]), f32_to_f16(x[1]), f32_to_f16(x[2]), f32_to_f16(x[3]) };
	(void)n;
	memcpy(p, h, sizeof h);
}

INLINE V v_f16(const void *p, int n)
{
	uint16_t h[4];
	(void)n;
	memcpy(h, p, sizeof h);
	return (V){ f16_to_f32(h[0]), f16_to_f32(h[1]), f16_to_f32(h[2]), f16_to_f32(h[3]) };
}
#endif

INLINE V v_set(float x)
{
	return (V){ x, x, x, x };
}

INLINE V v_load(const float *p)
{
	V x;
	memcpy(&x, p, sizeof x);
	return x;
}

INLINE void v_store(float *p, V x)
{
	memcpy(p, &x, sizeof x);
}

INLINE float v_top(V x)
{
	float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
	return a > b ? a : b;
}

INLINE float v_sum(V x)
{
	return (x[0] + x[1]) + (x[2] + x[3]);
}

INLINE void v_transpose(V *r)
{
	V a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
	V b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
	V c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
	V d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
	r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
	r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
	r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
	r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

INLINE V v_sums(const V *a)
{
	V r[4] = { a[0], a[1], a[2], a[3] };
	v_transpose(r);
	return (r[0] + r[1]) + (r[2] + r[3]);
}

INLINE V v_f32(const void *p, int n)
{
	(void)n;
	return v_load(p);
}

typedef uint32_t BITS __attribute__((vector_size(16)));

INLINE V v_bf16(const void *p, int n)
{
	uint16_t h[4];
	(void)n;
	memcpy(h, p, sizeof h);
	return (V)((BITS){ h[0], h[1], h[2], h[3] } << 16);
}

INLINE void v_bf16_pair(const void *p, int n, V *even, V *odd)
{
	BITS x;
	(void)n;
	memcpy(&x, p, sizeof x);
	*even = (V)(x << 16);
	*odd = (V)(x & 0xffff0000u);
}
#endif
