/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - hashes that stand for a choice and for a shape, the same in all processes. */
#ifndef KERNELS_SPEC_NAMES_H
#define KERNELS_SPEC_NAMES_H

#include "choice.h"

static inline uint64_t hash_add(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
	return h ^ h >> 29;
}

/* Of the kernel's name and the values of its tunables; never 0. */
uint64_t choice_name(const struct kernel *, const struct config *);
/* Of all that launches depend on. */
uint64_t shape_name(const attune_shape *);
uint64_t text_name(uint64_t h, const char *text);

#endif
