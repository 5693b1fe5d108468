/* ring_list_recorded.cu - the decode part of a step of a replayed graph, by ring_list. Which
 * sequences it has stands in device memory, left there by planner.cu (../recorded.h); what else
 * there is to know ring_list finds in the lengths:
 *
 *   host      grid, workspace, option[BLOCK_Q], [START], [REST]: of shape and choice
 *   planner   seq_begin, seq_count, min_query, max_query; a Q block a sequence
 *
 * A step that has no decodes, or bodies for them, is over at once. The text is ring_list's own, to
 * the letter, its entry made a function: what was measured is known by that text, so it is not
 * taken apart. */
#include "../args_more.h"
#include "gpu.h"
#include "../recorded.h"

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
#include "ring_list.cu"

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
