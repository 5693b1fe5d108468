/* SPDX-License-Identifier: Apache-2.0 */
/* simd_avx512.h - the operations of simd.h in AVX-512 F, DQ, BW, VL. */
#ifndef ATTUNE_SIMD_AVX512_H
#define ATTUNE_SIMD_AVX512_H

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
#endif
