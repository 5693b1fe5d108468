/* simd.h - the dialect of the CPU kernels: one vector type V of LANES floats and
 * some twenty verbs, once for each instruction set. The target comes from the
 * compiler's flags; there is no dispatch, here or in kernels.
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
 * ACCS: accumulators that a product may hold in registers beside its operands.
 * MR x NV: rows and vectors of the register block of a matrix product; a compiler
 * keeps the MR factors of a step in registers too (12 on NEON spilled). */
#ifndef ATTUNE_SIMD_H
#define ATTUNE_SIMD_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
/* A loop that is unrolled as a whole, so that arrays it indexes stay in registers. */
#define foreach(i, n) _Pragma("GCC unroll 32") for (int i = 0; i < (n); i++)

#if !defined(SIMD_SCALAR) && defined(__AVX512F__)
/* ---- AVX-512 F DQ BW VL ------------------------------------------------------ */
#include <immintrin.h>
typedef __m512 V;
enum { LANES = 16, ACCS = 16, MR = 12, NV = 2, EXP2_LEAST = -151 };

INLINE V v_set(float x)
{
	return _mm512_set1_ps(x);
}

INLINE V v_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

INLINE void v_store(float *p, V x)
{
	_mm512_storeu_ps(p, x);
}

INLINE V v_fma(V a, V b, V c)
{
	return _mm512_fmadd_ps(a, b, c);
}

INLINE V v_max(V a, V b)
{
	return _mm512_max_ps(a, b);
}

INLINE V v_min(V a, V b)
{
	return _mm512_min_ps(a, b);
}

INLINE V v_round(V x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n */
INLINE V v_scale(V x, V n)
{
	return _mm512_scalef_ps(x, n);
}

INLINE float v_top(V x)
{
	return _mm512_reduce_max_ps(x);
}

INLINE float v_sum(V x)
{
	return _mm512_reduce_add_ps(x);
}

#define PD(x) _mm512_castps_pd(x)
#define LO64(a, b) _mm512_castpd_ps(_mm512_unpacklo_pd(PD(a), PD(b)))
#define HI64(a, b) _mm512_castpd_ps(_mm512_unpackhi_pd(PD(a), PD(b)))
#define QUARTERS(a, b, i) _mm512_shuffle_f32x4(a, b, i)

INLINE V v_sums(const V *a)
{
	V t[8], u[4];
	foreach (i, 8)
		t[i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]) +
		       _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
	foreach (i, 4)
		u[i] = LO64(t[2 * i], t[2 * i + 1]) + HI64(t[2 * i], t[2 * i + 1]);
	V x = QUARTERS(u[0], u[1], 0x44) + QUARTERS(u[0], u[1], 0xee);
	V y = QUARTERS(u[2], u[3], 0x44) + QUARTERS(u[2], u[3], 0xee);
	return QUARTERS(x, y, 0x88) + QUARTERS(x, y, 0xdd);
}

INLINE void v_transpose(V *r)
{
	V t[16];
	foreach (i, 8) {
		t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
		t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
	}
	/* r[4 i + j], quarter q = rows 4 i .. 4 i + 3 of column 4 q + j */
	foreach (j, 4) {
		const int i = 4 * j;
		r[i] = LO64(t[i], t[i + 2]);
		r[i + 1] = HI64(t[i], t[i + 2]);
		r[i + 2] = LO64(t[i + 1], t[i + 3]);
		r[i + 3] = HI64(t[i + 1], t[i + 3]);
	}
	foreach (j, 4) {
		V a = QUARTERS(r[j], r[4 + j], 0x88), b = QUARTERS(r[j], r[4 + j], 0xdd);
		V c = QUARTERS(r[8 + j], r[12 + j], 0x88), d = QUARTERS(r[8 + j], r[12 + j], 0xdd);
		t[j] = QUARTERS(a, c, 0x88);
		t[8 + j] = QUARTERS(a, c, 0xdd);
		t[4 + j] = QUARTERS(b, d, 0x88);
		t[12 + j] = QUARTERS(b, d, 0xdd);
	}
	foreach (i, 16)
		r[i] = t[i];
}

INLINE V v_f32(const void *p, int n)
{
	return n == LANES ? _mm512_loadu_ps(p) : _mm512_zextps256_ps512(_mm256_loadu_ps(p));
}

INLINE V v_f16(const void *p, int n)
{
	return n == LANES ? _mm512_cvtph_ps(_mm256_loadu_si256(p))
			  : _mm512_zextps256_ps512(_mm256_cvtph_ps(_mm_loadu_si128(p)));
}

INLINE V v_bf16(const void *p, int n)
{
	__m256i x = n == LANES ? _mm256_loadu_si256(p) : _mm256_zextsi128_si256(_mm_loadu_si128(p));
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

INLINE void v_to_f16(void *p, V x, int n)
{
	__m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	if (n == LANES)
		_mm256_storeu_si256(p, h);
	else
		_mm_storeu_si128(p, _mm256_castsi256_si128(h));
}

INLINE void v_bf16_pair(const void *p, int n, V *even, V *odd)
{
	__m512i x = n == 2 * LANES ? _mm512_loadu_si512(p)
				   : _mm512_maskz_loadu_epi16((1u << (n & 31)) - 1, p);
	*even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
	*odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536)));
}

#elif !defined(SIMD_SCALAR) && defined(__AVX2__)
/* ---- AVX2 FMA F16C ------------------------------------------------------------ */
#include <immintrin.h>
typedef __m256 V;
enum { LANES = 8, ACCS = 8, MR = 6, NV = 2, EXP2_LEAST = -127 };

INLINE V v_set(float x)
{
	return _mm256_set1_ps(x);
}

INLINE V v_load(const float *p)
{
	return _mm256_loadu_ps(p);
}

INLINE void v_store(float *p, V x)
{
	_mm256_storeu_ps(p, x);
}

INLINE V v_fma(V a, V b, V c)
{
	return _mm256_fmadd_ps(a, b, c);
}

INLINE V v_max(V a, V b)
{
	return _mm256_max_ps(a, b);
}

INLINE V v_min(V a, V b)
{
	return _mm256_min_ps(a, b);
}

INLINE V v_round(V x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n, and 0 for n = -127 */
INLINE V v_scale(V x, V n)
{
	__m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
	return x * _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

INLINE V v_sums(const V *a)
{
	V x = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
	V y = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
	return _mm256_permute2f128_ps(x, y, 0x20) + _mm256_permute2f128_ps(x, y, 0x31);
}

INLINE float v_top(V x)
{
	x = _mm256_max_ps(x, _mm256_permute2f128_ps(x, x, 1));
	x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4e));
	return _mm256_cvtss_f32(_mm256_max_ps(x, _mm256_permute_ps(x, 0xb1)));
}

INLINE float v_sum(V x)
{
	x += _mm256_permute2f128_ps(x, x, 1);
	x += _mm256_permute_ps(x, 0x4e);
	return _mm256_cvtss_f32(x + _mm256_permute_ps(x, 0xb1));
}

INLINE void v_transpose(V *r)
{
	V t[8], u[8];
	foreach (j, 4) {
		const int i = 2 * j;
		t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
		t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
	}
	/* u[4 i + j], half h = rows 4 i .. 4 i + 3 of column 4 h + j */
	foreach (j, 2) {
		const int i = 4 * j;
		u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
		u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
		u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
		u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
	}
	foreach (j, 4) {
		r[j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
		r[4 + j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
	}
}

INLINE V v_f32(const void *p, int n)
{
	(void)n;
	return _mm256_loadu_ps(p);
}

INLINE V v_f16(const void *p, int n)
{
	(void)n;
	return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE V v_bf16(const void *p, int n)
{
	(void)n;
	__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
	return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

INLINE void v_to_f16(void *p, V x, int n)
{
	(void)n;
	_mm_storeu_si128(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE void v_bf16_pair(const void *p, int n, V *even, V *odd)
{
	__m256i x =
	    n == 2 * LANES ? _mm256_loadu_si256(p) : _mm256_zextsi128_si256(_mm_loadu_si128(p));
	*even = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
	*odd = _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-65536)));
}

#else
/* ---- four lanes: NEON, or the compiler's own vectors -------------------------- */
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

/* Of a NaN and b: b. */
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

/* Sign and magnitude apart; the magnitude's exponent is rebased by a product,
 * which also makes subnormals right. */
INLINE float f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	union word w = { (uint32_t)(h & 0x7fff) << 13 };
	if (w.bits >= 0x7c00u << 13)
		w.bits |= 0x7f800000;
	else
		w.x *= 0x1p112f;
	w.bits |= sign;
	return w.x;
}

/* Rounds by adding half of the last place kept, and its parity for ties; below
 * 2^-14 the sum with 2^-1 leaves the bits in place; NaN stays one. */
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
