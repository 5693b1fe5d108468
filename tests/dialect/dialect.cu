/* SPDX-License-Identifier: Apache-2.0 */
/* dialect.cu - the kernel of t_simt.c: each mode checks words of the dialect and the machine
 * that runs it, and dies at a wrong answer. dialect_nvidia.h and dialect_amd.h have the modes
 * that differ by vendor. */
#include "gpu/gpu.h"
#ifndef __AMDGCN__
#include "gpu/ring/ring_nvidia.h"
#endif
#include "dialect_args.h"

#define CHECK(x)                                               \
	do                                                     \
		if (!(x))                                      \
			simt_die("line %d: %s", __LINE__, #x); \
	while (0)

#ifdef __AMDGCN__
#include "dialect_amd.h"
#else
#include "dialect_nvidia.h"
#endif

DEVICE void no_barrier()
{
	__shared__ int seen[DIALECT_THREADS];
	const int next = (threadIdx.x + 41) % DIALECT_THREADS;
	seen[threadIdx.x] = threadIdx.x;
	CHECK(seen[next] == next);
}

/* Persistent blocks with a ticket counter */
DEVICE void tickets(const dialect_args &a)
{
	__shared__ int mine;
	for (;;) {
		if (!threadIdx.x)
			mine = atomicAdd(a.counter, 1);
		__syncthreads();
		const int ticket = mine;
		__syncthreads();
		if (ticket >= DIALECT_TICKETS)
			return;
		if (!threadIdx.x) {
			a.tickets[ticket]++;
			a.by_block[blockIdx.x]++;
		}
	}
}

/* The last block to arrive adds up the results of all. */
DEVICE void last_block(const dialect_args &a)
{
	__shared__ int is_last;
	if (!threadIdx.x) {
		a.by_block[blockIdx.x] = blockIdx.x + 1;
		__threadfence();
		is_last = atomicAdd(a.counter, 1) == (int)gridDim.x - 1;
	}
	__syncthreads();
	if (is_last && !threadIdx.x)
		for (unsigned i = 0; i < gridDim.x; i++)
			*a.out += a.by_block[i];
}

/* Blocks take turns, each with static and dynamic memory of its own. */
DEVICE void shared_memory(const dialect_args &a)
{
	__shared__ unsigned kept[4], sum;
	unsigned *dynamic = (unsigned *)simt_dynamic();
	CHECK(kept[0] == ~0u && *dynamic == ~0u); /* poison */
	__syncthreads();
	if (!threadIdx.x) {
		kept[0] = *dynamic = blockIdx.x;
		sum = 0;
	}
	__syncthreads();
	atomicAdd(&sum, 1u);
	atomicAdd(a.counter, 1);
	CHECK(kept[0] == blockIdx.x && *dynamic == blockIdx.x);
	__syncthreads();
	CHECK(sum == DIALECT_THREADS);
}

KERNEL(DIALECT_THREADS) ENTRY(const dialect_args a)
{
	switch (a.mode) {
	case SHUFFLES: return shuffles_and_votes();
	case BARRIERS: return barriers();
	case TICKETS: return tickets(a);
	case LAST_BLOCK: return last_block(a);
	case SHARED: return shared_memory(a);
	case MATRIX_STEP: return matrix_step(a);
	case NO_BARRIER: return no_barrier();
	case PARTS_WAYS: return parts_ways();
	case NEVER_MEETS: return never_meets();
	case WRITES_BEHIND: ((char *)simt_dynamic())[DIALECT_SMEM + 17] = 1; return;
	case READS_BEHIND: *a.out = a.counter[DIALECT_INTS]; return;
	case SPINS:
		while (!*(volatile int *)a.out)
			;
	default: return own(a);
	}
}
