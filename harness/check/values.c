/* values.c - the values of tensors on the host (fill.h). Making them is most of the work of a check, so
 * each loop is compiled for several instruction sets, with the same results, and the best one that
 * the machine has is taken. */
#include "fill.h"
#include "workload.h"
#include <stdint.h>
#include <string.h>

_Static_assert((int)FILL_F32 == ATTUNE_F32 && (int)FILL_F16 == ATTUNE_F16 &&
		   (int)FILL_BF16 == ATTUNE_BF16 && (int)FILL_E4M3 == ATTUNE_E4M3,
	       "fill.h and attune.h name the types alike");

unsigned long long k_stream(void)
{
	return fill_mix(1);
}

unsigned long long v_stream(void)
{
	return fill_mix(2);
}

unsigned long long q_stream(unsigned long long seed)
{
	return fill_mix(fill_mix(seed) + 3);
}

typedef unsigned long long u64;

/* A loop of constant length is one that GCC vectorizes at -O2. */
enum { RUN = 16 };
#define EACH(n, statement)                                              \
	do {                                                            \
		size_t i = 0;                                           \
		for (; i + RUN <= (n); i += RUN)                        \
			for (size_t end = i + RUN, j = i; j < end; j++) \
				statement;                              \
		for (size_t j = i; j < (n); j++)                        \
			statement;                                      \
	} while (0)

/* Inlined into each version, so that `dtype` is constant within a loop. */
#define INLINE static inline __attribute__((always_inline))

INLINE void write_any(void *to, u64 stream, u64 first, size_t n, enum attune_dtype dtype)
{
	uint32_t *wide = to;
	uint16_t *narrow = to;
	uint8_t *bytes = to;
	if (dtype == ATTUNE_F32)
		EACH(n, wide[j] = fill_bits(stream, first + j, FILL_F32));
	else if (dtype == ATTUNE_F16)
		EACH(n, narrow[j] = (uint16_t)fill_bits(stream, first + j, FILL_F16));
	else if (dtype == ATTUNE_E4M3)
		EACH(n, bytes[j] = (uint8_t)fill_bits(stream, first + j, FILL_E4M3));
	else
		EACH(n, narrow[j] = (uint16_t)fill_bits(stream, first + j, FILL_BF16));
}

INLINE double float_of(unsigned bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Shifts bits: no F16 value is subnormal, see fill.h. */
INLINE unsigned widen_f16(unsigned bits)
{
	const unsigned wide = bits >> 15 << 31 | (((bits & 0x7fff) << 13) + (112u << 23));
	return wide & -(unsigned)(bits != 0);
}

INLINE void read_any(double *to, u64 stream, u64 first, size_t n, enum attune_dtype dtype)
{
	if (dtype == ATTUNE_F32)
		EACH(n, to[j] = float_of(fill_bits(stream, first + j, FILL_F32)));
	else if (dtype == ATTUNE_F16)
		EACH(n, to[j] = float_of(widen_f16(fill_bits(stream, first + j, FILL_F16))));
	else if (dtype == ATTUNE_BF16)
		EACH(n, to[j] = float_of(fill_bits(stream, first + j, FILL_BF16) << 16));
	else
		for (size_t i = 0; i < n; i++) {
			const uint8_t byte = (uint8_t)fill_bits(stream, first + i, FILL_E4M3);
			to[i] = value_of(dtype, &byte, 0);
		}
}

/* clang-format off */
#define VERSION(name, isa)                                                                         \
	isa static void write_##name(void *to, u64 stream, u64 first, size_t n,                    \
				     enum attune_dtype dtype)                                      \
	{                                                                                          \
		write_any(to, stream, first, n, dtype);                                            \
	}                                                                                          \
	isa static void read_##name(double *to, u64 stream, u64 first, size_t n,                   \
				    enum attune_dtype dtype)                                       \
	{                                                                                          \
		read_any(to, stream, first, n, dtype);                                             \
	}
/* clang-format on */

VERSION(plain, )
#ifdef __x86_64__
VERSION(avx2, __attribute__((target("avx2"))))
VERSION(avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))))
#define BY_MACHINE(f, ...)                                                           \
	(__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && \
		 __builtin_cpu_supports("avx512vl")                                  \
	     ? f##_avx512(__VA_ARGS__)                                               \
	 : __builtin_cpu_supports("avx2") ? f##_avx2(__VA_ARGS__)                    \
					  : f##_plain(__VA_ARGS__))
#else
#define BY_MACHINE(f, ...) f##_plain(__VA_ARGS__)
#endif

void write_values(void *to, u64 stream, u64 first, size_t n, enum attune_dtype dtype)
{
	BY_MACHINE(write, to, stream, first, n, dtype);
}

void read_values(double *to, u64 stream, u64 first, size_t n, enum attune_dtype dtype)
{
	BY_MACHINE(read, to, stream, first, n, dtype);
}
