/* problem_fill.c - the choices of a sweep, and the candidates of one problem: those of its shape that
 * are legal for its part, and what replaces those that are not. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices ------------------------------------------------------------------- */

static int family_of(struct problems *all, const struct choice *c)
{
	const struct choice first = choice_family(c);
	for (int i = 0; i < all->num_families; i++)
		if (choice_same(&all->family[i], &first))
			return i;
	if (!array_grow(&all->family, all->num_families, &all->family_room, sizeof *all->family)) {
		complain("out of memory");
		return -1;
	}
	all->family[all->num_families] = first;
	return all->num_families++;
}

int problems_add_choice(struct problems *all, struct binaries *b, const struct candidate *c,
			const attune_shape *shape)
{
	const int built = binaries_add(b, &c->choice, shape);
	int *last = &all->by_choice.last[choice_chain(&c->choice)];
	for (int i = *last - 1; i >= 0; i = all->built_choice[i].next - 1) {
		struct built_choice *e = &all->built_choice[i];
		if (e->built != built || !choice_same(&e->choice, &c->choice))
			continue;
		if (c->origin < e->origin)
			e->origin = c->origin;
		return i;
	}
	const int family = family_of(all, &c->choice);
	if (built < 0 || family < 0)
		return -1;
	if (!array_grow(&all->built_choice, all->num_built_choices, &all->built_choice_room,
			sizeof *all->built_choice)) {
		complain("out of memory");
		return -1;
	}
	struct built_choice *v = all->built_choice + all->num_built_choices;
	*v = (struct built_choice){ .choice = c->choice,
				    .origin = c->origin,
				    .family = family,
				    .built = built,
				    .next = *last };
	if (!binaries_add_helpers(b, &v->choice, shape, v->helper))
		return -1;
	*last = ++all->num_built_choices;
	return all->num_built_choices - 1;
}

int problem_add_candidate(struct problem *problem, int built_choice)
{
	for (int i = 0; built_choice <= problem->top && i < problem->n; i++)
		if (problem->built_choice[i] == built_choice)
			return i;
	const size_t n = (size_t)problem->n + 1;
	if (!(problem->n & (problem->n - 1))) { /* grows in powers of two */
		const size_t room = problem->n ? 2 * (size_t)problem->n : 1;
		int *e = realloc(problem->built_choice, room * sizeof *e);
		problem->built_choice = e ? e : problem->built_choice;
		double *us = realloc(problem->us, room * sizeof *us);
		problem->us = us ? us : problem->us;
		char *bytes[4], **const at[4] = { &problem->near, &problem->stored, &problem->noisy,
						  &problem->stage };
		int ok = e && us;
		for (size_t i = 0; i < COUNT(at); i++) {
			bytes[i] = realloc(*at[i], room);
			*at[i] = bytes[i] ? bytes[i] : *at[i];
			ok &= bytes[i] != NULL;
		}
		if (!ok) {
			complain("out of memory");
			return -1;
		}
	}
	problem->built_choice[problem->n] = built_choice;
	problem->top = built_choice > problem->top ? built_choice : problem->top;
	problem->us[problem->n] = NAN;
	problem->near[problem->n] = problem->stored[problem->n] = problem->noisy[problem->n] =
	    problem->stage[problem->n] = 0;
	problem->n = (int)n;
	return problem->n - 1;
}

/* ---- candidates ---------------------------------------------------------------- */

/* Values of the kernel's formulas, cached while the other axes are equal. */
struct formula_values {
	const struct kernel *kernel;
	struct config others; /* the formula axis: 0 */
	int value[16], n;
};

static void ask_formulas(struct formula_values *a, const struct choice *c, const attune_shape *s,
			 const struct part *p, const struct device_info *d)
{
	const struct space *space = c->kernel->space;
	struct config others = c->config, out;
	others.v[space->formula_axis] = 0;
	if (a->kernel == c->kernel && !memcmp(&a->others, &others, sizeof others))
		return;
	*a = (struct formula_values){ .kernel = c->kernel, .others = others };
	for (int i = 0; i < space->num_formulas && a->n < (int)COUNT(a->value); i++) {
		struct config f = others;
		f.v[space->formula_axis] = -1 - i;
		if (!config_resolve(&out, &f, c->kernel, s, p, d))
			a->value[a->n++] = out.v[space->formula_axis];
	}
}

/* 2: a formula gives this value; 1: a formula gives one within a factor of 2; 0: else. */
static int is_near(struct formula_values *a, const struct choice *c, const attune_shape *s,
		   const struct part *p, const struct device_info *d)
{
	const int axis = c->kernel->space->formula_axis;
	if (axis < 0)
		return 2;
	ask_formulas(a, c, s, p, d);
	int near = !a->n;
	for (int i = 0; i < a->n; i++) {
		const int mine = c->config.v[axis], its = a->value[i];
		if (mine == its)
			return 2;
		near |= mine <= 2 * its && its <= 2 * mine;
	}
	return near;
}

/* What candidates of a problem are taken from and go to. */
struct filling {
	struct problems *all;
	struct problem *problem;
	struct binaries *b;
	const struct candidate_options *f;
	const attune_shape *shape;
	struct formula_values asked;
};

/* built_choice: the candidate's number; -1: no memory. */
static int enter(struct filling *x, const struct choice *c, int built_choice)
{
	const int place = built_choice < 0 ? -1 : problem_add_candidate(x->problem, built_choice);
	if (place >= 0)
		x->problem->near[place] =
		    (char)is_near(&x->asked, c, x->shape, &x->problem->part, x->f->device);
	return place >= 0;
}

/* The legal choices around the one that replaced a default: few of the shape's candidates, which lie
 * around the default itself, are legal here. */
static int enter_neighbours(struct filling *x, const struct choice *of)
{
	struct candidates near = { 0 };
	int ok = candidates_add_neighbours(&near, of->kernel, &of->config, x->shape,
					   &x->problem->part, x->f->device);
	for (int i = 0; ok && i < near.n; i++)
		ok = enter(x, &near.v[i].choice,
			   problems_add_choice(x->all, x->b, &near.v[i], x->shape));
	free(near.v);
	return ok;
}

/* A default or baseline that is illegal here is replaced by the nearest legal choice. */
static int enter_nearest(struct filling *x, struct candidate c)
{
	const struct kernel *k = c.choice.kernel;
	const struct config wanted = c.choice.config;
	const int is_default = c.origin == FROM_DEFAULT;
	if (!(is_default ? nearest_legal(&c.choice.config, k, &wanted, x->shape, &x->problem->part,
					 x->f->device)
			 : baseline_nearest(&c.choice.config, k, x->shape, &x->problem->part,
					    x->f->device)))
		return 1;
	return enter(x, &c.choice, problems_add_choice(x->all, x->b, &c, x->shape)) &&
	       (!is_default || x->f->preset != PRESET_QUICK || x->f->keep ||
		enter_neighbours(x, &c.choice));
}

int problem_fill(struct problems *all, struct problem *problem, struct binaries *b,
		 const struct candidate_options *f, const struct candidates *list,
		 const int *built_choice)
{
	const attune_shape *shape = &all->scenarios[problem->scenario].shape;
	struct filling x = { .all = all, .problem = problem, .b = b, .f = f, .shape = shape };
	for (int i = 0; i < list->n; i++) {
		const struct candidate *c = &list->v[i];
		const struct kernel *k = c->choice.kernel;
		if (scales_refused(k, scenario_scales(&all->scenarios[problem->scenario])))
			continue;
		const int legal =
		    !k->space->why_illegal(&c->choice.config, shape, &problem->part, f->device);
		if (legal ? !enter(&x, &c->choice, built_choice[i])
			  : c->origin <= FROM_BASELINE && !enter_nearest(&x, *c))
			return 0;
	}
	return 1;
}
