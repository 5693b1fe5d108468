/* SPDX-License-Identifier: Apache-2.0 */
/* cell.c - hashes of cells. Integers alone, so that all machines agree. */
#include "cell.h"
#include "table.h"
#include "kernels/spec/names.h"
#include "kernels/spec/part.h"

/* 0 for 0; else 1 + 3 log2(n), rounded down. */
static uint64_t step(long long n)
{
	static const uint64_t thirds[] = { 0xa14517cc6b945712ull, 0xcb2ff529eb71e416ull };
	if (n <= 0)
		return 0;
	const int zeros = __builtin_clzll((unsigned long long)n);
	const uint64_t mantissa = (uint64_t)n << zeros;
	return 1 + 3 * (uint64_t)(63 - zeros) + (mantissa >= thirds[0]) + (mantissa >= thirds[1]);
}

static uint64_t steps_of(const struct attune_features *f, enum cell_kind kind)
{
	const uint64_t both = step(f->num_seqs) | step(f->mean_seq) << 8 | step(f->max_seq) << 16;
	if (kind == CELL_DECODE)
		return both | step(f->max_query) << 24;
	return both | step(f->query_tokens) << 24 | step(f->keys_per_query) << 32 |
	       step(f->mean_query) << 40;
}

static uint64_t add_part_cell(uint64_t h, const attune_op *op, enum cell_kind kind, int named,
			      const struct part *p)
{
	const int is_choice = named >= 0 && named < op->num_ready;
	h = hash_add(h, is_choice ? op->ready[named].name : 0);
	return hash_add(h, steps_of(&p->f, kind) << 2 | (uint64_t)kind);
}

/* What the rules say about running both parts: the name of a choice, else the answer itself. */
static uint64_t overlap_name(const attune_op *op, const struct part *whole)
{
	const int says =
	    op->heuristic ? selector_says(op->heuristic, DECIDE_OVERLAP, &whole->f) : SAYS_SERIAL;
	return says >= 0 && says < op->num_choices ? op->ready[says].name : (uint64_t)(int64_t)says;
}

uint64_t cell_hash(const attune_op *op, enum cell_kind kind, const int named[],
		   const struct part part[], const struct part *whole)
{
	uint64_t h = hash_add(op->shape_name, (uint64_t)kind);
	if (kind == CELL_MIXED) {
		h = add_part_cell(h, op, CELL_PREFILL, named[0], &part[0]);
		h = add_part_cell(h, op, CELL_DECODE, named[1], &part[1]);
		h = hash_add(h, overlap_name(op, whole));
	} else {
		h = add_part_cell(h, op, kind, named[0], &part[0]);
	}
	h &= ~(uint64_t)VALUE_MASK;
	return h ? h : 1ull << VALUE_BITS;
}
