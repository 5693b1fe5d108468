/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - the members of a part, in an order that rules and part alone determine. */
#include "members.h"
#include "kernels/api/plan.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"

struct members {
	int n, *id;
};

/* The same choice may stand in the heuristic, the portable rules and the defaults. */
static void add(struct members *m, const attune_op *op, int id)
{
	for (int i = 0; i < m->n; i++)
		if (op->ready[m->id[i]].name == op->ready[id].name)
			return;
	if (m->n < MAX_MEMBERS)
		m->id[m->n++] = id;
}

static void add_row(struct members *m, const attune_op *op, int named)
{
	if (named < 0 || named >= op->num_ready)
		return;
	const struct attune_list *row = &op->ready[named].row;
	for (int i = 0; i < row->n; i++)
		add(m, op, row->at[i]);
}

/* The first `most` members; what stands behind them is not worked out. */
static int list(const attune_op *op, int named, const struct part *p, int most, int id[MAX_MEMBERS])
{
	struct members m = { 0, id };
	const int defaults = op->num_ready - op->first_default;
	const int few_rows = p->max_query <= DECODE_MAX_QUERY;
	add_row(&m, op, named);
	if (m.n >= most)
		return most;
	const int says = rules_say(op->portable, p);
	add_row(&m, op, says < 0 ? says : op->num_choices + says);
	for (int k = 0; k < defaults; k++)
		add(&m, op, op->first_default + (few_rows ? defaults - 1 - k : k));
	return m.n < most ? m.n : most;
}

int part_is_decode(const struct part *p)
{
	return p->f.max_query <= DECODE_MAX_QUERY;
}

int part_members(const attune_op *op, int named, const struct part *p, int id[MAX_MEMBERS])
{
	return list(op, named, p, MAX_MEMBERS, id);
}

int member_at(const attune_op *op, int named, const struct part *p, int place)
{
	int id[MAX_MEMBERS];
	return list(op, named, p, place + 1, id) > place ? id[place] : -1;
}

int member_place(const attune_op *op, int named, const struct part *p, int id)
{
	int members[MAX_MEMBERS];
	const int n = part_members(op, named, p, members);
	for (int i = 0; i < n; i++)
		if (op->ready[members[i]].name == op->ready[id].name)
			return i;
	return -1;
}

int fused_choice(const attune_op *op, const struct part *whole)
{
	struct config as;
	const int says =
	    op->heuristic ? selector_says(op->heuristic, DECIDE_OVERLAP, &whole->f) : SAYS_SERIAL;
	if (says >= 0 && says < op->num_choices && op->ready[says].kernel->space->is_fused)
		return says;
	for (int i = 0; i < op->num_choices; i++)
		if (op->ready[i].kernel->space->is_fused && can_run(op, i, whole, &as))
			return i;
	return -1;
}

int overlaps_parts(const attune_op *op)
{
	return op->ctx->device.info.backend == BACKEND_GPU && !op->ctx->is_invariant;
}
