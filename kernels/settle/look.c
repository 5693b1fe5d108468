/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - looks up the cells of a batch's parts, and of the way to run both. */
#include "look.h"
#include "cell.h"
#include "members.h"
#include "table.h"
#include "kernels/spec/part.h"

int answer_of_way(const attune_op *op, int way, const struct part *whole)
{
	if (way == WAY_SERIES)
		return SAYS_SERIAL;
	if (way >= WAY_STREAMS && way <= WAY_SPARING112 && overlaps_parts(op))
		return SAYS_STREAMS - (way - WAY_STREAMS);
	if (way == WAY_ONE_LAUNCH)
		return SAYS_ONE_LAUNCH;
	const int fused = way == WAY_FUSED ? fused_choice(op, whole) : -1;
	return fused < 0 ? AS_RULES : fused;
}

/* What the part's own cell has where m is MEMBER_AS_RULES. */
static void look_at_part(const attune_op *op, const struct settled_table *t, int named,
			 const struct part *p, struct remembered m, struct instead *in)
{
	const int of = part_is_decode(p);
	if (m.place == MEMBER_AS_RULES)
		m = value_member(
		    table_find(t, cell_hash(op, of ? CELL_DECODE : CELL_PREFILL, &named, p, NULL)),
		    of);
	const int id = m.place == MEMBER_AS_RULES ? -1 : member_at(op, named, p, m.place);
	if (id < 0 || member_check(op, id) != m.check)
		return;
	in->id[of] = id;
	in->step[of] = m.step;
}

void settled_look(const attune_op *op, const struct selection *s, const struct part *whole,
		  struct instead *in)
{
	const struct settled_table *t = atomic_load_explicit(&op->ctx->table, memory_order_acquire);
	const unsigned both =
	    whole ? table_find(t, cell_hash(op, CELL_MIXED, s->choice, s->part, whole))
		  : VALUE_AS_RULES;
	if (value_way(both) != WAY_AS_RULES)
		in->overlap = answer_of_way(op, value_way(both), whole);
	for (int i = 0; i < s->num_parts; i++)
		look_at_part(op, t, s->choice[i], &s->part[i],
			     value_member(both, part_is_decode(&s->part[i])), in);
}
