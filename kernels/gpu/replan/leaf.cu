/* leaf.cu - sets the condition of a SWITCH node: the number of the body with the planner's plan, or
 * the last body if none has it. It runs after planner.cu, with one warp; each lane checks a body at
 * a time. */
#define GRAPH_SWITCH
#include "../gpu.h"
#include "../../recorded.h"

DEVICE int runs(const recorded_leaf &leaf, const recorded_plan &plan)
{
	UNROLL for (int i = 0; i < NUM_RECORDED; i++)
		if (leaf.choice[i] != plan.part[i].choice ||
		    (leaf.choice[i] >= 0 && leaf.segments[i] != plan.part[i].segments))
			return 0;
	return 1;
}

KERNEL(WARP) ENTRY(const leaf_args a)
{
	u32 found = a.num_leaves - 1;
	for (int i = threadIdx.x; i < a.num_leaves; i += WARP)
		if (runs(a.leaves[i], *a.plan))
			found = i;
	for (int mask = WARP / 2; mask; mask /= 2)
		found = min(found, shfl_xor(found, mask));
	if (!threadIdx.x)
		graph_switch(a.handle, found);
}
