/* contender.c - what is timed: its choices, and its text. */
#include "search.h"
#include <stdio.h>

int contender_parts(const struct contender *c)
{
	return c->is_library ? 0 : 1 + c->is_plan;
}

const struct choice *contender_choice(const struct contender *c, int part)
{
	return part ? &c->decode : &c->choice;
}

enum phase contender_phase(const struct contender *c, int part)
{
	return !c->is_plan ? c->phase : part ? PHASE_DECODE : PHASE_PREFILL;
}

struct built_choice *contender_built(const struct problems *all, const struct contender *c,
				     int part)
{
	return &all->built_choice[all->v[c->problem[part]].built_choice[c->place[part]]];
}

struct contender contender_at(const struct problems *all, const struct problem *problem, int place)
{
	return (struct contender){ .scenario = problem->scenario,
				   .phase = problem->phase,
				   .choice = all->built_choice[problem->built_choice[place]].choice,
				   .problem = { (int)(problem - all->v), -1 },
				   .place = { place },
				   .wanted = 1 };
}

int contender_same(const struct contender *a, const struct contender *b)
{
	if (a->scenario != b->scenario || a->is_plan != b->is_plan ||
	    a->is_library != b->is_library)
		return 0;
	if (a->is_library)
		return a->bounds == b->bounds;
	return choice_same(&a->choice, &b->choice) &&
	       (a->is_plan ? a->how == b->how && choice_same(&a->decode, &b->decode)
			   : a->phase == b->phase);
}

void contender_text(char text[MAX_PLAN_TEXT], const struct contender *c)
{
	char part[2][MAX_PART_TEXT] = { "" };
	for (int i = 0; i < contender_parts(c); i++)
		choice_text(part[i], sizeof part[i], contender_choice(c, i));
	if (c->is_plan)
		parts_text(text, MAX_PLAN_TEXT, part[0], part[1], c->how);
	else
		snprintf(text, MAX_PLAN_TEXT, "%s", part[0]);
}
