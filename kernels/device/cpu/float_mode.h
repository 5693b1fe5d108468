/* SPDX-License-Identifier: Apache-2.0 */
/* float_mode.h - the floating-point environment that the CPU kernels compute in: no exception
 * traps, and results round to nearest. On x86-64 and AArch64 denormal floats count as zeros, as
 * operands and as results. float_mode_enter sets it, float_mode_leave restores the one of
 * before. */
#ifndef KERNELS_DEVICE_CPU_FLOAT_MODE_H
#define KERNELS_DEVICE_CPU_FLOAT_MODE_H

#if defined(__x86_64__) /* kernels compute in vector registers alone */
struct float_mode {
	unsigned mxcsr;
};

static inline void float_mode_enter(struct float_mode *old)
{
	old->mxcsr = __builtin_ia32_stmxcsr();
	__builtin_ia32_ldmxcsr(0x9fc0);
}

/* Exceptions that were raised meanwhile leave no flag. */
static inline void float_mode_leave(const struct float_mode *old)
{
	__builtin_ia32_ldmxcsr(old->mxcsr);
}

#elif defined(__aarch64__)
struct float_mode {
	unsigned long fpcr, fpsr;
};

static inline void float_mode_enter(struct float_mode *old)
{
	__asm__ volatile("mrs %0, fpcr" : "=r"(old->fpcr));
	__asm__ volatile("mrs %0, fpsr" : "=r"(old->fpsr));
	__asm__ volatile("msr fpcr, %0" : : "r"(1ul << 24) : "memory");
}

static inline void float_mode_leave(const struct float_mode *old)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(old->fpcr) : "memory");
	__asm__ volatile("msr fpsr, %0" : : "r"(old->fpsr));
}

#else
#include <fenv.h>

struct float_mode {
	fenv_t env;
};

static inline void float_mode_enter(struct float_mode *old)
{
	feholdexcept(&old->env);
	fesetround(FE_TONEAREST);
}

static inline void float_mode_leave(const struct float_mode *old)
{
	fesetenv(&old->env);
}
#endif

#endif
