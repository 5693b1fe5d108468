/* leaf.cu - between planner.cu and a SWITCH node: which body of the graph has the plan that
 * the planner has just left; the last one where none has. One warp, a body a lane and turn. */
#define GRAPH_SWITCH
#include "gpu.h"
#include "../recorded.h"

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
