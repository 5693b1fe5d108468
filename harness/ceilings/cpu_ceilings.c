/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_ceilings.c - measures what this CPU can do at present: bytes read from memory and multiply-adds
 * in registers, each per second. Each function names its instruction set in an attribute, so the
 * file is compiled without flags for one. */
#include "ceilings.h"
#include "kernels/device/cpu/cpu.h"
#include "kernels/device/cpu/pool.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { STREAMS = 4, PIECES = 8, FMA_ACCUMULATORS = 12, FMA_STEPS = 8000 };

/* The shortest time of a piece of work in PIECES clean tries. A try is clean if no other program
 * used the CPU meanwhile. It gives up after 3 x PIECES tries. INFINITY: none was clean. */
static double best_seconds(struct cpu *cpu, void (*body)(struct cpu *, void *arg), void *arg)
{
	double best = INFINITY, share;
	for (int clean = 0, tries = 0; clean < PIECES && tries < 3 * PIECES; tries++) {
		const double seconds = cpu_timed(cpu, body, arg, &share);
		if (share < 0.985)
			continue;
		clean++;
		best = fmin(best, seconds);
	}
	return best;
}

/* The compiler must compute x. */
static void use(float x)
{
	__asm__ volatile("" : : "m"(x));
}

/* ---- multiply-adds ---------------------------------------------------------- */

/* Two pipes, each with a latency of 4 or 5 cycles, are busy with FMA_ACCUMULATORS independent sums.
 * a x + y with x = y = 1 / 2 stays a normal number. The compiler does not know x and y. */
#define FMA_KERNEL(name, target, type, set, fma, first)                                            \
	target static float name(float seed)                                                       \
	{                                                                                          \
		type a[FMA_ACCUMULATORS], x = set(seed), y = set(1 - seed);                        \
		for (int i = 0; i < FMA_ACCUMULATORS; i++)                                         \
			a[i] = set(seed * (float)i);                                               \
		for (int n = 0; n < FMA_STEPS; n++)                                                \
			_Pragma("GCC unroll 12") for (int i = 0; i < FMA_ACCUMULATORS; i++) a[i] = \
			    fma(a[i], x, y);                                                       \
		for (int i = 1; i < FMA_ACCUMULATORS; i++)                                         \
			a[0] = fma(a[i], x, a[0]);                                                 \
		return first(a[0]);                                                                \
	}

#define SCALAR_SET(x) (x)
#define SCALAR_FMA(a, b, c) ((a) * (b) + (c))
#define SCALAR_FIRST(a) (a)
#define NEON_FMA(a, b, c) vfmaq_f32(c, a, b)
#define NEON_FIRST(a) vgetq_lane_f32(a, 0)
#if defined(__x86_64__)
FMA_KERNEL(fma_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps,
	   _mm512_cvtss_f32)
FMA_KERNEL(fma_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps,
	   _mm256_cvtss_f32)
#elif defined(__aarch64__)
FMA_KERNEL(fma_neon, , float32x4_t, vdupq_n_f32, NEON_FMA, NEON_FIRST)
#endif
FMA_KERNEL(fma_scalar, , float, SCALAR_SET, SCALAR_FMA, SCALAR_FIRST)

static const struct {
	float (*run)(float seed);
	int lanes;
} fma_kernels[NUM_ISAS] = {
#if defined(__x86_64__)
	[ISA_AVX512] = { fma_avx512, 16 },
	[ISA_AVX2] = { fma_avx2, 8 },
#elif defined(__aarch64__)
	[ISA_NEON] = { fma_neon, 4 },
#endif
	[ISA_SCALAR] = { fma_scalar, 1 },
};

static void fma_work(void *p, size_t i)
{
	static const volatile float seed = 0.5f;
	const int *isa = p;
	(void)i;
	use(fma_kernels[*isa].run(seed));
}

static void fma_piece(struct cpu *cpu, void *isa)
{
	pool_run(cpu->pool, fma_work, isa, (size_t)cpu->threads);
}

double cpu_fma_gflops(struct device *dev)
{
	struct cpu *cpu = dev->state;
	int isa = 0;
	while (!fma_kernels[isa].run || !isa_present(isa))
		isa++;
	const double flops = 2.0 * fma_kernels[isa].lanes * FMA_ACCUMULATORS * FMA_STEPS;
	return flops * cpu->threads / best_seconds(cpu, fma_piece, &isa) / 1e9;
}

/* ---- reading ---------------------------------------------------------------- */

/* What is read. Made at the first measurement, and kept until the process ends. */
static char *memory;
static size_t memory_bytes;

struct read_job {
	const char *begin;
	size_t part; /* bytes of a thread's stream, a multiple of 64 */
	int turn;
};

/* Thread i reads STREAMS runs of `part` bytes side by side. The prefetch of one run stops at each
 * page of 4 KiB; the other runs keep the memory busy meanwhile. */
static void read_work(void *p, size_t i)
{
	const struct read_job *job = p;
	const char *at = job->begin + i * STREAMS * job->part;
	unsigned long long sum[STREAMS] = { 0 };
	for (size_t b = 0; b < job->part; b += 64)
		for (int s = 0; s < STREAMS; s++)
			sum[s] += *(const unsigned long long *)(at + (size_t)s * job->part + b);
	for (int s = 1; s < STREAMS; s++)
		sum[0] += sum[s];
	use((float)sum[0]);
}

/* The pieces are read in turn, so reading the others evicts a piece before it is read again. */
static void read_piece(struct cpu *cpu, void *p)
{
	struct read_job *job = p;
	job->begin = memory + (size_t)(job->turn++ % PIECES) * (memory_bytes / PIECES);
	pool_run(cpu->pool, read_work, job, (size_t)cpu->threads);
}

/* At least three times the last-level cache, so that the pieces evict each other. */
static int make_memory(size_t cache)
{
	const size_t huge = 2 << 20, least = 256u << 20;
	size_t bytes = 3 * cache > least ? 3 * cache : least;
	bytes = (bytes + huge - 1) / huge * huge;
	memory = aligned_alloc(huge, bytes);
	if (!memory)
		return 0;
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 1, bytes);
	memory_bytes = bytes;
	return 1;
}

double cpu_dram_gbps(struct device *dev)
{
	struct cpu *cpu = dev->state;
	if (!memory && !make_memory(dev->info.l2_bytes))
		return 0;
	const size_t streams = (size_t)cpu->threads * STREAMS;
	struct read_job job = { .part = memory_bytes / PIECES / streams / 64 * 64 };
	return (double)(job.part * streams) / best_seconds(cpu, read_piece, &job) / 1e9;
}
