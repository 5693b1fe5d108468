/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_nvidia.h - implements gpu.h on NVIDIA GPUs from sm_80 on.
 *
 * Matrix products are m16n8k16 with 16-bit operands and fp32 sums. Fragments of
 * one warp, with g = lane / 4 and c = 2 * (lane % 4):
 *
 *   A 16x16  a[0] (g, c..c+1)  a[1] (g+8, c..)  a[2] (g, c+8..)  a[3] (g+8, c+8..)
 *   B 16x8   b[0] (c..c+1, g)  b[1] (c+8.., g)                   (k, n)
 *   C 16x8   c[0] (g, c) c[1] (g, c+1) c[2] (g+8, c) c[3] (g+8, c+1) */
#ifndef ATTUNE_GPU_NVIDIA_H
#define ATTUNE_GPU_NVIDIA_H

#include "gpu_types.h"

#define WARP 32
#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads) void
/* the same; a unit runs at least so many blocks at a time */
#define KERNEL_BESIDE(threads, blocks) \
	extern "C" __global__ __launch_bounds__(threads, blocks) void
#define DEVICE __device__ __forceinline__

/* the SM that this block runs on */
DEVICE u32 sm_id()
{
	u32 id;
	asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
	return id;
}

/* for `threads` threads of a block, whole warps, at one of its barriers 1 to 15 */
DEVICE void barrier(int id, int threads)
{
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* of all lanes of the warp, which must all be here */
DEVICE float shfl_xor(float v, int mask)
{
	return __shfl_xor_sync(0xffffffffu, v, mask);
}

DEVICE int shfl_xor(int v, int mask)
{
	return __shfl_xor_sync(0xffffffffu, v, mask);
}

DEVICE u32 shfl_xor(u32 v, int mask)
{
	return __shfl_xor_sync(0xffffffffu, v, mask);
}

DEVICE float shfl(float v, int lane)
{
	return __shfl_sync(0xffffffffu, v, lane);
}

/* the value of the lane `far` below; the first `far` lanes keep theirs */
DEVICE int shfl_up(int v, int far)
{
	return __shfl_up_sync(0xffffffffu, v, far);
}

DEVICE float exp2_fast(float x) /* about 2 ulp; 0 for -infinity */
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

#if DTYPE == BF16
#define MMA_TYPES ".f32.bf16.bf16.f32"
#define PACK_TYPE "bf16x2"
DEVICE float to_float(half16 h)
{
	return __uint_as_float((u32)h << 16);
}
#else
#define MMA_TYPES ".f32.f16.f16.f32"
#define PACK_TYPE "f16x2"
DEVICE float to_float(half16 h)
{
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}
#endif

/* two values, rounded to nearest even, the first in the low half */
DEVICE u32 pack2(float lo, float hi)
{
	u32 r;
	asm("cvt.rn." PACK_TYPE ".f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

DEVICE void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col" MMA_TYPES
	    " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE u32 shared_address(const void *p)
{
	return (u32)__cvta_generic_to_shared(p);
}

/* four 8x8 matrices; lane l names row l % 8 of matrix l / 8 */
DEVICE void load_matrices(u32 (&r)[4], u32 address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(address)
		     : "memory");
}

DEVICE void load_matrices_transposed(u32 (&r)[4], u32 address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(address)
		     : "memory");
}

/* 16 bytes to shared memory past the registers; zeros when !valid (the source
 * is then not read) */
DEVICE void copy16_async(u32 dst, const void *src, int valid)
{
	const int bytes = valid ? 16 : 0;
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes)
		     : "memory");
}

/* The same with a hint. 1, 2: L2 fetches 128 or 256 bytes around it; 3: the lines are evicted
 * first; 0: none. */
template <int hint> DEVICE void copy16_hinted(u32 dst, const void *src, int valid)
{
	const int bytes = valid ? 16 : 0;
	unsigned long long policy;
	if (hint == 1)
		asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
			     "r"(bytes) : "memory");
	else if (hint == 2)
		asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
			     "r"(bytes) : "memory");
	else if (hint == 3)
		asm volatile("{ createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n"
			     "  cp.async.cg.shared.global.L2::cache_hint [%1], [%2], 16, %3, %0; }"
			     : "=l"(policy) : "r"(dst), "l"(src), "r"(bytes) : "memory");
	else
		copy16_async(dst, src, valid);
}

DEVICE void copies_commit()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* waits until at most `pending` of the newest groups are in flight */
template <int pending> DEVICE void copies_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#ifdef GRAPH_SWITCH
/* Selects the body of a conditional node of this graph. */
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, u32 value);
DEVICE void graph_switch(unsigned long long handle, u32 body)
{
	cudaGraphSetConditional(handle, body);
}
#endif

#endif
