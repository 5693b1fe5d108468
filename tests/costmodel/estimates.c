/* SPDX-License-Identifier: Apache-2.0 */
/* estimates.c - computes estimates from fitted costs. A head size without costs of its own takes
 * those of the next larger one, in proportion: kernels pad rows to multiples of 64. */
#include "estimates.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void estimates_free(struct estimates *e)
{
	if (e)
		free(e->v);
	free(e);
}

/* The costs at this head size, or at the next larger one that has costs. NULL: there are none, or,
 * if `sure`, the estimates are not. */
static const struct part_costs *costs_at(const struct estimate *v, long long head_size, int sure)
{
	int i = 0;
	while (i < ESTIMATE_SIZES - 1 && v->at[i].head_size < head_size)
		i++;
	return v->at[i].segments.slots && (!sure || v->is_sure[i]) ? &v->at[i] : NULL;
}

/* A lower bound: costs that were fitted to other batches may be too low. */
static double floor_us(const struct estimates *e, const struct attune_features *f)
{
	const double bytes = 1024.0 * (double)f->kv_kib;
	const double flops =
	    4.0 * 4096 * (double)f->work * (double)f->num_query_heads * (double)f->head_size;
	double us = e->least_us;
	if (e->dram_gbps > 0)
		us = fmax(us, bytes / e->dram_gbps / 1e3);
	if (e->fma_tflops > 0)
		us = fmax(us, flops / e->fma_tflops / 1e6);
	return us;
}

static double terms_us(const struct part_costs *costs, const struct block_shape *block,
		       int segments, const struct attune_features *f)
{
	const long long most = 1 << 27; /* so that sums fit */
	const long long rows = f->query_tokens * f->num_query_heads;
	struct segment_load load;
	segment_load_of(&load, block, f);
	const long long path = segment_path(&costs->segments, &load, block, f->units, segments);
	const long long fs = costs->launch + segment_cost(&costs->segments, path, rows, segments) +
			     costs->total * min_of(load.blocks * load.mean / f->units, most) +
			     costs->kib * min_of(f->kv_kib, most) +
			     costs->rows * min_of(rows, most);
	return (double)fs / 1e9;
}

/* These pad heads to multiples of 64; other kernels take them in steps of 16. */
static int pads_heads(const struct kernel *k)
{
	return !strncmp(k->name, "ring", 4) || !strncmp(k->name, "warpgroup", 9);
}

/* costs: of v, at a head size that need not be the part's. Of kernels that pad no heads, times between two
 * head sizes lie between theirs: in coverage_h200 on an H200 estimates of segmented are then 0.92
 * times what heads of 80 took and 1.2 times what heads of 192 took (medians). */
static double us_of(const struct estimates *e, const struct estimate *v,
		    const struct part_costs *costs, const struct choice *c, const struct part *p)
{
	const struct part_costs *below = costs > v->at ? costs - 1 : NULL;
	const long long head_size = p->f.head_size;
	struct block_shape block;
	block_shape_of(&block, &c->config, c->kernel);
	const int axis = c->kernel->space->formula_axis;
	const int segments = axis < 0 ? 1 : c->config.v[axis];
	double us = terms_us(costs, &block, segments, &p->f);
	if (head_size < costs->head_size && below && below->segments.slots &&
	    !pads_heads(c->kernel)) {
		const double share =
		    (double)(costs->head_size - head_size) / (costs->head_size - below->head_size);
		us += share * (terms_us(below, &block, segments, &p->f) - us);
	} else {
		const double launch = (double)costs->launch / 1e9;
		const double padded = (double)((head_size + 63) / 64 * 64);
		us = launch + (us - launch) * padded / costs->head_size;
	}
	return fmax(us, floor_us(e, &p->f));
}

static int is_family(const struct estimate *v, const struct choice *c)
{
	const int axis = c->kernel->space->formula_axis;
	struct choice a = v->choice, b = *c;
	if (a.kernel != b.kernel)
		return 0;
	if (axis >= 0)
		a.config.v[axis] = b.config.v[axis];
	return choice_same(&a, &b);
}

/* Whether the binaries are the same: their tunables differ in what a launch is told. */
static int is_binary(const struct estimate *v, const struct choice *c)
{
	const struct space *s = c->kernel->space;
	int same = v->choice.kernel == c->kernel;
	for (int i = 0; same && i < s->num_axes; i++)
		same = !s->axis[i].is_static || v->choice.config.v[i] == c->config.v[i];
	return same;
}

/* The first with costs at some head size, of the choice's family, or of its binary. NULL: none. */
static const struct estimate *estimate_of(const struct estimates *e, const struct choice *c,
					  int (*is_of)(const struct estimate *,
						       const struct choice *),
					  long long head_size, const struct part_costs **costs)
{
	for (int i = 0; c->kernel && i < e->n; i++) {
		const struct estimate *v = &e->v[i];
		if (!is_of(v, c))
			continue;
		*costs = costs_at(v, head_size, 0);
		for (size_t k = 0; !*costs && k < COUNT(v->at); k++)
			if (v->at[k].segments.slots)
				*costs = &v->at[k];
		if (*costs)
			return v;
	}
	return NULL;
}

double estimate_us(const struct estimates *e, const struct choice *c, const struct part *p,
		   double *error)
{
	const struct part_costs *costs;
	const struct estimate *v = estimate_of(e, c, is_family, p->f.head_size, &costs);
	if (!v)
		v = estimate_of(e, c, is_binary, p->f.head_size, &costs);
	*error = v ? v->error[costs - v->at] : INFINITY;
	return v ? us_of(e, v, costs, c, p) : INFINITY;
}

/* The least over the legal numbers of segments. */
static double least_of(const struct estimates *e, const struct estimate *v,
		       const attune_shape *shape, const struct part *p, struct choice *out)
{
	const struct part_costs *costs = costs_at(v, p->f.head_size, 1);
	const struct space *s = v->choice.kernel->space;
	const int n = s->formula_axis < 0 ? 1 : s->axis[s->formula_axis].num_values;
	double least = INFINITY;
	for (int i = 0; costs && i < n; i++) {
		struct choice c = v->choice;
		if (s->formula_axis >= 0)
			c.config.v[s->formula_axis] = s->axis[s->formula_axis].values[i];
		if (s->why_illegal(&c.config, shape, p, &e->device))
			continue;
		const double us = us_of(e, v, costs, &c, p);
		if (us < least) {
			least = us;
			*out = c;
		}
	}
	return least;
}

double estimate_least(const struct estimates *e, const attune_shape *shape, const struct part *p,
		      struct choice *out)
{
	double least = INFINITY;
	*out = (struct choice){ .kernel = NULL };
	for (int i = 0; i < e->n; i++) {
		struct choice c;
		const double us = least_of(e, &e->v[i], shape, p, &c);
		if (us < least) {
			least = us;
			*out = c;
		}
	}
	return least;
}
