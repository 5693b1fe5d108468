/* pick.c - which of an op's choices runs a part. */
#include "invariant.h"
#include "plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"

int can_run(const attune_op *op, int id, const struct part *p, struct config *as)
{
	const struct device_info *d = &op->ctx->device.info;
	const struct ready *r;
	struct geometry g;
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
	r->kernel->space->geometry(as, &op->shape, p, d, &g);
	return (g.segments <= 1 || op->helper[reduction_of(&g)]) &&
	       (!r->kernel->space->is_scheduled || op->helper[HELPER_SCHEDULE]);
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

/* can_run; without_maps: only if it makes no maps of the cache. */
static int can_take(const attune_op *op, int id, const struct part *p, int without_maps,
		    struct config *as)
{
	struct picked f = { .id = id };
	if (!can_run(op, id, p, &f.as) || (without_maps && needs_maps(op, &f, p)))
		return 0;
	*as = f.as;
	return 1;
}

struct picked pick_row(const attune_op *op, int named, const struct part *p, int without_maps)
{
	struct picked f = { .id = -1, .named = named };
	if (named < 0 || named >= op->num_ready)
		return f;
	const struct attune_list *row = &op->ready[named].row;
	for (int i = 0; i < row->n && f.id < 0; i++)
		if (can_take(op, row->at[i], p, without_maps, &f.as))
			f.id = row->at[i];
	return f;
}

static int says_of(const struct selector *rules, const struct part *p)
{
	const enum decision decision =
	    p->max_query <= DECODE_MAX_QUERY ? DECIDE_DECODE : DECIDE_PREFILL;
	return rules ? selector_says(rules, decision, &p->f) : SAYS_DEFAULTS;
}

struct picked pick_behind(const attune_op *op, const struct part *p, int without_maps)
{
	const int few_rows = p->max_query <= DECODE_MAX_QUERY;
	const int defaults = op->num_ready - op->first_default;
	const int says = says_of(op->portable, p);
	struct picked f = pick_row(op, says < 0 ? says : op->num_choices + says, p, without_maps);
	for (int k = 0; f.id < 0 && k < defaults; k++) {
		const int at = op->first_default + (few_rows ? defaults - 1 - k : k);
		if (can_take(op, at, p, without_maps, &f.as))
			f.id = at;
	}
	return f;
}

struct picked pick(const attune_op *op, const struct part *p)
{
	if (op->ctx->is_invariant)
		return pick_invariant(op, p);
	const struct picked f = pick_row(op, says_of(op->heuristic, p), p, 0);
	return f.id < 0 ? pick_behind(op, p, 0) : f;
}
