/* SPDX-License-Identifier: Apache-2.0 */
/* any_value.h - values of the table that name members, whichever there are. */
#ifndef TESTS_SETTLE_ANY_VALUE_H
#define TESTS_SETTLE_ANY_VALUE_H

#include "kernels/settle/members.h"
#include "kernels/settle/table.h"
#include "kernels/spec/part.h"

/* By the way and the places; the checks are right where there are such members. */
static inline unsigned value_naming(const attune_op *op, const struct selection *s, int way,
				    const int place[2], int step)
{
	struct remembered m[2] = { { place[0], step, 0 }, { place[1], step, 0 } };
	for (int i = 0; i < s->num_parts; i++) {
		const int of = s->part[i].f.max_query <= DECODE_MAX_QUERY;
		const int id = member_at(op, s->choice[i], &s->part[i], place[of]);
		if (place[of] != MEMBER_AS_RULES && id >= 0)
			m[of].check = member_check(op, id);
	}
	return value_of(way, m[0], m[1]);
}

#endif
