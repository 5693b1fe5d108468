/* contender.c - a contender of a race is a lane. This file gives the choice that a lane runs, and
 * the text of a plan of two parts. */
#include "search.h"

struct choice lane_choice(const struct heats *h, const struct lane *lane, int part)
{
	struct choice c = h->entrant[h->v[lane->heat[part]].entrant[lane->place[part]]].choice;
	if (!part && lane->spare)
		c.config.v[space_spares(c.kernel->space)] = lane->spare;
	return c;
}

void plan_text(char text[MAX_PLAN_TEXT], const struct heats *h, const struct lane *lane)
{
	char part[2][MAX_PART_TEXT];
	for (int i = 0; i < 2; i++) {
		const struct choice c = lane_choice(h, lane, i);
		choice_text(part[i], sizeof part[i], &c);
	}
	parts_text(text, MAX_PLAN_TEXT, part[0], part[1], lane->how);
}
