/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - plans a batch (attune_plan_batch), lists its Q blocks (attune_schedule) and says what a
 * plan runs. run_plan.c launches plans, plan_query.c has the calls that only read them. */
#include "plan.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The parts of a batch and what runs each. */
struct decision_made {
	struct selection s;
	struct picked pick[2];
	enum attune_how how;
	int spared; /* units that the prefills leave to the decodes, beside those of their choice */
};

/* Has the prefills leave units to the decodes, if their choice can. Returns whether it can. */
static int spare(const attune_op *op, struct decision_made *d, int units)
{
	struct picked *f = &d->pick[0];
	if (units && (f->id < 0 || !config_spare(&f->as, op->ready[f->id].kernel->space, units,
						 &op->shape, &d->s.part[0], &op->ctx->device.info)))
		return 0;
	d->spared = units;
	return 1;
}

/* What runs part i: the choice `id`, if there is one that can, else by the rules. *can: whether it
 * can, with its step; else it runs without. */
static struct picked pick_part(const attune_op *op, const struct selection *s, int i,
			       const struct instead *in, int *can)
{
	const struct part *p = &s->part[i];
	const int of = p->f.max_query <= DECODE_MAX_QUERY;
	struct picked f = { .id = in->id[of], .named = s->choice[i] };
	if (op->ctx->is_invariant)
		return pick_invariant(op, p);
	if (f.id < 0)
		return pick_row(op, f.named, p, 0);
	if (!can_run(op, f.id, p, &f.as)) {
		*can = 0;
		return pick_row(op, f.named, p, 0);
	}
	*can &= take_step(op, f.id, p, in->step[of], &f.as);
	return f;
}

/* The defaults that add_part would take. */
static void pick_all(const attune_op *op, struct decision_made *d)
{
	for (int i = 0; i < d->s.num_parts; i++)
		if (d->pick[i].id < 0)
			d->pick[i] = pick_behind(op, &d->s.part[i], 0);
}

/* Has the parts of a mixed batch share the device by an answer of the overlap tree. Returns whether
 * they can. by_rules: nothing is known about overlapping the defaults, so both parts must have a
 * choice of their tree. */
static int share(const attune_op *op, struct decision_made *d, const struct part *whole, int answer,
		 int by_rules)
{
	const int fused =
	    answer >= 0 && answer < op->num_choices && op->ready[answer].kernel->space->is_fused;
	const enum overlap_way way =
	    overlap_way(answer, fused, by_rules && (d->pick[0].id < 0 || d->pick[1].id < 0));
	struct picked f = { .named = -1, .id = answer == SAYS_ONE_LAUNCH ? d->pick[0].id : answer };
	if (way == RUN_SERIAL)
		return 1;
	const int is_choice = answer >= 0 || answer == SAYS_ONE_LAUNCH;
	if (is_choice && !can_run(op, f.id, way == RUN_ONE_LAUNCH ? whole : &d->s.part[0], &f.as))
		return 0;
	if (is_choice)
		d->pick[0] = f;
	else if (!spare(op, d, says_spares(answer)) && !by_rules)
		return 0;
	if (way == RUN_ONE_LAUNCH) {
		d->s.num_parts = 1;
		d->s.part[0] = *whole;
	} else {
		d->how = ATTUNE_STREAMS;
	}
	return 1;
}

int parts_of_batch(const attune_op *op, const attune_batch *batch, struct selection *s,
		   struct part *whole)
{
	struct batch_sums sums;
	batch_count(&sums, &op->shape, batch, &op->ctx->device.info);
	select_parts(s, op->heuristic, &sums, batch);
	parts_take_shorter(s->part, s->num_parts, batch->query_start);
	if (s->num_parts < 2 || !part_of_batch(whole, PHASE_ALL, &sums, batch))
		return 0;
	parts_take_shorter(whole, 1, batch->query_start);
	return 1;
}

/* given: what the parts have in the place of what the rules say; NULL: what was settled. Returns
 * whether all of it can run; the rules decide where it cannot. */
static int decide(const attune_op *op, const attune_batch *batch, int overlaps,
		  const struct instead *given, struct decision_made *d)
{
	struct instead in = { AS_RULES, { -1, -1 }, { 0, 0 } };
	struct part whole;
	int can = 1;
	d->how = ATTUNE_SERIAL;
	d->spared = 0;
	const int shares = parts_of_batch(op, batch, &d->s, &whole) && overlaps;
	if (given)
		in = *given;
	else if (atomic_load_explicit(&op->ctx->table, memory_order_acquire))
		op->ctx->ask(op, &d->s, shares ? &whole : NULL, &in);
	for (int i = 0; i < d->s.num_parts; i++)
		d->pick[i] = pick_part(op, &d->s, i, &in, &can);
	if (!shares)
		return can;
	if (in.overlap != AS_RULES) {
		pick_all(op, d);
		if (share(op, d, &whole, in.overlap, 0))
			return can;
	}
	if (op->heuristic)
		share(op, d, &whole, selector_says(op->heuristic, DECIDE_OVERLAP, &whole.f), 1);
	return can && in.overlap == AS_RULES;
}

/* Sets the units that the plan has its part leave free. Returns 0 if no plan has so many. */
static int take_spared(struct config *c, const struct space *s, int units,
		       const struct device_info *d)
{
	if (!units)
		return 1;
	const int axis = space_spares(s);
	if (axis < 0 || units < 0 || units % 16 || units > says_spares(SAYS_SPARING112) ||
	    units >= d->units)
		return 0;
	c->v[axis] = units;
	return 1;
}

const struct ready *planned(const attune_op *op, const attune_plan *plan, int i, struct config *c)
{
	const attune_part *p = &plan->part[i];
	const int early = plan->early[i];
	if (p->choice < 0 || p->choice >= op->num_ready || !op->ready[p->choice].code)
		return NULL;
	const struct ready *r = &op->ready[p->choice];
	const struct space *s = r->kernel->space;
	*c = r->config;
	if (s->early_axis >= 0 && plan->start == ATTUNE_START_EARLY)
		c->v[s->early_axis] = early;
	if (s->formula_axis >= 0)
		c->v[s->formula_axis] = p->resolved;
	return early >= 0 && early <= MOST_EARLY && (s->formula_axis < 0 || p->resolved > 0) &&
		       take_spared(c, s, plan->spared[i], &op->ctx->device.info)
		   ? r
		   : NULL;
}

/* The value on the early axis that the part takes if the caller lets it begin early. */
static int early_of(const attune_op *op, const struct kernel *k, const struct config *as,
		    const struct part *p)
{
	const int axis = k->space->early_axis;
	struct config c = *as;
	if (axis < 0)
		return 0;
	const int value =
	    op->heuristic ? selector_says(op->heuristic, DECIDE_EARLY, &p->f) : SAYS_OWN;
	if (value == SAYS_OWN)
		return as->v[axis];
	c.v[axis] = value;
	return k->space->why_illegal(&c, &op->shape, p, &op->ctx->device.info) ? as->v[axis]
									       : value;
}

/* What the pick means for this part, as `resolved` of attune_part; adds to the workspace. */
static int resolve(const attune_op *op, const struct picked *f, const struct part *p,
		   size_t *workspace)
{
	const struct device_info *d = &op->ctx->device.info;
	const struct kernel *k = op->ready[f->id].kernel;
	struct part known = *p;
	known.estimated = part_estimate(k, &f->as, &op->shape, p, d);
	const size_t need = part_workspace(k, &f->as, &op->shape, &known, d);
	*workspace = need > *workspace ? need : *workspace;
	return k->space->formula_axis < 0 ? known.estimated : f->as.v[k->space->formula_axis];
}

/* A choice that makes maps of the cache gets a stand-in, which runs the part over a cache whose
 * strides maps do not take. */
static void add_stand_in(const attune_op *op, attune_plan *plan, const struct picked *f,
			 const struct part *p)
{
	const int i = plan->num_parts;
	struct picked other = { .id = -1 };
	const int has_maps = !op->ctx->is_invariant && needs_maps(op, f, p);
	if (has_maps)
		other = pick_row(op, f->named, p, 1);
	if (other.id < 0 && has_maps)
		other = pick_behind(op, p, 1);
	plan->stand_in[i] = other.id + 1;
	plan->stand_in_resolved[i] =
	    other.id < 0 ? 0 : resolve(op, &other, p, &plan->part[i].workspace);
}

enum attune_status add_part(const attune_op *op, attune_plan *plan, const struct part *p,
			    struct picked f)
{
	attune_part *out = &plan->part[plan->num_parts];
	if (f.id < 0 && !op->ctx->is_invariant)
		f = pick_behind(op, p, 0);
	if (f.id < 0)
		return fail(
		    ATTUNE_UNSUPPORTED,
		    "no kernel can run queries of %d tokens over %lld keys%s%s%s%s", p->max_query,
		    p->f.max_seq, op->shape.kv_dtype == ATTUNE_E4M3 ? " of an E4M3 cache" : "",
		    op->shape.kv_layout == ATTUNE_KV_CLASSIC ? " in the classic layout" : "",
		    op->shape.has_lse ? " and give their LSE" : "",
		    op->ctx->is_invariant ? " with ATTUNE_INVARIANT=1" : "");
	const struct kernel *k = op->ready[f.id].kernel;
	plan->early[plan->num_parts] = early_of(op, k, &f.as, p);
	*out = (attune_part){
		.choice = f.id,
		.seq_begin = p->seq_begin,
		.seq_count = p->seq_count,
		.min_query = p->min_query,
		.max_query = p->max_query,
		.range_tokens = p->range_tokens,
		.prefill = p->prefill,
		.decode = p->decode,
		.max_seq = k->space->kv_layout == ATTUNE_KV_CLASSIC ? max_of(p->f.max_seq, 1) : 0,
	};
	out->resolved = resolve(op, &f, p, &out->workspace);
	add_stand_in(op, plan, &f, p);
	plan->num_parts++;
	return ATTUNE_OK;
}

static enum attune_status make_plan(const attune_op *op, const attune_batch *batch, int overlaps,
				    const struct instead *given, attune_plan *plan)
{
	struct decision_made d;
	enum attune_status status = ATTUNE_OK;
	*plan = (attune_plan){ .size = sizeof *plan, .op = op->id, .num_seqs = batch->num_seqs };
	plan->num_tokens = batch->num_seqs ? batch->query_start[batch->num_seqs] : 0;
	batch_table(batch, op->shape.page_size, &plan->table_seq, &plan->table_pages);
	plan_slices(plan, batch->query_start);
	if (!decide(op, batch, overlaps, given, &d) && given)
		return ATTUNE_UNSUPPORTED;
	plan->how = d.how;
	for (int i = 0; !status && i < d.s.num_parts; i++)
		status = add_part(op, plan, &d.s.part[i], d.pick[i]);
	plan->spared[0] = d.spared;
	const size_t part[] = { plan->part[0].workspace, plan->part[1].workspace };
	plan->workspace = op_workspace(op, plan->how, part, plan->num_parts, NULL, NULL);
	return status;
}

enum attune_status plan_serial(const attune_op *op, const attune_batch *batch, attune_plan *plan)
{
	return make_plan(op, batch, 0, NULL, plan);
}

enum attune_status plan_instead(const attune_op *op, const attune_batch *batch,
				const struct instead *given, attune_plan *plan)
{
	return make_plan(op, batch, 1, given, plan);
}

enum attune_status attune_plan_batch(const attune_op *op, const attune_batch *batch,
				     attune_plan *plan)
{
	static const char call[] = "attune_plan_batch";
	attune_batch own_batch;
	attune_plan own;
	if (!op || !batch || !plan)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	batch = batch_read(batch, &own_batch, call);
	attune_plan *made = sized_make(&plan_sized, plan, &own, call);
	if (!batch || !made)
		return ATTUNE_INVALID;
	const char *error = batch_error(batch, &op->shape);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	const enum attune_status status = make_plan(op, batch, 1, NULL, made);
	sized_give(&plan_sized, plan, made);
	return status;
}

struct part bounds_of(const attune_part *p)
{
	return (struct part){ .f.max_seq = p->max_seq,
			      .seq_begin = p->seq_begin,
			      .seq_count = p->seq_count,
			      .min_query = p->min_query,
			      .max_query = p->max_query,
			      .range_tokens = p->range_tokens,
			      .prefill = p->prefill,
			      .decode = p->decode,
			      .estimated =
				  p->resolved }; /* read only for kernels without a formula axis */
}

size_t schedule_at(const attune_op *op, const attune_plan *plan, int part)
{
	size_t at = 0;
	for (int i = 0; i < part; i++) {
		const struct part p = bounds_of(&plan->part[i]);
		at += part_schedule_words(op->ready[plan->part[i].choice].kernel, &p);
	}
	return at;
}

const char *why_not_of(const attune_op *op, const attune_plan *plan)
{
	struct config c;
	const char *why = plan_error(op, plan);
	for (int i = 0; !why && i < plan->num_parts; i++)
		if (!planned(op, plan, i, &c))
			why = plan_was_changed;
	return why;
}

enum attune_status attune_schedule(const attune_op *op, const attune_plan *plan,
				   const attune_batch *batch, int32_t *schedule, size_t room,
				   size_t *words)
{
	static const char call[] = "attune_schedule";
	attune_plan own_plan;
	attune_batch own_batch;
	if (!op || !plan || !batch || !words)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	plan = plan_read(plan, &own_plan, call);
	batch = plan ? batch_read(batch, &own_batch, call) : NULL;
	if (!batch)
		return ATTUNE_INVALID;
	const char *error = batch_error(batch, &op->shape);
	if (!error)
		error = why_not_of(op, plan);
	if (!error && !plan_takes(plan, batch, &op->shape))
		error = "the plan is not of this batch";
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	*words = schedule_at(op, plan, plan->num_parts);
	if (!schedule)
		return ATTUNE_OK;
	if (room < *words)
		return fail(ATTUNE_TOO_SMALL, "attune_schedule: room for %zu words, %zu are needed",
			    room, *words);
	for (int i = 0; i < plan->num_parts; i++) {
		const struct part p = bounds_of(&plan->part[i]);
		struct config c;
		const struct ready *r = planned(op, plan, i, &c);
		if (r->kernel->space->is_scheduled)
			part_schedule(schedule + schedule_at(op, plan, i), r->kernel, &c,
				      &op->shape, &p, &op->ctx->device.info, batch->query_start);
	}
	return ATTUNE_OK;
}

enum attune_status attune_plan_text(const attune_op *op, const attune_plan *plan, char *text,
				    size_t size)
{
	static const char call[] = "attune_plan_text";
	char part[2][MAX_PART_TEXT] = { "", "" };
	attune_plan own;
	if (!op || !plan || !text || !size)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	plan = plan_read(plan, &own, call);
	if (!plan)
		return ATTUNE_INVALID;
	const char *error = why_not_of(op, plan);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	for (int i = 0; i < plan->num_parts; i++) {
		struct choice c;
		c.kernel = planned(op, plan, i, &c.config)->kernel;
		choice_text(part[i], sizeof part[i], &c);
	}
	const int n = plan->num_parts == 2 ? parts_text(text, size, part[0], part[1], plan->how)
					   : snprintf(text, size, "%s", part[0]);
	return (size_t)n < size ? ATTUNE_OK
				: fail(ATTUNE_TOO_SMALL, "%s: the buffer is too small", call);
}
