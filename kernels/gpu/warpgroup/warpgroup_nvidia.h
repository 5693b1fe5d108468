/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_nvidia.h - the functions of the dialect that only warpgroup uses, on sm_90a: gates
 * (mbarriers), copies of boxes, and synchronisation of a warpgroup's products. They are not in
 * gpu_nvidia.h, since measurements are tied to the text that a kernel includes. */
#ifndef ATTUNE_WARPGROUP_NVIDIA_H
#define ATTUNE_WARPGROUP_NVIDIA_H

#include "../../args_maps.h"
#include "../gpu.h"
#include "../ring/ring_nvidia.h"

/* ---- a warp ----------------------------------------------------------------------------- */

DEVICE int warp_sum(int v)
{
	return __reduce_add_sync(0xffffffffu, v);
}

DEVICE int warp_max(int v)
{
	return __reduce_max_sync(0xffffffffu, v);
}

/* Bit l is lane l's value */
DEVICE u32 warp_ballot(int is)
{
	return __ballot_sync(0xffffffffu, is);
}

DEVICE int popcount(u32 bits)
{
	return __popc(bits);
}

/* The bit set with n set bits below it; called by all lanes together. */
DEVICE int nth_bit(u32 bits, int n)
{
	const u32 below = (1u << lane_id()) - 1;
	const int is = bits >> lane_id() & 1 && __popc(bits & below) == n;
	return __ffs((int)warp_ballot(is)) - 1;
}

/* ---- gates: mbarriers of 8 bytes -------------------------------------------------------- */

/* A gate opens when `comers` threads have arrived and all bytes are there, and then starts over. A
 * wait names the parity of the phase: a wait for 1 passes before the gate first opens. */
DEVICE void gate_init(u32 gate, int comers)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gate), "r"(comers) : "memory");
}

/* Makes the initialised gates visible to the copy engine. */
DEVICE void gates_ready()
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEVICE void gate_come(u32 gate)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gate) : "memory");
}

/* Arrives, and sets the number of bytes to come. */
DEVICE void gate_expect(u32 gate, u32 bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes)
		     : "memory");
}

DEVICE void gate_wait(u32 gate, u32 parity)
{
	asm volatile("{ .reg .pred open;\n"
		     "again%=:\n"
		     "  mbarrier.try_wait.parity.shared::cta.b64 open, [%0], %1;\n"
		     "  @open bra done%=;\n"
		     "  bra again%=;\n"
		     "done%=: }" ::"r"(gate), "r"(parity)
		     : "memory");
}

/* ---- boxes ---------------------------------------------------------------------------- */

DEVICE void map_prefetch(const attune_map &map)
{
	asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/* Copies the box of one head that begins with a group of 8 slots; its bytes count at `gate`. The L2
 * cache evicts it last, since other Q blocks read it again. */
DEVICE void box_copy(u32 to, const attune_map &map, int group, int head, u32 gate)
{
	const unsigned long long evict_last = 0x14f0000000000000ull;
	asm volatile("cp.async.bulk.tensor.5d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
		     ".L2::cache_hint [%0], [%1, {%2, %2, %2, %3, %4}], [%5], %6;" ::"r"(to),
		     "l"(&map), "r"(0), "r"(group), "r"(head), "r"(gate), "l"(evict_last)
		     : "memory");
}

DEVICE void shared_clear16(u32 to)
{
	asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

/* Makes this thread's writes to shared memory visible to matrix units and the copy engine;
 * afterwards it may signal the threads that use these. */
DEVICE void shared_written()
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- E4M3, computed as F16, which has all its values ------------------------------------ */

/* Loads 16 bytes of the cache; the compiler does not move it. A block reads them once, others read
 * them again. */
DEVICE uint4 load16_now(const void *from)
{
	uint4 v;
	asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(from));
	return v;
}

DEVICE void shared_put16(u32 to, u32 x, u32 y, u32 z, u32 w)
{
	asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z),
		     "r"(w)
		     : "memory");
}

/* ---- a warpgroup: 128 threads, four warps that multiply together ------------------------ */

/* Sets the registers of a thread from here on; the block must have them. */
template <int n> DEVICE void registers_fewer()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

template <int n> DEVICE void registers_more()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

/* barrier() without waiting */
DEVICE void barrier_come(int id, int threads)
{
	asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Orders earlier register accesses before the products that follow. */
DEVICE void products_begin()
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Makes a group of the products since the last commit. */
DEVICE void products_commit()
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `pending` of the youngest groups are under way */
template <int pending> DEVICE void products_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* The compiler moves no use of r across this: it does not know that products write r. */
template <int n> DEVICE void settle(float (&r)[n])
{
	UNROLL for (int i = 0; i < n; i++)
		asm volatile("" : "+f"(r[i])::"memory");
}

template <int n> DEVICE void settle(u32 (&r)[n])
{
	UNROLL for (int i = 0; i < n; i++)
		asm volatile("" : "+r"(r[i])::"memory");
}

#endif
