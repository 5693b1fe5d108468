/* SPDX-License-Identifier: Apache-2.0 */
/* contender.c - what is timed: its choices, its text, and the plans of a mixed batch that race. */
#include "search.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/space.h"
#include <math.h>
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
		return a->bounds == b->bounds && a->memory == b->memory && a->nth == b->nth;
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

/* ---- plans ------------------------------------------------------------------------- */
/* Selects plans of a mixed batch: pairs of a prefill and a decode choice, after each was
 * raced alone:
 *
 *   A | B      serial: all pairs of the best choices of each part
 *   A || B     the best pair on two streams
 *   A' || B    the same with SMs left to B: A' is the best prefill choice whose kernel has
 *              SPARE_UNITS, with each number in `spares`
 *
 * Plans race together with the launches over the whole batch. A CPU has only serial plans, as
 * nothing runs concurrently there. */

enum { BEST = 2 /* choices of each part */ };
static const int spares[] = { 16, 32, 48, 64, 80, 96, 112 };
_Static_assert(BEST *BEST + 1 + COUNT(spares) == MAX_PLANS, "room for all plans");

/* Whether a choice of a prefill problem can leave so many units free. */
static int can_spare(const struct problems *all, const struct problem *problem, int place,
		     int spare)
{
	struct choice c = all->built_choice[problem->built_choice[place]].choice;
	return config_spare(&c.config, c.kernel->space, spare,
			    &all->scenarios[problem->scenario].shape, &problem->part, &all->device);
}

/* Lists the places of the fastest choices, the fastest first, of those that can leave `spare` units
 * free. How many. */
static int fastest(const struct problems *all, const struct problem *problem, int spare, int *place,
		   int most)
{
	int n = 0;
	for (int i = 0; i < problem->n; i++) {
		if (!isfinite(problem->us[i]) || (spare && !can_spare(all, problem, i, spare)))
			continue;
		int at = n < most ? n++ : most;
		for (; at > 0 && problem->us[place[at - 1]] > problem->us[i]; at--)
			if (at < most)
				place[at] = place[at - 1];
		if (at < most)
			place[at] = i;
	}
	return n;
}

/* Adds plans that leave units to the decode part. How many. */
static int add_split(const struct problems *all, struct contender from, struct contender *contender)
{
	const struct problem *prefill = &all->v[from.problem[0]];
	int n = 0;
	for (size_t i = 0; i < COUNT(spares); i++) {
		if (!fastest(all, prefill, spares[i], from.place, 1))
			continue;
		from.choice = contender_built(all, &from, 0)->choice;
		from.choice.config.v[space_spares(from.choice.kernel->space)] = spares[i];
		contender[n++] = from;
	}
	return n;
}

int plans_pick(const struct problems *all, int scenario, struct contender contender[MAX_PLANS])
{
	const struct problem *prefill = problems_find(all, scenario, PHASE_PREFILL);
	const struct problem *decode = problems_find(all, scenario, PHASE_DECODE);
	int a[BEST], b[BEST], n = 0;
	const int num_a = prefill ? fastest(all, prefill, 0, a, BEST) : 0;
	const int num_b = decode ? fastest(all, decode, 0, b, BEST) : 0;
	for (int i = 0; i < num_a; i++)
		for (int j = 0; j < num_b; j++) {
			struct contender *c = &contender[n++];
			*c = contender_at(all, prefill, a[i]);
			c->decode = contender_at(all, decode, b[j]).choice;
			c->problem[1] = (int)(decode - all->v);
			c->place[1] = b[j];
			c->is_plan = c->passed = 1;
		}
	if (!n || all->device.backend == BACKEND_CPU)
		return n;
	contender[n] = contender[0];
	contender[n++].how = ATTUNE_STREAMS;
	return n + add_split(all, contender[n - 1], contender + n);
}
