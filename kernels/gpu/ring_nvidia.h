/* ring_nvidia.h - words of the dialect that ring_tile.h alone uses. Apart from gpu_nvidia.h, since
 * what has been measured is known by the text that it includes. */
#ifndef ATTUNE_RING_NVIDIA_H
#define ATTUNE_RING_NVIDIA_H

DEVICE int shfl(int v, int lane)
{
	return __shfl_sync(0xffffffffu, v, lane);
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

/* What is read by it the L2 cache throws out before all else. */
DEVICE cache_policy evicted_first()
{
	cache_policy p;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
	return p;
}

/* copy16_async() by a policy */
DEVICE void copy16_by(u32 dst, const void *src, int valid, cache_policy policy)
{
	const int bytes = valid ? 16 : 0;
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(dst),
		     "l"(src), "r"(bytes), "l"(policy)
		     : "memory");
}

/* ---- clusters: blocks that run at a time and see each other's shared memory ---------- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#define HAS_EARLY    1
#else
#define HAS_CLUSTERS 0
#define HAS_EARLY    0
#endif

/* The first to come to a barrier, having written nothing that others wait for. */
DEVICE void cluster_begin()
{
	asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

/* Each thread comes, and later waits for all of the cluster; what they wrote before they
 * came is then seen. A block that others write to must not end before they came. */
DEVICE void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

DEVICE void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* Four floats to where block `rank` of the cluster has what lies at `address` here. */
DEVICE void cluster_put(u32 address, int rank, float x, float y, float z, float w)
{
	asm volatile("{ .reg .u32 there;\n"
		     "  mapa.shared::cluster.u32 there, %0, %1;\n"
		     "  st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5}; }" ::"r"(address),
		     "r"(rank), "f"(x), "f"(y), "f"(z), "f"(w)
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
