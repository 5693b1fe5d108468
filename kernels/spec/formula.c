/* SPDX-License-Identifier: Apache-2.0 */
/* formula.c - finds the number of segments of a choice with a formula, for each batch. */
#include "device_info.h"
#include "kernel.h"
#include "space.h"
#include "kernels/segments.h"

int config_is_formula(const struct config *c, const struct space *s)
{
	return s->formula_axis >= 0 && c->v[s->formula_axis] < 0;
}

int config_is_fitted(const struct config *c, const struct space *s)
{
	return s->formula_axis >= 0 && c->v[s->formula_axis] == SEGMENTS_FITTED;
}

/* Blocks that fit a unit's shared memory; CUDA reserves RESERVED bytes for each. Registers may
 * allow fewer, but the host does not know them. */
int blocks_resident(const struct geometry *g, const struct device_info *d)
{
	enum { RESERVED = 1024 };
	const int n = g->smem ? d->smem_per_unit / ((int)g->smem + RESERVED) : 1;
	return n > 1 ? n : 1;
}

/* Blocks of the launch at one segment; *at_once: how many of them run at a time. */
static long long blocks_of(struct config c, const struct formula *formula, const struct space *s,
			   const attune_shape *shape, const struct part *p,
			   const struct device_info *d, long long *at_once)
{
	struct geometry g;
	c.v[s->formula_axis] = 1;
	s->geometry(&c, shape, p, d, &g);
	const int slots = formula->slots ? formula->slots : blocks_resident(&g, d);
	*at_once = g.at_once ? g.at_once
		   : g.items ? (long long)g.x * g.y * g.z
			     : (long long)d->units * slots;
	return geometry_items(&g) / g.segments;
}

/* In keys. blocks: of the launch at one segment; at_once: blocks that run at a time. */
static long long formula_estimate(const struct formula *f, const struct attune_features *of,
				  long long blocks, long long at_once, long long v)
{
	const long long mean = min_of(of->mean_seq, of->keys_per_query);
	const long long waves = (blocks * v + at_once - 1) / at_once;
	return waves * (mean / v + f->start) + (of->max_seq - mean) / v + (v > 1 ? f->launch : 0) +
	       f->merge * v;
}

const char *config_resolve(struct config *out, const struct config *c, const struct kernel *k,
			   const attune_shape *shape, const struct part *p,
			   const struct device_info *d)
{
	const struct space *s = k->space;
	const char *why = NULL, *first_why = NULL;
	*out = *c;
	if (config_is_fitted(c, s))
		return "the header has no costs of its segments at that head size";
	if (!config_is_formula(c, s))
		return s->why_illegal(c, shape, p, d);
	const struct axis *a = &s->axis[s->formula_axis];
	const struct formula *f = &s->formulas[-1 - c->v[s->formula_axis]];
	long long at_once;
	const long long blocks = blocks_of(*c, f, s, shape, p, d, &at_once);
	struct config at = *c;
	long long least = -1;
	for (int i = 0; i < a->num_values; i++) {
		at.v[s->formula_axis] = a->values[i];
		why = s->why_illegal(&at, shape, p, d);
		if (why && !first_why)
			first_why = why;
		if (why)
			continue;
		const long long cost = formula_estimate(f, &p->f, blocks, at_once, a->values[i]);
		if (least < 0 || cost < least) {
			least = cost;
			*out = at;
		}
	}
	return least < 0 ? first_why : NULL;
}
