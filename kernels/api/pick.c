/* SPDX-License-Identifier: Apache-2.0 */
/* pick.c - which of an op's choices runs a part. */
#include "invariant.h"
#include "plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"

static int has_helpers(const attune_op *op, const struct space *s, const struct part *p,
		       const struct config *as)
{
	struct geometry g;
	s->geometry(as, &op->shape, p, &op->ctx->device.info, &g);
	return (g.segments <= 1 || op->helper[reduction_of(&g)]) &&
	       (!s->is_scheduled || op->helper[HELPER_SCHEDULE]);
}

static int is_legal(const attune_op *op, int id, const struct part *p, struct config *as)
{
	const struct device_info *d = &op->ctx->device.info;
	const struct ready *r;
	if (id < 0 || id >= op->num_ready)
		return 0;
	r = &op->ready[id];
	if (!r->code)
		return 0;
	if (op->ctx->is_invariant ? invariant_fitted(as, &r->config, r->kernel, &op->shape, p, d)
				  : config_fitted_by(as, &r->config, r->kernel, &r->block, r->costs,
						     &op->shape, p, d))
		return 0;
	if (op->heuristic)
		config_divide(as, r->kernel, &op->heuristic->mixed, &op->shape, p, d);
	return has_helpers(op, r->kernel->space, p, as);
}

enum { WORTH = 4 /* a share of the costs */ };

const char *lacks_cuts(const attune_op *op, int id, const struct config *as, const struct part *p)
{
	const struct ready *r = &op->ready[id];
	const int axis = r->kernel->space->formula_axis;
	const struct device_info *d = &op->ctx->device.info;
	attune_shape without = op->shape;
	struct config cut;
	if (!op->shape.has_lse || op->ctx->is_invariant || axis < 0 || as->v[axis] > 1)
		return NULL;
	without.has_lse = 0;
	if (config_fitted_by(&cut, &r->config, r->kernel, &r->block, r->costs, &without, p, d) ||
	    cut.v[axis] == 1)
		return NULL;
	if (r->costs) {
		const long long whole = segments_cost(r->costs, &r->block, &p->f, 1);
		const long long least = segments_cost(r->costs, &r->block, &p->f, cut.v[axis]);
		if (whole - least <= whole / WORTH)
			return NULL;
	}
	return "with the LSE it cannot cut the keys, which would take less time by a quarter";
}

int can_run(const attune_op *op, int id, const struct part *p, struct config *as)
{
	return is_legal(op, id, p, as) && !lacks_cuts(op, id, as, p);
}

int take_step(const attune_op *op, int id, const struct part *p, int step, struct config *as)
{
	const struct ready *r = &op->ready[id];
	const struct space *s = r->kernel->space;
	struct config c = *as;
	int at = 0;
	if (!step)
		return 1;
	if (s->formula_axis < 0 ||
	    (!config_is_fitted(&r->config, s) && !config_is_formula(&r->config, s)))
		return 0;
	const struct axis *a = &s->axis[s->formula_axis];
	while (at < a->num_values && a->values[at] != as->v[s->formula_axis])
		at++;
	if (at == a->num_values || at + step < 0 || at + step >= a->num_values)
		return 0;
	c.v[s->formula_axis] = a->values[at + step];
	if (s->why_illegal(&c, &op->shape, p, &op->ctx->device.info) || !has_helpers(op, s, p, &c))
		return 0;
	*as = c;
	return 1;
}

struct picked pick_invariant(const attune_op *op, const struct part *p)
{
	struct picked f = { .id = -1, .named = -1 };
	const int id = op->invariant[p->max_query <= DECODE_MAX_QUERY];
	if (can_run(op, id, p, &f.as))
		f.id = id;
	return f;
}

int needs_maps(const attune_op *op, const struct picked *f, const struct part *p)
{
	const struct space *s = op->ready[f->id].kernel->space;
	struct geometry g;
	if (!s->takes_maps)
		return 0;
	s->geometry(&f->as, &op->shape, p, &op->ctx->device.info, &g);
	return g.map_box > 0;
}

/* What a choice may be: one that makes no maps of the cache; one that is legal and lacks cuts. */
enum { WITHOUT_MAPS = 1, LACKING_CUTS = 2 };

static int can_take(const attune_op *op, int id, const struct part *p, int how, struct config *as)
{
	struct picked f = { .id = id };
	if (!(how & LACKING_CUTS ? is_legal : can_run)(op, id, p, &f.as) ||
	    (how & WITHOUT_MAPS && needs_maps(op, &f, p)))
		return 0;
	*as = f.as;
	return 1;
}

static struct picked first_of_row(const attune_op *op, int named, const struct part *p, int how)
{
	struct picked f = { .id = -1, .named = named };
	if (named < 0 || named >= op->num_ready)
		return f;
	const struct attune_list *row = &op->ready[named].row;
	for (int i = 0; i < row->n && f.id < 0; i++)
		if (can_take(op, row->at[i], p, how, &f.as))
			f.id = row->at[i];
	return f;
}

struct picked pick_row(const attune_op *op, int named, const struct part *p, int without_maps)
{
	return first_of_row(op, named, p, without_maps ? WITHOUT_MAPS : 0);
}

int rules_say(const struct selector *rules, const struct part *p)
{
	const enum decision decision =
	    p->max_query <= DECODE_MAX_QUERY ? DECIDE_DECODE : DECIDE_PREFILL;
	return rules ? selector_says(rules, decision, &p->f) : SAYS_DEFAULTS;
}

/* The first of the portable rules' row, then of the defaults. */
static struct picked first_behind(const attune_op *op, const struct part *p, int how)
{
	const int few_rows = p->max_query <= DECODE_MAX_QUERY;
	const int defaults = op->num_ready - op->first_default;
	const int says = rules_say(op->portable, p);
	struct picked f = first_of_row(op, says < 0 ? says : op->num_choices + says, p, how);
	for (int k = 0; f.id < 0 && k < defaults; k++) {
		const int at = op->first_default + (few_rows ? defaults - 1 - k : k);
		if (can_take(op, at, p, how, &f.as))
			f.id = at;
	}
	return f;
}

struct picked pick_behind(const attune_op *op, const struct part *p, int without_maps)
{
	const int how = without_maps ? WITHOUT_MAPS : 0;
	struct picked f = first_behind(op, p, how);
	if (f.id < 0 && op->shape.has_lse)
		f = first_of_row(op, rules_say(op->heuristic, p), p, how | LACKING_CUTS);
	return f.id < 0 && op->shape.has_lse ? first_behind(op, p, how | LACKING_CUTS) : f;
}

struct picked pick(const attune_op *op, const struct part *p)
{
	if (op->ctx->is_invariant)
		return pick_invariant(op, p);
	const struct picked f = pick_row(op, rules_say(op->heuristic, p), p, 0);
	return f.id < 0 ? pick_behind(op, p, 0) : f;
}
