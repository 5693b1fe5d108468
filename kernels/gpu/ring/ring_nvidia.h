/* SPDX-License-Identifier: Apache-2.0 */
/* ring_nvidia.h - the functions of the dialect that only ring_tile.h uses. They are not in
 * gpu_nvidia.h, since measurements are tied to the text that a kernel includes. */
#ifndef ATTUNE_RING_NVIDIA_H
#define ATTUNE_RING_NVIDIA_H

#include "../gpu.h"

DEVICE int shfl(int v, int lane)
{
	return __shfl_sync(0xffffffffu, v, lane);
}

DEVICE long long shfl_long(long long v, int lane)
{
	const u32 low = shfl((int)v, lane), high = shfl((int)(v >> 32), lane);
	return (long long)((unsigned long long)high << 32 | low);
}

/* A load that the compiler does not move; 0 if not wanted. */
DEVICE int load_now(const int *from, int is_wanted)
{
	int v = 0;
	asm volatile("{ .reg .pred p;\n"
		     "setp.ne.s32 p, %2, 0;\n"
		     "@p ld.global.b32 %0, [%1]; }"
		     : "+r"(v)
		     : "l"(from), "r"(is_wanted));
	return v;
}

/* Keeps x in its register: the compiler must not recompute it. */
DEVICE void keep(u32 &x)
{
	asm("" : "+r"(x));
}

DEVICE void keep(long long &x)
{
	asm("" : "+l"(x));
}

/* An 8x8 matrix of 16-bit elements, columns for rows: lane l has elements 2 (l % 4) and the
 * next of row l / 4, then of column l / 4. */
DEVICE u32 transposed(u32 x)
{
	u32 y;
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
	return y;
}

typedef unsigned long long cache_policy;

/* Lines read by this policy are evicted first from the L2 cache. */
DEVICE cache_policy evicted_first()
{
	cache_policy p;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
	return p;
}

DEVICE float log2_fast(float x) /* to 2^-22; -infinity for 0 */
{
	float y;
	asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* copy16_async() by a policy */
DEVICE void copy16_by(u32 dst, const void *src, int valid, cache_policy policy)
{
	const int bytes = valid ? 16 : 0;
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(dst),
		     "l"(src), "r"(bytes), "l"(policy)
		     : "memory");
}

/* ---- E4M3, computed as F16, which has all its values
 * ------------------------------------------ */

/* mma() of F16, whatever DTYPE is */
DEVICE void mma_f16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
	    " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* pack2() to F16 */
DEVICE u32 pack2_f16(float lo, float hi)
{
	u32 r;
	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

/* Converts bytes 0 and 1 of x, and bytes 2 and 3. Older GPUs have no instruction for it: there
 * exponent and fraction move to F16's places, which makes 2^-8 of each value, and 480 of the two
 * NaNs. */
DEVICE void widen4(u32 &low, u32 &high, u32 x)
{
#if __CUDA_ARCH__ >= 890
	asm("{ .reg .b16 l, h;\n"
	    "  mov.b32 {l, h}, %2;\n"
	    "  cvt.rn.f16x2.e4m3x2 %0, l;\n"
	    "  cvt.rn.f16x2.e4m3x2 %1, h; }" : "=r"(low), "=r"(high) : "r"(x));
#else
	const u32 l = __byte_perm(x, 0, 0x1404), h = __byte_perm(x, 0, 0x3424);
	asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(low)
	    : "r"((l & 0x80008000) | (l & 0x7f007f00) >> 1), "r"(0x5c005c00));
	asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(high)
	    : "r"((h & 0x80008000) | (h & 0x7f007f00) >> 1), "r"(0x5c005c00));
#endif
}

/* Bytes 0, 2, 1, 3 */
DEVICE u32 paired(u32 x)
{
	return __byte_perm(x, 0, 0x3120);
}

/* ---- clusters: blocks that run at a time and see each other's shared memory ---------- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#define HAS_EARLY    1
#else
#define HAS_CLUSTERS 0
#define HAS_EARLY    0
#endif

/* Each thread arrives, and later waits for all of the cluster. It may then write to the others'
 * shared memory; a block must not end before the others have written to it. */
DEVICE void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

DEVICE void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* A box: 8 bytes of shared memory that count the bytes that the cluster writes to the block's
 * memory. One thread initialises it before it arrives at the cluster's barrier, and sets the number
 * of bytes to come; each reader waits. Usable once a launch. */
DEVICE void parcels_begin(u32 box)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(box) : "memory");
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEVICE void parcels_expect(u32 box, u32 bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(box), "r"(bytes)
		     : "memory");
}

DEVICE void parcels_wait(u32 box)
{
	u32 all;
	do
		asm volatile("{ .reg .pred p;\n"
			     "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
			     "  selp.u32 %0, 1, 0, p; }" : "=r"(all) : "r"(box) : "memory");
	while (!all);
}

/* Writes four floats to block `rank` of the cluster, at its counterpart of `address`, counted by
 * its counterpart of `box`. */
DEVICE void parcel_put(u32 address, u32 box, int rank, float x, float y, float z, float w)
{
	asm volatile("{ .reg .u32 there, box;\n"
		     "  mapa.shared::cluster.u32 there, %0, %2;\n"
		     "  mapa.shared::cluster.u32 box, %1, %2;\n"
		     "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
		     " [there], {%3, %4, %5, %6}, [box]; }" ::"r"(address),
		     "r"(box), "r"(rank), "f"(x), "f"(y), "f"(z), "f"(w)
		     : "memory");
}

/* ---- launches that overlap: the next one's blocks may come, the last one's writes are there */

DEVICE void let_next_begin()
{
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

DEVICE void wait_for_last()
{
	asm volatile("griddepcontrol.wait;" ::: "memory");
}

#endif
