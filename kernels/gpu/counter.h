/* counter.h - counts that many blocks keep together in a workspace that may hold anything when the
 * launch begins: to clear it first would be a launch more, 2 us on an H200. So a count bears a
 * mark, and what bears none is 0; who is the last takes the mark away. Other bytes look like it
 * once in 2^40.
 *
 *   count   | mark, 40 bits | how many so far, 24 bits |
 *
 * All add at once and see whether it was marked. Only the first few find that it is not, of whom
 * one marks it. To compare and swap instead makes of n blocks that come together n turns, one after
 * the other: of 128 the last then comes 14 us late. */
#ifndef ATTUNE_GPU_COUNTER_H
#define ATTUNE_GPU_COUNTER_H

#include "gpu.h"

typedef unsigned long long counter;
#define COUNT_MARK 0x617474756e000000ull /* "attun" */
#define COUNTED	   0xffffffull

DEVICE int is_count(counter c)
{
	return (c & ~COUNTED) == COUNT_MARK;
}

/* What it was */
DEVICE int count_on(counter *at, counter by)
{
	counter seen = atomicAdd(at, by);
	if (is_count(seen))
		return seen & COUNTED;
	for (seen += by;;) {
		const counter old = atomicCAS(at, seen, COUNT_MARK | by);
		if (old == seen)
			return 0;
		if (is_count(old))
			return atomicAdd(at, by) & COUNTED;
		seen = old;
	}
}

/* Whether of `all` that come this one is the last. */
DEVICE int count_last(counter *at, int all)
{
	const int is_last = count_on(at, 1) == all - 1;
	if (is_last)
		*at = 0;
	return is_last;
}

#endif
