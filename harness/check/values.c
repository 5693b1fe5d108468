/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - seeded random numbers, and the values of tensors on the host (fill.h). Making these is
 * most of the work of a check, so the loops are compiled for several instruction sets. */
#include "check.h"
#include "fill.h"
#include "reference.h"
#include "workload.h"
#include "harness/base/base.h"
#include <stdint.h>
#include <stdlib.h>
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

/* Where K and V share the memory, their values are of one stream. */
struct in_stream in_stream_of(const struct kv_order *o, int is_v, long long first)
{
	return (struct in_stream){ is_v && !o->is_shared ? v_stream() : k_stream(),
				   (unsigned long long)(first + (is_v ? o->v_at : o->k_at)) };
}

CLONES void write_values(void *to, unsigned long long stream, unsigned long long first, size_t n,
			 enum attune_dtype dtype)
{
	uint32_t *wide = to;
	uint16_t *narrow = to;
	uint8_t *bytes = to;
	if (dtype == ATTUNE_F32)
		for (size_t i = 0; i < n; i++)
			wide[i] = fill_bits(stream, first + i, FILL_F32);
	else if (dtype == ATTUNE_F16)
		for (size_t i = 0; i < n; i++)
			narrow[i] = (uint16_t)fill_bits(stream, first + i, FILL_F16);
	else if (dtype == ATTUNE_E4M3)
		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)fill_bits(stream, first + i, FILL_E4M3);
	else
		for (size_t i = 0; i < n; i++)
			narrow[i] = (uint16_t)fill_bits(stream, first + i, FILL_BF16);
}

static inline double as_float(unsigned bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Shifts bits: no F16 value is subnormal, see fill.h. */
static inline unsigned widen_f16(unsigned bits)
{
	return bits ? bits >> 15 << 31 | (((bits & 0x7fff) << 13) + (112u << 23)) : 0;
}

/* All types but E4M3, of which each value takes a call: in a cloned loop that is slower. */
CLONES static void read_16_or_32_bits(double *to, unsigned long long stream,
				      unsigned long long first, size_t n, enum attune_dtype dtype)
{
	if (dtype == ATTUNE_F32)
		for (size_t i = 0; i < n; i++)
			to[i] = as_float(fill_bits(stream, first + i, FILL_F32));
	else if (dtype == ATTUNE_F16)
		for (size_t i = 0; i < n; i++)
			to[i] = as_float(widen_f16(fill_bits(stream, first + i, FILL_F16)));
	else
		for (size_t i = 0; i < n; i++)
			to[i] = as_float(fill_bits(stream, first + i, FILL_BF16) << 16);
}

void read_values(double *to, unsigned long long stream, unsigned long long first, size_t n,
		 enum attune_dtype dtype)
{
	if (dtype != ATTUNE_E4M3) {
		read_16_or_32_bits(to, stream, first, n, dtype);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const uint8_t byte = (uint8_t)fill_bits(stream, first + i, FILL_E4M3);
		to[i] = value_of(dtype, &byte, 0);
	}
}

/* ---- random numbers ---------------------------------------------------------------- */
/* Seeded random numbers for the contents of workloads. */

unsigned long long next_random(unsigned long long *state)
{
	return random_bits(state);
}

int32_t *permutation(int n, unsigned long long seed)
{
	unsigned long long state = fill_mix(seed);
	int32_t *v = malloc(((size_t)n + 1) * sizeof *v);
	for (int i = 0; v && i < n; i++) {
		/* high half x (i + 1) >> 32: uniform below i + 1 */
		const int j = (int)((next_random(&state) >> 32) * ((unsigned)i + 1) >> 32);
		v[i] = v[j];
		v[j] = i;
	}
	return v;
}
