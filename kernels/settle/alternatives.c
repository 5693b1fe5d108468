/* SPDX-License-Identifier: Apache-2.0 */
/* alternatives.c - lists the plans of a batch that are worth a race (alternatives.h), and gives
 * them to programs that time themselves (attune_plan_alternatives). */
#include "alternatives.h"
#include "look.h"
#include "members.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SWAPS = 2 /* of each part */ };

int alternatives_find(const struct alternatives *a, const attune_plan *plan)
{
	for (int i = 0; i < a->n; i++)
		if (attune_plan_serves(&a->plan[i], plan) == ATTUNE_SERVES_ALIKE)
			return i;
	return -1;
}

enum attune_status alternatives_start(struct alternatives *a, const attune_op *op,
				      const attune_batch *batch)
{
	static const struct instead nothing = { AS_RULES, { -1, -1 }, { 0, 0 } };
	*a = (struct alternatives){ .op = op, .batch = batch, .n = 1 };
	a->is_mixed = parts_of_batch(op, batch, &a->parts, &a->whole);
	a->of[0] = (struct settled_plan){ .way = WAY_AS_RULES, .id = { -1, -1 } };
	return plan_instead(op, batch, &nothing, &a->plan[0]);
}

/* Has p name the members that planning finds by their places: a choice may stand in an op twice. 0:
 * a memory cannot name all of it. */
static int as_remembered(const struct alternatives *a, struct settled_plan *p)
{
	for (int i = 0; i < a->parts.num_parts; i++) {
		const struct part *part = &a->parts.part[i];
		const int named = a->parts.choice[i], of = part_is_decode(part);
		const int place = p->id[of] < 0 ? 0 : member_place(a->op, named, part, p->id[of]);
		if (place < 0 || abs(p->step[of]) > MOST_STEPS)
			return 0;
		p->id[of] = p->id[of] < 0 ? -1 : member_at(a->op, named, part, place);
	}
	return 1;
}

int alternatives_add(struct alternatives *a, struct settled_plan p)
{
	struct instead in = { .overlap = AS_RULES };
	if (p.way != WAY_AS_RULES)
		in.overlap = answer_of_way(a->op, p.way, &a->whole);
	if (a->n == ATTUNE_MOST_ALTERNATIVES || (p.way != WAY_AS_RULES && in.overlap == AS_RULES) ||
	    !as_remembered(a, &p))
		return -1;
	memcpy(in.id, p.id, sizeof in.id);
	memcpy(in.step, p.step, sizeof in.step);
	if (plan_instead(a->op, a->batch, &in, &a->plan[a->n]) ||
	    alternatives_find(a, &a->plan[a->n]) >= 0)
		return -1;
	p.us = 0;
	a->of[a->n] = p;
	return a->n++;
}

static struct settled_plan of_part(int is_decodes, int id, int step)
{
	struct settled_plan p = { .way = WAY_AS_RULES, .id = { -1, -1 } };
	p.id[is_decodes] = id;
	p.step[is_decodes] = step;
	return p;
}

/* Defaults are raced only where nothing else but the first is. */
void alternatives_add_members(struct alternatives *a)
{
	int member[MAX_MEMBERS];
	const struct part *p = &a->parts.part[0];
	const int n =
	    a->parts.num_parts == 1 ? part_members(a->op, a->parts.choice[0], p, member) : 0;
	for (int defaults = 0; defaults < 2 && a->n < 2; defaults++)
		for (int i = 0; i < n; i++)
			if ((member[i] >= a->op->first_default) == defaults)
				alternatives_add(a, of_part(part_is_decode(p), member[i], 0));
}

int alternatives_add_step(struct alternatives *a, int from, int more)
{
	const attune_part *planned = &a->plan[from].part[0];
	if (a->parts.num_parts != 1)
		return -1;
	const int of = part_is_decode(&a->parts.part[0]);
	const struct space *s = a->op->ready[planned->choice].kernel->space;
	if (s->formula_axis < 0 || (!of && planned->resolved <= 1))
		return -1;
	return alternatives_add(a, of_part(of, planned->choice, a->of[from].step[of] + more));
}

void alternatives_add_ways(struct alternatives *a, struct settled_plan parts)
{
	static const int ways[] = { WAY_SERIES,        WAY_STREAMS,       WAY_SPARING16,
				    WAY_SPARING16 + 1, WAY_SPARING16 + 3, WAY_ONE_LAUNCH,
				    WAY_FUSED };
	for (size_t i = 0; i < COUNT(ways); i++) {
		parts.way = ways[i];
		alternatives_add(a, parts);
	}
}

/* ---- attune_plan_alternatives ---------------------------------------------------------------- */

/* The way of a plan of a mixed batch. */
static int way_of(const attune_op *op, const attune_plan *plan)
{
	if (plan->num_parts == 1)
		return op->ready[plan->part[0].choice].kernel->space->is_fused ? WAY_FUSED
									       : WAY_ONE_LAUNCH;
	return plan->how == ATTUNE_SERIAL ? WAY_SERIES : WAY_STREAMS + plan->spared[0] / 16;
}

/* By how many values of its axis SEGMENTS a part of a plan has more than its choice's costs say. */
static int step_of(const attune_op *op, const attune_part *planned, const struct part *p)
{
	const struct ready *r = &op->ready[planned->choice];
	const int axis = r->kernel->space->formula_axis;
	const struct axis *a = axis < 0 ? NULL : &r->kernel->space->axis[axis];
	struct config as;
	int step = 0;
	if (!a || !can_run(op, planned->choice, p, &as))
		return 0;
	for (int i = 0; i < a->num_values; i++)
		step += (a->values[i] < planned->resolved) - (a->values[i] < as.v[axis]);
	return step;
}

/* The parts of a plan by their choices and steps; its own, where they are members. */
static enum attune_status parts_of_plan(const struct alternatives *a, const attune_plan *plan,
					struct settled_plan *p)
{
	attune_plan serial = { .size = sizeof serial };
	const enum attune_status status = plan_serial(a->op, a->batch, &serial);
	*p = (struct settled_plan){ .way = WAY_AS_RULES, .id = { -1, -1 } };
	for (int i = 0; i < a->parts.num_parts && !status; i++) {
		const struct part *part = &a->parts.part[i];
		const attune_part *own =
		    plan->num_parts == a->parts.num_parts ? &plan->part[i] : &serial.part[i];
		if (member_place(a->op, a->parts.choice[i], part, own->choice) < 0)
			own = &serial.part[i];
		p->id[part_is_decode(part)] = own->choice;
		p->step[part_is_decode(part)] = step_of(a->op, own, part);
	}
	return status;
}

/* Adds plans that differ from a plan in one choice. */
static void add_swaps(struct alternatives *a, const struct settled_plan *from)
{
	for (int i = 0; i < 2; i++) {
		int member[MAX_MEMBERS], swaps = 0;
		const int n = part_members(a->op, a->parts.choice[i], &a->parts.part[i], member);
		for (int k = 0; k < n && swaps < MOST_SWAPS; k++) {
			struct settled_plan other = *from;
			other.id[i] = member[k];
			other.step[i] = 0;
			swaps += alternatives_add(a, other) >= 0;
		}
	}
}

static void add_mixed(struct alternatives *a, struct settled_plan present, int way)
{
	present.way = way;
	alternatives_add(a, present);
	alternatives_add_ways(a, present);
	if (way != WAY_FUSED)
		add_swaps(a, &present);
}

/* The place of the plan that now runs, which may have choices of the overlap tree beside a member,
 * and a member that a full list has no room for. */
static int add_present(struct alternatives *a, const attune_plan *now, struct settled_plan parts)
{
	int at = alternatives_find(a, now);
	if (at < 0)
		at = alternatives_add(a, parts);
	if (at < 0 && a->is_mixed) {
		parts.id[0] = -1;
		parts.step[0] = 0;
		at = alternatives_add(a, parts);
	}
	return at;
}

enum attune_status alternatives_all(struct alternatives *a, const attune_op *op,
				    const attune_batch *batch, int *present)
{
	attune_plan now = { .size = sizeof now };
	struct settled_plan parts;
	enum attune_status status = alternatives_start(a, op, batch);
	if (!status)
		status = attune_plan_batch(op, batch, &now);
	if (!status)
		status = parts_of_plan(a, &now, &parts);
	if (status)
		return status;
	if (a->is_mixed)
		add_mixed(a, parts, way_of(op, &now));
	alternatives_add_members(a);
	*present = add_present(a, &now, parts);
	for (int more = -1; more <= 1 && *present >= 0; more += 2)
		alternatives_add_step(a, *present, more);
	return *present < 0 ? fail(ATTUNE_DEVICE_ERROR, "the present plan is no alternative")
			    : ATTUNE_OK;
}

const attune_batch *settle_batch(const attune_op *op, const attune_batch *batch, attune_batch *own,
				 const char *call, enum attune_status *status)
{
	*status = ATTUNE_INVALID;
	batch = batch_read(batch, own, call);
	const char *error = batch ? batch_error(batch, &op->shape) : NULL;
	if (error)
		fail(ATTUNE_INVALID, "%s: %s", call, error);
	else if (batch && op->ctx->is_invariant)
		*status =
		    fail(ATTUNE_UNSUPPORTED,
			 "%s: with ATTUNE_INVARIANT=1 the shape alone decides what runs", call);
	else if (batch)
		*status = ATTUNE_OK;
	return *status ? NULL : batch;
}

enum attune_status attune_plan_alternatives(const attune_op *op, const attune_batch *batch,
					    attune_plan *plans, int room, int *n)
{
	static const char call[] = "attune_plan_alternatives";
	struct alternatives a;
	attune_batch own_batch;
	attune_plan own;
	enum attune_status status;
	int present;
	if (!op || !batch || !n || (!plans && room > 0))
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	batch = settle_batch(op, batch, &own_batch, call, &status);
	if (batch)
		status = alternatives_all(&a, op, batch, &present);
	if (status)
		return status;
	*n = a.n;
	if (room < a.n)
		return fail(ATTUNE_TOO_SMALL, "%s: room for %d plans, %d are needed", call, room,
			    a.n);
	if (!sized_make(&plan_sized, plans, &own, call))
		return ATTUNE_INVALID;
	const uint32_t size = plans->size;
	for (int i = 0; i < a.n; i++) {
		char *at = (char *)plans + (size_t)i * size;
		memcpy(at, &size, sizeof size);
		/* the present one, then the others in their order */
		const int from = !i ? present : i <= present ? i - 1 : i;
		sized_give(&plan_sized, at, &a.plan[from]);
	}
	return ATTUNE_OK;
}
