/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_amd.h - implements gpu.h on AMD's CDNA GPUs: gfx90a, gfx942, gfx950. It uses only builtins of
 * clang, no header and no device library, so hipcc, hipRTC and plain clang compile the same text.
 * It uses no inline assembly, so the compiler places every wait.
 *
 * Matrix products are 16x16x16 with 16-bit operands and fp32 sums. Fragments of one wave, with
 * n = lane % 16 and g = lane / 16:
 *
 *   A 16x16  a[j] (n, 4 g + j)      B 16x16  b[j] (4 g + j, n)  (k, n)
 *   C 16x16  c[r] (4 g + r, n)
 *
 * So C of a product S^T = K Q^T, packed to 16 bits, is B of the next one, O^T = V^T P^T. */
#ifndef ATTUNE_GPU_AMD_H
#define ATTUNE_GPU_AMD_H

#include "gpu_types.h"

/* ---- built into CUDA and HIP, but not into clang ------------------------------------ */
#ifndef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __host__ __attribute__((host))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#endif

#define WARP 64
#define DEVICE __device__ __forceinline__

/* -DWAVES_PER_EU=2: the compiler limits registers so that a SIMD holds that many waves; 0: no
 * limit. */
#ifndef WAVES_PER_EU
#define WAVES_PER_EU 0
#endif
#if WAVES_PER_EU
#define WAVES_WANTED __attribute__((amdgpu_waves_per_eu(WAVES_PER_EU)))
#else
#define WAVES_WANTED
#endif
#define KERNEL(threads)                                                                \
	extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) \
	WAVES_WANTED void
/* the same; a unit, which has four SIMDs, runs at least so many blocks at a time */
#define KERNEL_BESIDE(threads, blocks)                                                    \
	extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads),   \
				  amdgpu_waves_per_eu(((threads) / WARP * (blocks) + 3) / 4))) void

struct amd_index {
	u32 x, y, z;
};
DEVICE amd_index amd_thread()
{
	return { __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
		 __builtin_amdgcn_workitem_id_z() };
}
DEVICE amd_index amd_block()
{
	return { __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
		 __builtin_amdgcn_workgroup_id_z() };
}
/* From code object version 5 on, the runtime adds arguments: first the block counts, then the block
 * sizes. */
DEVICE amd_index amd_grid()
{
	const u32 *counts = (const u32 *)__builtin_amdgcn_implicitarg_ptr();
	return { counts[0], counts[1], counts[2] };
}
DEVICE amd_index amd_block_size()
{
	const unsigned short *sizes =
		(const unsigned short *)((const u32 *)__builtin_amdgcn_implicitarg_ptr() + 3);
	return { sizes[0], sizes[1], sizes[2] };
}
#define threadIdx (amd_thread())
#define blockIdx  (amd_block())
#define gridDim	  (amd_grid())
#define blockDim  (amd_block_size())

#ifndef __HIPCC_RTC__
struct alignas(8) float2 {
	float x, y;
};
DEVICE float2 make_float2(float x, float y)
{
	return { x, y };
}

DEVICE int min(int a, int b)
{
	return a < b ? a : b;
}
DEVICE int max(int a, int b)
{
	return a > b ? a : b;
}
DEVICE u32 min(u32 a, u32 b)
{
	return a < b ? a : b;
}
DEVICE u32 max(u32 a, u32 b)
{
	return a > b ? a : b;
}
DEVICE long long min(long long a, long long b)
{
	return a < b ? a : b;
}
DEVICE long long max(long long a, long long b)
{
	return a > b ? a : b;
}
DEVICE float __int_as_float(int x)
{
	return __builtin_bit_cast(float, x);
}
DEVICE float __uint_as_float(u32 x)
{
	return __builtin_bit_cast(float, x);
}
DEVICE u32 __float_as_uint(float x)
{
	return __builtin_bit_cast(u32, x);
}
DEVICE u32 __umulhi(u32 a, u32 b)
{
	return (unsigned long long)a * b >> 32;
}
#define fmaxf(a, b)   __builtin_fmaxf(a, b)
#define fminf(a, b)   __builtin_fminf(a, b)
#define fmaf(a, b, c) __builtin_fmaf(a, b, c)

/* Makes earlier writes visible to the block's other threads. */
DEVICE void __syncthreads()
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void __threadfence()
{
	__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
}
template <class T, class U> DEVICE T atomicAdd(T *p, U v)
{
	return __hip_atomic_fetch_add(p, (T)v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T, class U> DEVICE T atomicMin(T *p, U v)
{
	return __hip_atomic_fetch_min(p, (T)v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
#endif

#define __fdividef(a, b) ((a) * __builtin_amdgcn_rcpf(b))

/* ---- lanes and blocks ------------------------------------------------------------- */

/* The CU that this block runs on, a number below 1024 made of die, shader engine and CU. */
DEVICE u32 sm_id()
{
	/* s_getreg: register, first bit, bits - 1. HW_ID (4): CU_ID 8..11, SH_ID 12, SE_ID
	 * 13..15; XCC_ID (20): 0..3, where there are several dies. */
	const u32 place = __builtin_amdgcn_s_getreg(4 | 8 << 6 | (8 - 1) << 11);
#if defined(__gfx90a__)
	return place;
#else
	return place & 0x7f | (__builtin_amdgcn_s_getreg(20 | 0 << 6 | (4 - 1) << 11) & 7) << 7;
#endif
}

/* Only for the threads of one wave: AMD has no barrier for other parts of a block. A wave runs in
 * lockstep, and its own writes are visible. */
DEVICE void barrier(int /* id */, int /* threads: WARP */)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
	__builtin_amdgcn_wave_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

DEVICE int __syncthreads_or(int is)
{
	__shared__ int any;
	__syncthreads(); /* the previous answer has been read */
	if (!amd_thread().x)
		any = 0;
	__syncthreads();
	if (is)
		any = 1;
	__syncthreads();
	return any;
}

/* of all lanes of the wave, which must all be here */
DEVICE int shfl(int v, int lane)
{
	return __builtin_amdgcn_ds_bpermute(lane * 4, v);
}

DEVICE float shfl(float v, int lane)
{
	return __builtin_bit_cast(float, shfl(__builtin_bit_cast(int, v), lane));
}

DEVICE float shfl_xor(float v, int mask)
{
	return shfl(v, (int)(amd_thread().x % WARP) ^ mask);
}

DEVICE int shfl_xor(int v, int mask)
{
	return shfl(v, (int)(amd_thread().x % WARP) ^ mask);
}

/* tells the compiler that all lanes of the wave have this value */
DEVICE int uniform(int v)
{
	return __builtin_amdgcn_readfirstlane(v);
}

DEVICE u32 shfl_xor(u32 v, int mask)
{
	return (u32)shfl_xor((int)v, mask);
}

/* the value of the lane `far` below; the first `far` lanes keep theirs */
DEVICE int shfl_up(int v, int far)
{
	const int lane = amd_thread().x % WARP;
	return shfl(v, lane < far ? lane : lane - far);
}

/* ---- numbers ------------------------------------------------------------------------ */

DEVICE float exp2_fast(float x) /* about 1 ulp; 0 for -infinity */
{
	return __builtin_amdgcn_exp2f(x);
}

#if DTYPE == BF16
typedef __bf16 half_type;
DEVICE float to_float(half16 h)
{
	return __uint_as_float((u32)h << 16);
}
#else
typedef _Float16 half_type;
DEVICE float to_float(half16 h)
{
	return (float)__builtin_bit_cast(_Float16, h);
}
#endif

/* two values, rounded to nearest even, the first in the low half */
DEVICE u32 pack2(float lo, float hi)
{
	const half_type l = (half_type)lo, h = (half_type)hi;
	return __builtin_bit_cast(half16, l) | (u32)__builtin_bit_cast(half16, h) << 16;
}

/* The same for finite values, faster: rounds halves up and does not check for NaN. */
DEVICE u32 pack2_fast(float lo, float hi)
{
#if DTYPE == BF16 && !defined(__gfx950__)
	return __builtin_amdgcn_perm(__float_as_uint(hi) + 0x8000, __float_as_uint(lo) + 0x8000,
				     0x07060302);
#else
	return pack2(lo, hi);
#endif
}

/* ---- pieces of memory ----------------------------------------------------------------- */

typedef u32 u32x2 __attribute__((vector_size(8)));
typedef u32 u32x4 __attribute__((vector_size(16)));

/* 8, 4, 2 or 1 values, in as many halves of the result; streamed: caches need not keep them */
template <int streamed> DEVICE u32x4 load_halves(const void *p, int n)
{
	u32x4 x = {};
	if (n == 8)
		x = streamed ? __builtin_nontemporal_load((const u32x4 *)p) : *(const u32x4 *)p;
	if (n == 4) {
		const u32x2 y = streamed ? __builtin_nontemporal_load((const u32x2 *)p) :
					   *(const u32x2 *)p;
		x[0] = y[0];
		x[1] = y[1];
	}
	if (n == 2)
		x[0] = streamed ? __builtin_nontemporal_load((const u32 *)p) : *(const u32 *)p;
	if (n == 1)
		x[0] = *(const half16 *)p;
	return x;
}

/* packs the first values of both pairs; the second values */
DEVICE u32 pair_firsts(u32 a, u32 b)
{
	return __builtin_amdgcn_perm(b, a, 0x05040100);
}

DEVICE u32 pair_seconds(u32 a, u32 b)
{
	return __builtin_amdgcn_perm(b, a, 0x07060302);
}

/* ---- matrices ------------------------------------------------------------------------- */

typedef float float4v __attribute__((vector_size(16)));
typedef short short4v __attribute__((vector_size(8)));
typedef _Float16 half4v __attribute__((vector_size(8)));

/* c + a b; operands are four 16-bit values each */
DEVICE float4v mfma(u32x2 a, u32x2 b, float4v c)
{
#if DTYPE == BF16
	return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(short4v, a),
							 __builtin_bit_cast(short4v, b), c, 0, 0, 0);
#else
	return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(half4v, a),
						     __builtin_bit_cast(half4v, b), c, 0, 0, 0);
#endif
}

#endif
