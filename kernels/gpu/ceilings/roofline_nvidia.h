/* SPDX-License-Identifier: Apache-2.0 */
/* roofline_nvidia.h - the functions of the dialect that only roofline.cu and launch.cu use. They
 * are not in gpu_nvidia.h, since measurements are tied to the text that a kernel includes. */
#ifndef ATTUNE_ROOFLINE_NVIDIA_H
#define ATTUNE_ROOFLINE_NVIDIA_H

#include "../gpu.h"

typedef unsigned long long cache_policy;

/* How long the L2 cache is to keep what is read: as it likes, or shorter than all else. */
template <int keep> DEVICE cache_policy l2_policy()
{
	cache_policy p;
	if (keep)
		asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(p));
	else
		asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
	return p;
}

DEVICE void load16(u32 (&v)[4], const void *p, cache_policy policy)
{
	asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
		     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
		     : "l"(p), "l"(policy));
}

DEVICE void copy16(u32 dst, const void *src, cache_policy policy)
{
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(dst),
		     "l"(src), "l"(policy)
		     : "memory");
}

/* 20 us, in which all blocks of a grid that fits have begun */
DEVICE void stay()
{
	unsigned long long now, until;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	for (until = now + 20000; now < until;)
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
}

/* ---- from sm_90 on ------------------------------------------------------------------ */

/* A barrier of 8 bytes of shared memory that one lane comes to; its phases are 0, 1, 0 ... */
DEVICE void copies_barrier(u32 at)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
		     "fence.mbarrier_init.release.cluster;" ::"r"(at)
		     : "memory");
}

/* That lane is here; the phase ends when so many bytes have come. */
DEVICE void copies_expect(u32 at, u32 bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
		     : "memory");
}

/* By one lane: copies `bytes`, a multiple of 16, to shared memory; the barrier counts them. */
DEVICE void copy_bulk(u32 dst, const void *src, u32 bytes, u32 at, cache_policy policy)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(dst),
		     "l"(src), "r"(bytes), "r"(at), "l"(policy)
		     : "memory");
}

/* By all lanes of the warp that copied: until that phase has ended. */
DEVICE void copies_arrive(u32 at, u32 phase)
{
	asm volatile("{\n"
		     ".reg .pred ended;\n"
		     "again:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
		     "@!ended bra again;\n"
		     "}" ::"r"(at), "r"(phase)
		     : "memory");
}

/* Of launches that may overlap: the next one may begin; the last one's writes are there. */
DEVICE void let_next_begin()
{
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

DEVICE void wait_for_last()
{
	asm volatile("griddepcontrol.wait;" ::: "memory");
}

#endif
