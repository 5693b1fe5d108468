/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - what NVRTC gives device code without any include, on top of simt.h. */
#ifndef TESTS_SIMT_CUDA_H
#define TESTS_SIMT_CUDA_H

#include "../simt.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("simt_shared")))
#define __builtin_assume(x) ((void)0)
#define __trap() simt_die("__trap()")

#define threadIdx (simt_now->thread)
#define blockIdx (simt_now->block)
#define gridDim simt_grid
#define blockDim simt_block
#define warpSize 32
#define clock() ((int)simt_clock())
#define clock64() simt_clock()

typedef unsigned int uint;

#define VECTOR(type, name, align)                                            \
	struct __attribute__((aligned(align / 2))) name##2                   \
	{                                                                    \
		type x, y;                                                   \
	};                                                                   \
	struct name##3                                                       \
	{                                                                    \
		type x, y, z;                                                \
	};                                                                   \
	struct __attribute__((aligned(align))) name##4                       \
	{                                                                    \
		type x, y, z, w;                                             \
	};                                                                   \
	static inline name##2 make_##name##2(type x, type y)                 \
	{                                                                    \
		return { x, y };                                             \
	}                                                                    \
	static inline name##4 make_##name##4(type x, type y, type z, type w) \
	{                                                                    \
		return { x, y, z, w };                                       \
	}
VECTOR(float, float, 16)
VECTOR(int, int, 16)
VECTOR(unsigned, uint, 16)
VECTOR(short, short, 8)
VECTOR(unsigned short, ushort, 8)
VECTOR(unsigned char, uchar, 4)
VECTOR(long long, longlong, 16)
VECTOR(unsigned long long, ulonglong, 16)
#undef VECTOR

/* ---- numbers ---------------------------------------------------------------- */

#define MIN_MAX(type, a, b)                                   \
	static inline type min(a x, b y)                      \
	{                                                     \
		return (type)x < (type)y ? (type)x : (type)y; \
	}                                                     \
	static inline type max(a x, b y)                      \
	{                                                     \
		return (type)x > (type)y ? (type)x : (type)y; \
	}
MIN_MAX(int, int, int)
MIN_MAX(unsigned, unsigned, unsigned)
MIN_MAX(unsigned, int, unsigned)
MIN_MAX(unsigned, unsigned, int)
MIN_MAX(long long, long long, long long)
MIN_MAX(long, long, long)
MIN_MAX(unsigned long, unsigned long, unsigned long)
MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
#undef MIN_MAX
static inline float min(float x, float y)
{
	return fminf(x, y);
}
static inline float max(float x, float y)
{
	return fmaxf(x, y);
}

template <class To, class From> static inline To simt_bits(From from)
{
	To to;
	static_assert(sizeof to == sizeof from, "the same bits");
	memcpy(&to, &from, sizeof to);
	return to;
}
static inline float __int_as_float(int x)
{
	return simt_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
	return simt_bits<float>(x);
}
static inline int __float_as_int(float x)
{
	return simt_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
	return simt_bits<unsigned>(x);
}
static inline double __longlong_as_double(long long x)
{
	return simt_bits<double>(x);
}
static inline long long __double_as_longlong(double x)
{
	return simt_bits<long long>(x);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (uint64_t)a * b >> 32;
}
static inline int __mulhi(int a, int b)
{
	return (int)((int64_t)a * b >> 32);
}
/* A byte of x and y, 0 to 7, for each hexadecimal digit of s, the last one the lowest */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s)
{
	const uint64_t both = (uint64_t)y << 32 | x;
	unsigned out = 0;
	for (int i = 0; i < 4; i++)
		out |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
	return out;
}
static inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
	return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x)
{
	return __builtin_ffs(x);
}
/* Nothing is fused here: -ffp-contract=off */
static inline float __fmul_rn(float a, float b)
{
	return a * b;
}

static inline float __fdividef(float a, float b)
{
	return a / b;
}
static inline float __frcp_rn(float x)
{
	return 1 / x;
}
#define __expf(x) expf(x)   /* libc has the name, too */
#define __logf(x) logf(x)   /* libc has the name, too */
#define __log2f(x) log2f(x) /* libc has the name, too */
static inline float __saturatef(float x)
{
	return fminf(fmaxf(x, 0), 1);
}
static inline float rsqrtf(float x)
{
	return 1 / sqrtf(x);
}
template <class T> static inline T __ldg(const T *p)
{
	return *p;
}
template <class T> static inline T __ldcg(const T *p)
{
	return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
	return *p;
}
template <class T> static inline void __stcg(T *p, T v)
{
	*p = v;
}
template <class T> static inline void __stcs(T *p, T v)
{
	*p = v;
}

/* ---- lanes of a warp ----------------------------------------------------------- */

static inline void __syncwarp(unsigned mask = ~0u)
{
	simt_meet(SIMT_SYNCWARP, mask, NULL);
}

template <class T> static inline T simt_from_lane(unsigned mask, T v, int from)
{
	struct simt_shuffle s = { 0, 0, from };
	static_assert(sizeof v <= sizeof s.in, "a shuffle moves 4 or 8 bytes");
	memcpy(&s.in, &v, sizeof v);
	simt_meet(SIMT_SHUFFLE, mask, &s);
	memcpy(&v, &s.out, sizeof v);
	return v;
}
/* Lanes are cut into groups of `width`; a lane beyond the group's end stays with its own. */
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
	return simt_from_lane(mask, v, (simt_now->lane & -width) + (from & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32)
{
	const int from = simt_now->lane ^ bits, end = (simt_now->lane & -width) + width;
	return simt_from_lane(mask, v, from < end ? from : simt_now->lane);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned n, int width = 32)
{
	const int from = simt_now->lane - (int)n;
	return simt_from_lane(mask, v, from >= (simt_now->lane & -width) ? from : simt_now->lane);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned n, int width = 32)
{
	const int from = simt_now->lane + (int)n, end = (simt_now->lane & -width) + width;
	return simt_from_lane(mask, v, from < end ? from : simt_now->lane);
}

static inline struct simt_vote simt_ask(unsigned mask, uint64_t in)
{
	struct simt_vote v = {};
	v.in = in;
	simt_meet(SIMT_VOTE, mask, &v);
	return v;
}
static inline unsigned __ballot_sync(unsigned mask, int is)
{
	const struct simt_vote v = simt_ask(mask, is != 0);
	unsigned set = 0;
	for (int l = 0; l < 32; l++)
		set |= (unsigned)v.all[l] << l;
	return set;
}
static inline int __any_sync(unsigned mask, int is)
{
	return __ballot_sync(mask, is) != 0;
}
static inline int __all_sync(unsigned mask, int is)
{
	return !__ballot_sync(mask, !is);
}
static inline unsigned __match_any_sync(unsigned mask, unsigned value)
{
	const struct simt_vote v = simt_ask(mask, value);
	unsigned set = 0;
	for (int l = 0; l < 32; l++)
		set |= (unsigned)(v.present >> l & (v.all[l] == value)) << l;
	return set;
}
#define REDUCE(name, type, start, step)                                      \
	static inline type __reduce_##name##_sync(unsigned mask, type value) \
	{                                                                    \
		const struct simt_vote v = simt_ask(mask, (uint64_t)value);  \
		type r = start;                                              \
		for (int l = 0; l < 32; l++) {                               \
			const type x = (type)v.all[l];                       \
			if (v.present >> l & 1)                              \
				r = step;                                    \
		}                                                            \
		return r;                                                    \
	}
REDUCE(add, int, 0, r + x)
REDUCE(max, int, (int)0x80000000, max(r, x))
REDUCE(min, int, 0x7fffffff, min(r, x))
REDUCE(add, unsigned, 0, r + x)
REDUCE(max, unsigned, 0, max(r, x))
REDUCE(min, unsigned, ~0u, min(r, x))
REDUCE(or, unsigned, 0, r | x)
REDUCE(and, unsigned, ~0u, r &x)
#undef REDUCE

/* ---- threads of a block, and beyond --------------------------------------------- */

static inline void __syncthreads()
{
	simt_barrier(0, 0, 0);
}
static inline int __syncthreads_or(int is)
{
	return simt_barrier(0, 0, is != 0) != 0;
}
static inline int __syncthreads_and(int is)
{
	return simt_barrier(0, 0, is == 0) == 0;
}
static inline int __syncthreads_count(int is)
{
	return (int)simt_barrier(0, 0, is != 0);
}

#define FENCE __asm__ volatile("" ::: "memory")
static inline void __threadfence_block()
{
	FENCE;
}
static inline void __threadfence()
{
	FENCE;
}
static inline void __threadfence_system()
{
	FENCE;
}
static inline void __nanosleep(unsigned)
{
	FENCE;
	simt_pause();
	FENCE;
}

/* One thread runs at a time. Others go before an access to device memory, so that blocks
 * take turns at counters as they do on a GPU. */
#define ATOMIC(name, next)                                              \
	template <class T, class U> static inline T name(T *p, U value) \
	{                                                               \
		FENCE;                                                  \
		if (!simt_is_shared((const void *)p))                   \
			simt_pause();                                   \
		const T old = *(volatile T *)p, v = (T)value;           \
		(void)v;                                                \
		*(volatile T *)p = next;                                \
		FENCE;                                                  \
		return old;                                             \
	}
ATOMIC(atomicAdd, old + v)
ATOMIC(atomicSub, old - v)
ATOMIC(atomicExch, v)
ATOMIC(atomicMax, old > v ? old : v)
ATOMIC(atomicMin, old < v ? old : v)
ATOMIC(atomicAnd, old &v)
ATOMIC(atomicOr, old | v)
ATOMIC(atomicXor, old ^ v)
ATOMIC(atomicInc, old >= v ? 0 : old + 1)
ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef ATOMIC
template <class T, class U, class V> static inline T atomicCAS(T *p, U expected, V value)
{
	FENCE;
	if (!simt_is_shared((const void *)p))
		simt_pause();
	const T old = *(volatile T *)p;
	if (old == (T)expected)
		*(volatile T *)p = (T)value;
	FENCE;
	return old;
}

static inline size_t __cvta_generic_to_shared(const void *p)
{
	return simt_shared_address(p);
}
static inline void *__cvta_shared_to_generic(size_t address)
{
	return simt_shared_pointer((uint32_t)address, 1);
}

#endif
