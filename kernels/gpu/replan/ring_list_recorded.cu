/* ring_list_recorded.cu - runs the decode part of a recorded step by ring_list. planner.cu has
 * written the part's range to device memory (recorded.h); ring_list derives the rest from the
 * lengths:
 *
 *   host      grid, workspace, option[BLOCK_Q], [START], [REST]: of shape and choice
 *   planner   seq_begin, seq_count, min_query, max_query; a Q block a sequence
 *
 * It ends at once if the step has no decodes, or bodies run them. It includes ring_list.cu
 * unchanged, with the entry turned into a function: measurements are tied to that text. */
#include "../../args_more.h"
#include "../gpu.h"
#include "../../recorded.h"

namespace list
{
DEVICE void ENTRY(const attune_call c);
}
DEVICE void run_part(const attune_call &given);

/* First, since KERNEL means something else below. args.schedule: the part's entry in the plan. */
KERNEL(NUM_WARPS * WARP) ENTRY(const attune_call given)
{
	run_part(given);
}

#undef KERNEL
#define KERNEL(threads) DEVICE void list::
#include "../ring/ring_list_body.inc"

DEVICE void run_part(const attune_call &given)
{
	const recorded_part p = *(const recorded_part *)given.args.schedule;
	attune_call c = given;
	if (p.choice < 0 || p.body >= 0)
		return;
	c.args.seq_begin = p.seq_begin;
	c.args.seq_count = p.seq_count;
	c.args.min_query = p.min_query;
	c.args.max_query = p.max_query;
	c.args.option[Q_BLOCKS] = 1;
	list::ENTRY(c);
}
