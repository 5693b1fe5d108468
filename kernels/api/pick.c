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

/* Whether the choice suits the group (query heads of a KV head). The rules say nothing of groups
 * that were not measured: the committed results have groups of up to 16, at head size 64 of up to
 * 8. For larger ones a Q block must hold the group and be filled to three quarters, and a sequence
 * of decodes may take at most two blocks, since each of them reads all its keys. These two limits
 * are not measured: with them the choices pass t_cliffs. */
static int suits_group(const struct ready *r, const struct part *p)
{
	const int most_measured = p->f.head_size <= 64 ? 8 : 16;
	const long long group = p->f.group;
	const long long tokens = p->max_query <= DECODE_MAX_QUERY ? p->max_query : 1;
	const struct block_shape b = r->block;
	if (group <= most_measured || b.heads)
		return 1;
	if (group > b.rows)
		return 0;
	const long long fit = b.rows / group;
	return parts_of(tokens, fit) <= 2 && 4 * fit * group >= 3 * b.rows;
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

/* The first choice that can run the part, of the row of a choice. */
static struct picked pick_of_row(const attune_op *op, int named, const struct part *p,
				 int without_maps)
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

struct picked pick_named(const attune_op *op, int id, const struct part *p)
{
	struct picked f = pick_of_row(op, op->is_priced ? -1 : id, p, 0);
	if (f.id >= 0 && !op->heuristic->num_lists && !suits_group(&op->ready[f.id], p))
		f.id = -1;
	return f;
}

/* The estimated time of a part by a choice, in femtoseconds; -1: not known. */
static long long price_of(const attune_op *op, const struct picked *f, const struct part *p)
{
	const struct ready *r = f->id < 0 ? NULL : &op->ready[f->id];
	const struct part_costs *costs = r ? r->price[p->max_query <= DECODE_MAX_QUERY] : NULL;
	return costs ? priced_estimate(costs, &r->block, segments_of(r->kernel, &f->as), &p->f)
		     : -1;
}

/* The priced choice with the least estimate, which is *least. */
static struct picked pick_priced(const attune_op *op, const struct part *p, int without_maps,
				 long long *least)
{
	struct picked best = { .id = -1, .named = -1 };
	for (int i = 0; i < op->first_default; i++) {
		struct picked f = { .id = i, .named = -1 };
		if (!op->ready[i].price[p->max_query <= DECODE_MAX_QUERY] ||
		    !can_take(op, i, p, without_maps, &f.as))
			continue;
		const long long fs = price_of(op, &f, p);
		if (best.id < 0 || fs < *least) {
			*least = fs;
			best = f;
		}
	}
	return best;
}

/* Estimates err, while the heuristic's choice was measured: it stays unless an estimate is less by
 * more than an eighth. */
enum { LEAST_GAIN = 8 };

struct picked pick_better(const attune_op *op, struct picked f, const struct part *p)
{
	const int compares = op->compares[p->max_query <= DECODE_MAX_QUERY];
	const long long fs = compares ? price_of(op, &f, p) : -1;
	long long least = 0;
	if (fs < 0)
		return f;
	const struct picked rival = pick_priced(op, p, 0, &least);
	return rival.id >= 0 && least < fs - fs / LEAST_GAIN ? rival : f;
}

static int says_of(const struct selector *rules, const struct part *p)
{
	const enum decision decision =
	    p->max_query <= DECODE_MAX_QUERY ? DECIDE_DECODE : DECIDE_PREFILL;
	return rules ? selector_says(rules, decision, &p->f) : SAYS_DEFAULTS;
}

/* The same of the row that the portable rules name. */
static struct picked pick_portable(const attune_op *op, const struct part *p, int without_maps)
{
	const int says = says_of(op->portable, p);
	return pick_of_row(op, says < 0 ? says : op->num_choices + says, p, without_maps);
}

/* What stands behind the heuristic's rows. */
static struct picked pick_last(const attune_op *op, const struct part *p, int without_maps)
{
	const int few_rows = p->max_query <= DECODE_MAX_QUERY;
	const int fallbacks = op->num_ready - op->first_default;
	long long least = 0;
	struct picked f = pick_portable(op, p, without_maps);
	if (f.id < 0)
		f = pick_priced(op, p, without_maps, &least);
	for (int k = 0; f.id < 0 && k < fallbacks; k++) {
		const int at = op->first_default + (few_rows ? fallbacks - 1 - k : k);
		if (can_take(op, at, p, without_maps, &f.as))
			f.id = at;
	}
	for (int i = 0; f.id < 0 && i < op->num_choices; i++)
		if (can_take(op, i, p, without_maps, &f.as))
			f.id = i;
	return f;
}

struct picked pick_behind(const attune_op *op, const struct part *p)
{
	struct picked f = pick_last(op, p, 0);
	f.named = -1;
	return f;
}

struct picked pick_without_maps(const attune_op *op, int named, const struct part *p)
{
	const struct picked f = pick_of_row(op, named, p, 1);
	return f.id < 0 ? pick_last(op, p, 1) : f;
}

struct picked pick(const attune_op *op, const struct part *p)
{
	struct picked f;
	if (op->ctx->is_invariant)
		return pick_invariant(op, p);
	f = pick_named(op, says_of(op->heuristic, p), p);
	return f.id < 0 ? pick_behind(op, p) : f;
}
