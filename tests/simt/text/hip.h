/* SPDX-License-Identifier: Apache-2.0 */
/* hip.h - what clang gives device code for AMD's CDNA GPUs without any include, on top of
 * simt.h: builtins, by their names, and 16-bit types. The text of gpu_amd.h runs as it is.
 *
 * Exec masks are not modelled: a builtin that reads other lanes waits for the whole wave, and
 * lanes that wait at different ones are reported. */
#ifndef TESTS_SIMT_HIP_H
#define TESTS_SIMT_HIP_H

#include "../simt.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The dialect has these for a compiler that has them not. */
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("simt_shared")))

#define __builtin_assume(x) ((void)0)
#define __builtin_trap() simt_die("__builtin_trap()")
#define __builtin_nontemporal_load(p) (*(p))
#define __builtin_nontemporal_store(v, p) ((void)(*(p) = (v)))

/* ---- numbers of 16 bits ------------------------------------------------------------------ */

struct simt_bf16 {
	uint16_t bits;
	simt_bf16() = default;
	explicit simt_bf16(float f) : bits(simt_to_bfloat(f))
	{
	}
	operator float() const
	{
		return __builtin_bit_cast(float, (uint32_t)bits << 16);
	}
};
struct simt_f16 {
	uint16_t bits;
	simt_f16() = default;
	explicit simt_f16(float f) : bits(simt_to_half(f))
	{
	}
	operator float() const
	{
		return simt_from_half(bits);
	}
};
/* host.awk: typedef _Float16 half4v __attribute__((vector_size(8))); */
template <class T, int bytes> struct simt_vector {
	T v[bytes / sizeof(T)];
	T &operator[](int i)
	{
		return v[i];
	}
	const T &operator[](int i) const
	{
		return v[i];
	}
};
#define __bf16 simt_bf16
#define _Float16 simt_f16

/* ---- where this thread is ---------------------------------------------------------------- */

#define PLACE(what, of, dim)                                            \
	static inline unsigned __builtin_amdgcn_##what##_id_##dim(void) \
	{                                                               \
		return simt_now->of.dim;                                \
	}
PLACE(workitem, thread, x)
PLACE(workitem, thread, y)
PLACE(workitem, thread, z)
PLACE(workgroup, block, x)
PLACE(workgroup, block, y)
PLACE(workgroup, block, z)
#undef PLACE

/* As code object version 5 has it: counts of blocks, then the sizes of a block. */
static inline const void *__builtin_amdgcn_implicitarg_ptr(void)
{
	static struct {
		unsigned counts[3];
		unsigned short sizes[3];
	} implicit;
	implicit = { { simt_grid.x, simt_grid.y, simt_grid.z },
		     { (unsigned short)simt_block.x, (unsigned short)simt_block.y,
		       (unsigned short)simt_block.z } };
	return &implicit;
}

/* As blocks are dealt on an MI300X: to 8 dies, on each to 4 shader engines, on each to CUs.
 *
 *   HW_ID (4)    CU_ID 8..11, SE_ID 13..15       XCC_ID (20)  0..3 */
static inline unsigned __builtin_amdgcn_s_getreg(int what)
{
	const unsigned unit = simt_now->unit, id = what & 63;
	const unsigned hw = (unit / 32 & 15) << 8 | (unit / 8 & 3) << 13;
	if (id != 4 && id != 20)
		simt_die("s_getreg of register %u is not emulated", id);
	return (id == 4 ? hw : unit & 7) >> (what >> 6 & 31) & (2u << (what >> 11 & 31)) - 1;
}

/* ---- order and time ---------------------------------------------------------------------- */

#define FENCE __asm__ volatile("" ::: "memory")
#define __builtin_amdgcn_fence(order, scope) FENCE
static inline void __builtin_amdgcn_s_barrier(void)
{
	FENCE;
	simt_barrier(0, 0, 0);
	FENCE;
}
/* On the GPU no instruction, since lanes go in step; here they do not. */
static inline void __builtin_amdgcn_wave_barrier(void)
{
	FENCE;
	simt_meet(SIMT_SYNCWARP, ~0ull, NULL);
	FENCE;
}
static inline void __builtin_amdgcn_s_sleep(int)
{
	FENCE;
	simt_pause();
	FENCE;
}
#define __builtin_amdgcn_s_setprio(priority) ((void)0)
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_sched_group_barrier(mask, size, id) ((void)0)
#define __builtin_amdgcn_iglp_opt(kind) ((void)0)

/* One thread runs at a time. Others go before an access to device memory, so that blocks
 * take turns at counters as they do on a GPU. */
enum { __HIP_MEMORY_SCOPE_WORKGROUP = 3, __HIP_MEMORY_SCOPE_AGENT, __HIP_MEMORY_SCOPE_SYSTEM };
#define ATOMIC(name, next)                                                                   \
	template <class T, class U>                                                          \
	static inline T __hip_atomic_##name(T *p, U value, int /* order */, int /* scope */) \
	{                                                                                    \
		FENCE;                                                                       \
		if (!simt_is_shared((const void *)p))                                        \
			simt_pause();                                                        \
		const T old = *(volatile T *)p, v = (T)value;                                \
		*(volatile T *)p = next;                                                     \
		FENCE;                                                                       \
		return old;                                                                  \
	}
ATOMIC(fetch_add, old + v)
ATOMIC(fetch_or, old | v)
ATOMIC(fetch_max, old > v ? old : v)
ATOMIC(fetch_min, old < v ? old : v)
ATOMIC(exchange, v)
ATOMIC(store, v)
#undef ATOMIC
template <class T> static inline T __hip_atomic_load(const T *p, int /* order */, int /* scope */)
{
	FENCE;
	if (!simt_is_shared((const void *)p))
		simt_pause();
	const T v = *(const volatile T *)p;
	FENCE;
	return v;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static inline float __builtin_amdgcn_exp2f(float x) /* denormals are 0 */
{
	const float y = exp2f(x);
	return y < 0x1p-126f ? 0.f : y;
}
static inline float __builtin_amdgcn_rcpf(float x)
{
	return 1 / x;
}
/* Each byte of `which` names one of the result: 0..3 of b, 4..7 of a, 12 is a zero. */
static inline unsigned __builtin_amdgcn_perm(unsigned a, unsigned b, unsigned which)
{
	const uint64_t from = (uint64_t)a << 32 | b;
	unsigned r = 0;
	for (int i = 0; i < 4; i++) {
		const unsigned byte = which >> 8 * i & 0xff;
		if (byte > 7 && byte != 12)
			simt_die("byte %u of a perm is not emulated", byte);
		r |= byte == 12 ? 0 : (unsigned)(from >> 8 * byte & 0xff) << 8 * i;
	}
	return r;
}

/* ---- lanes of a wave --------------------------------------------------------------------- */

static inline int simt_from_lane(int v, int from)
{
	struct simt_shuffle s = { (unsigned)v, 0, from };
	simt_meet(SIMT_SHUFFLE, ~0ull, &s);
	return (int)s.out;
}
static inline int __builtin_amdgcn_ds_bpermute(int address, int v)
{
	return simt_from_lane(v, address >> 2);
}
static inline int __builtin_amdgcn_readfirstlane(int v)
{
	return simt_from_lane(v, 0);
}
static inline uint64_t __builtin_amdgcn_ballot_w64(int is)
{
	struct simt_vote v = {};
	uint64_t set = 0;
	v.in = is != 0;
	simt_meet(SIMT_VOTE, ~0ull, &v);
	for (int l = 0; l < 64; l++)
		set |= v.all[l] << l;
	return set;
}

/* 16 bits: 1 | 2 bits for each lane of four; or 0 | xor | or | and, each of 5 bits */
static inline int __builtin_amdgcn_ds_swizzle(int v, int how)
{
	const int l = simt_now->lane;
	if (how >> 8 == 0x80)
		return simt_from_lane(v, (l & ~3) + (how >> l % 4 * 2 & 3));
	if (how >> 15)
		simt_die("ds_swizzle of 0x%x is not emulated", how);
	return simt_from_lane(v, (l & 32) + (((l & how) | how >> 5) ^ how >> 10) % 32);
}

/* The lane that lane l reads in its row of 16; -1: none. */
static inline int simt_dpp_lane(int l, int how)
{
	const int row = l & ~15, in = l & 15, n = how & 15;
	if (how < 0x100)
		return (l & ~3) + (how >> l % 4 * 2 & 3);
	switch (how & ~15) {
	case 0x100: /* row_shl */ return in + n < 16 ? l + n : -1;
	case 0x110: /* row_shr */ return in >= n ? l - n : -1;
	case 0x120: /* row_ror */ return row + ((in - n) & 15);
	case 0x140: /* row_mirror, row_half_mirror */
		if (n < 2)
			return l ^ (n ? 7 : 15);
	}
	simt_die("DPP control 0x%x is not emulated", how);
}
/* Rows and banks, four lanes each of a row, that are not in the masks keep `old`. */
static inline int __builtin_amdgcn_update_dpp(int old, int v, int how, int rows, int banks,
					      int zero_beyond)
{
	const int l = simt_now->lane, from = simt_dpp_lane(l, how);
	const int got = simt_from_lane(v, from < 0 ? l : from);
	if (!(rows >> l / 16 & 1) || !(banks >> l % 16 / 4 & 1))
		return old;
	return from >= 0 ? got : zero_beyond ? 0 : old;
}

/* ---- matrices ---------------------------------------------------------------------------- */

template <class AB, class C> static inline C simt_multiply(int is_bf16, int side, AB a, AB b, C c)
{
	struct simt_mfma s = { is_bf16, side, sizeof a / 2, {}, {}, {} };
	memcpy(s.a, &a, sizeof a);
	memcpy(s.b, &b, sizeof b);
	memcpy(s.c, &c, sizeof c);
	simt_meet(SIMT_MFMA, ~0ull, &s);
	memcpy(&c, s.c, sizeof c);
	return c;
}
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) simt_multiply(1, 16, a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) simt_multiply(0, 16, a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) simt_multiply(1, 32, a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z) simt_multiply(0, 32, a, b, c)

#endif
