/* contender.c - the choice that a contender runs, and the text of a plan. */
#include "search.h"
#include "kernels/spec/space.h"
#include <string.h>

struct choice contender_choice(const struct problems *all, const struct contender *contender,
			       int part)
{
	struct choice c =
	    all->built_choice[all->v[contender->problem[part]].built_choice[contender->place[part]]]
		.choice;
	if (!part && contender->spare)
		c.config.v[space_spares(c.kernel->space)] = contender->spare;
	return c;
}

int contender_same(const struct contender *a, const struct contender *b)
{
	return !memcmp(a->problem, b->problem, sizeof a->problem) &&
	       !memcmp(a->place, b->place, sizeof a->place) && a->how == b->how &&
	       a->spare == b->spare && a->is_library == b->is_library && a->bounds == b->bounds;
}

void plan_text(char text[MAX_PLAN_TEXT], const struct problems *all,
	       const struct contender *contender)
{
	char part[2][MAX_PART_TEXT];
	for (int i = 0; i < 2; i++) {
		const struct choice c = contender_choice(all, contender, i);
		choice_text(part[i], sizeof part[i], &c);
	}
	parts_text(text, MAX_PLAN_TEXT, part[0], part[1], contender->how);
}
