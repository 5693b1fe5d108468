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
#include <string.h>

enum { MOST_SWAPS = 2 /* of each part */ };

static int is_decode(const struct part *p)
{
	return p->f.max_query <= DECODE_MAX_QUERY;
}

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
	static const struct instead nothing = { AS_RULES, { -1, -1 } };
	*a = (struct alternatives){ .op = op, .batch = batch, .n = 1 };
	a->is_mixed = parts_of_batch(op, batch, &a->parts, &a->whole);
	a->of[0] = (struct settled_plan){ .way = WAY_AS_RULES, .id = { -1, -1 } };
	return plan_instead(op, batch, &nothing, &a->plan[0]);
}

/* The ids of the members that planning finds by their places: a choice may stand in an op twice. 0:
 * one is no member. */
static int as_members(const struct alternatives *a, int id[2])
{
	for (int i = 0; i < a->parts.num_parts; i++) {
		const struct part *p = &a->parts.part[i];
		const int named = a->parts.choice[i], of = is_decode(p);
		const int place = id[of] < 0 ? 0 : member_place(a->op, named, p, id[of]);
		if (place < 0)
			return 0;
		id[of] = id[of] < 0 ? -1 : member_at(a->op, named, p, place);
	}
	return 1;
}

int alternatives_add(struct alternatives *a, int way, const int id[2])
{
	struct instead in = { AS_RULES, { id[0], id[1] } };
	if (way != WAY_AS_RULES)
		in.overlap = answer_of_way(a->op, way, &a->whole);
	if (a->n == ATTUNE_MOST_ALTERNATIVES || (way != WAY_AS_RULES && in.overlap == AS_RULES) ||
	    !as_members(a, in.id) || plan_instead(a->op, a->batch, &in, &a->plan[a->n]) ||
	    alternatives_find(a, &a->plan[a->n]) >= 0)
		return -1;
	a->of[a->n] = (struct settled_plan){ .way = way, .id = { in.id[0], in.id[1] } };
	return a->n++;
}

/* Defaults are raced only where nothing else but the first is. */
void alternatives_add_members(struct alternatives *a)
{
	int member[MAX_MEMBERS];
	const struct part *p = &a->parts.part[0];
	const int n =
	    a->parts.num_parts == 1 ? part_members(a->op, a->parts.choice[0], p, member) : 0;
	for (int defaults = 0; defaults < 2 && a->n < 2; defaults++)
		for (int i = 0; i < n && a->n < MOST_RACED_MEMBERS; i++) {
			int id[2] = { -1, -1 };
			id[is_decode(p)] = member[i];
			if ((member[i] >= a->op->first_default) == defaults)
				alternatives_add(a, WAY_AS_RULES, id);
		}
}

void alternatives_add_ways(struct alternatives *a, const int id[2])
{
	static const int ways[] = { WAY_SERIES,        WAY_STREAMS,       WAY_SPARING16,
				    WAY_SPARING16 + 1, WAY_SPARING16 + 3, WAY_ONE_LAUNCH,
				    WAY_FUSED };
	for (size_t i = 0; i < COUNT(ways); i++)
		alternatives_add(a, ways[i], id);
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

/* The choices of the parts: the plan's own, where they are members. */
static enum attune_status choices_of(const struct alternatives *a, const attune_plan *plan,
				     int id[2])
{
	attune_plan serial = { .size = sizeof serial };
	const enum attune_status status = plan_serial(a->op, a->batch, &serial);
	for (int i = 0; i < 2 && !status; i++) {
		const int own = plan->part[i].choice;
		id[i] = i < plan->num_parts &&
				member_place(a->op, a->parts.choice[i], &a->parts.part[i], own) >= 0
			    ? own
			    : serial.part[i].choice;
	}
	return status;
}

/* Adds plans that differ from a way with these choices in one of them. */
static void add_swaps(struct alternatives *a, int way, const int id[2])
{
	for (int i = 0; i < 2; i++) {
		int member[MAX_MEMBERS], swaps = 0;
		const int n = part_members(a->op, a->parts.choice[i], &a->parts.part[i], member);
		for (int k = 0; k < n && swaps < MOST_SWAPS; k++) {
			const int other[2] = { i ? id[0] : member[k], i ? member[k] : id[1] };
			swaps += alternatives_add(a, way, other) >= 0;
		}
	}
}

static enum attune_status add_mixed(struct alternatives *a, const attune_plan *present)
{
	int id[2];
	const enum attune_status status = choices_of(a, present, id);
	const int way = way_of(a->op, present);
	if (status)
		return status;
	alternatives_add(a, way, id);
	alternatives_add_ways(a, id);
	if (way != WAY_FUSED)
		add_swaps(a, way, id);
	return ATTUNE_OK;
}

enum attune_status alternatives_all(struct alternatives *a, const attune_op *op,
				    const attune_batch *batch, int *present)
{
	attune_plan now = { .size = sizeof now };
	enum attune_status status = alternatives_start(a, op, batch);
	if (!status)
		status = attune_plan_batch(op, batch, &now);
	if (!status && a->is_mixed)
		status = add_mixed(a, &now);
	if (status)
		return status;
	alternatives_add_members(a);
	*present = alternatives_find(a, &now);
	if (*present <
	    0) { /* a member behind those that race; decodes beside a choice of the overlap tree */
		int id[2] = { -1, -1 };
		id[a->is_mixed || is_decode(&a->parts.part[0])] =
		    now.part[now.num_parts - 1].choice;
		*present = alternatives_add(a, WAY_AS_RULES, id);
	}
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
