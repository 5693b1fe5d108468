/* SPDX-License-Identifier: Apache-2.0 */
/* simd_avx2.h - the operations of simd.h in AVX2, FMA, F16C. */
#ifndef ATTUNE_SIMD_AVX2_H
#define ATTUNE_SIMD_AVX2_H

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
#endif
