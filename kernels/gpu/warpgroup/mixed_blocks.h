/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_blocks.h - the blocks of warpgroup_mixed.cu: what a launch passes to them, their numbers,
 * and the counters that they share. */
#ifndef ATTUNE_MIXED_BLOCKS_H
#define ATTUNE_MIXED_BLOCKS_H

#include "../paged.h"
#include "warpgroup_grid.h"

#define PREFILL_M 128 /* rows of a prefill's Q block */

/* a.option, as warpgroup_mixed.def passes it:
 *
 *   BOX, BUFFERS  as in warpgroup
 *   DECODE        BESIDE + 256 x tokens of a decode's Q block + 65536 x Q blocks of a sequence
 *   SHARES        blocks that begin with decodes + 65536 x PREFILL_SEGMENTS; prefills read it, too.
 *                 In this place warpgroup has INVERSE, which only PACKED needs */
enum { MIXED_BOX, MIXED_BUFFERS, MIXED_DECODE, MIXED_SHARES };

/* Number of this block, set by number_block() */
DEVICE int &this_block()
{
	__shared__ int number;
	return number;
}

/* Blocks that begin with decodes */
DEVICE int units_of(const attune_args &a)
{
	return a.option[MIXED_SHARES] & 65535;
}

/* Segments of a prefill's keys */
DEVICE int segments_of(const attune_args &a)
{
	return a.option[MIXED_SHARES] >> 16;
}

/* The arguments of one phase */
DEVICE attune_args view(const attune_args &a, const attune_range &r, int segments)
{
	attune_args v = a;
	v.seq_begin = r.seq_begin;
	v.seq_count = r.seq_count;
	v.min_query = r.min_query;
	v.max_query = r.max_query;
	v.segments = segments;
	return v;
}

/* Rows of the prefills' partials */
DEVICE long long partial_rows(const attune_args &a)
{
	const int segments = segments_of(a);
	return segments > 1 ? (long long)a.prefill.seq_count * a.prefill.max_query *
				      a.num_query_heads * segments : 0;
}

/* Q blocks of the longest prefill, by which arrivals are numbered */
DEVICE int most_blocks(const attune_args &a)
{
	return (a.prefill.max_query + PREFILL_M - 1) / PREFILL_M;
}

/* ---- counters that all blocks share ---------------------------------------------------------- */

/* The workspace may hold anything. So, like ring_list's arrivals, a counter carries a mark, and a
 * word without it counts as 0. Blocks add at once and see whether the word was marked: only the
 * first few find it unmarked, and one of them marks it. The last block removes the mark. */
typedef unsigned long long counter;
#define COUNTS	0x617474756e000000ull /* "attun" */
#define COUNTED 0xffffffull

/* Counters are the first words of args.scratch. */
enum { BLOCKS_COUNT, ITEMS_COUNT, COUNTERS };

DEVICE int is_count(counter c)
{
	return (c & ~COUNTED) == COUNTS;
}

/* Adds; returns the count before */
DEVICE int count_on(counter *at, counter by)
{
	counter seen = atomicAdd(at, by);
	if (is_count(seen))
		return seen & COUNTED;
	for (seen += by;;) {
		const counter old = atomicCAS(at, seen, COUNTS | by);
		if (old == seen)
			return 0;
		if (is_count(old))
			return atomicAdd(at, by) & COUNTED;
		seen = old;
	}
}

/* Called by one thread. The counter: blocks on SMs that begin with decodes + LATER_BLOCK x
 * others. */
#define LATER_BLOCK 4096
DEVICE int number_block(const attune_args &a)
{
	counter *at = (counter *)a.scratch + BLOCKS_COUNT;
	const int is_later = (int)sm_id() >= units_of(a);
	const int before = count_on(at, is_later ? LATER_BLOCK : 1);
	const int first = before % LATER_BLOCK, later = before / LATER_BLOCK, last = all_blocks() - 1;
	if (first + later == last)
		*at = 0;
	return is_later ? last - later : first;
}

#endif
