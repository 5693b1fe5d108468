/* SPDX-License-Identifier: Apache-2.0 */
/* random_part.h - random shapes, batches and parts over the range that engines send. Include
 * after cmocka.h. */
#ifndef TESTS_SUPPORT_RANDOM_PART_H
#define TESTS_SUPPORT_RANDOM_PART_H

#include "kernels/spec/part.h"

enum { MAX_SEQS = 40 }; /* of the largest batch */

static const struct device_info gpu = { .backend = BACKEND_GPU,
					.arch = "sm_90",
					.units = 132,
					.lanes = 32,
					.smem_per_block = 232448,
					.smem_per_unit = 233472 };
static const struct device_info cpu = { .backend = BACKEND_CPU, .units = 48, .lanes = 16 };

static inline unsigned below(unsigned n)
{
	static unsigned long long seed = 11;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static inline attune_shape random_shape(void)
{
	static const int heads[][2] = { { 32, 8 }, { 8, 1 },   { 16, 16 },
					{ 64, 8 }, { 128, 1 }, { 40, 2 } };
	const int *h = heads[below(COUNT(heads))];
	return (attune_shape){ .size = sizeof(attune_shape),
			       .num_query_heads = h[0],
			       .num_kv_heads = h[1],
			       .head_size = below(2) ? 128 : 64,
			       .page_size = 16,
			       .dtype = ATTUNE_BF16,
			       .kv_dtype = ATTUNE_BF16,
			       .causal = below(8) > 0,
			       .window = below(4) ? 0 : 1024 };
}

/* Contexts over five orders of magnitude. 0: the batch has no such part. */
static inline int random_part(struct part *p, const attune_shape *s, const struct device_info *d)
{
	int32_t start[MAX_SEQS + 1] = { 0 }, seq[MAX_SEQS];
	attune_batch b = { sizeof(attune_batch), 1 + (int)below(MAX_SEQS), start, seq };
	const unsigned longest = 1 + below(600);
	for (int i = 0; i < b.num_seqs; i++) {
		const int32_t query = below(4) ? 1 : (int32_t)below(longest);
		start[i + 1] = start[i] + query;
		seq[i] = query + (below(9) ? (int32_t)(1 + below(2u << below(17))) : 0);
	}
	return part_make(p, (enum phase)below(3), s, &b, d);
}

#endif
