/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - finds the number of segments of a choice with SEGMENTS=fitted: the legal one with
 * the least cost by the choice's fitted costs (segments.h). */
#include "kernels/segments.h"
#include "kernels/spec/device_info.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"

void block_shape_of(struct block_shape *b, const struct config *c, const struct kernel *k)
{
	const struct space *s = k->space;
	/* Without these axes: a block of naive has one row, one of the CPU's segmented up to 64. */
	const int whole_rows = k->backend == BACKEND_CPU ? 64 : 1;
	*b = (struct block_shape){ .rows = config_value(c, s, "BLOCK_M", whole_rows),
				   .tile = config_value(c, s, "TILE_SIZE",
							config_value(c, s, "BLOCK_N", 1)),
				   .heads = s->block_heads(c),
				   .clusters = config_value(c, s, "COMBINE", 0) == 1 };
}

const char *config_fitted(struct config *out, const struct config *c, const struct kernel *k,
			  const struct segment_costs *costs, const attune_shape *shape,
			  const struct part *p, const struct device_info *d)
{
	struct block_shape block;
	block_shape_of(&block, c, k);
	return config_fitted_by(out, c, k, &block, costs, shape, p, d);
}

const char *config_fitted_by(struct config *out, const struct config *c, const struct kernel *k,
			     const struct block_shape *block, const struct segment_costs *costs,
			     const attune_shape *shape, const struct part *p,
			     const struct device_info *d)
{
	const struct space *s = k->space;
	const char *first_why = NULL;
	struct segment_load load;
	struct config at = *c;
	long long least = -1;
	*out = *c;
	if (!config_is_fitted(c, s) || !costs)
		return config_resolve(out, c, k, shape, p, d);
	const struct axis *a = &s->axis[s->formula_axis];
	segment_load_of(&load, block, &p->f);
	const long long rows = p->f.query_tokens * p->f.num_query_heads;
	/* With all keys shared evenly the path is the shortest possible, and the cost of cuts rises
	 * with v. So once this lower bound reaches the least cost, no larger v can win. */
	const long long even = load.blocks * load.padded_mean / (p->f.units * costs->slots);
	for (int i = 0; i < a->num_values; i++) {
		const int v = a->values[i];
		if (least >= 0 && segment_cost(costs, even, rows, v) >= least)
			break;
		const long long path = segment_path(costs, &load, block, p->f.units, v);
		const long long cost = segment_cost(costs, path, rows, v);
		if (least >= 0 && cost >= least)
			continue;
		at.v[s->formula_axis] = v;
		const char *why = s->why_illegal(&at, shape, p, d);
		if (!why) {
			least = cost;
			*out = at;
		} else if (!first_why) {
			first_why = why;
		}
	}
	return least < 0 ? first_why : NULL;
}
