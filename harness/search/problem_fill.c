/* problem_fill.c - the choices of a sweep, and the candidates of one problem: those of its shape that
 * are legal for its part, and what replaces those that are not. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices ------------------------------------------------------------------- */

static int family_of(struct problems *h, const struct choice *c)
{
	const struct choice first = choice_family(c);
	for (int i = 0; i < h->num_families; i++)
		if (choice_same(&h->family[i], &first))
			return i;
	if (!array_grow(&h->family, h->num_families, &h->family_room, sizeof *h->family)) {
		complain("out of memory");
		return -1;
	}
	h->family[h->num_families] = first;
	return h->num_families++;
}

int problems_add_choice(struct problems *h, struct binaries *b, const struct candidate *c,
			const attune_shape *shape)
{
	const int built = binaries_add(b, &c->choice, shape);
	int *last = &h->by_choice.last[choice_chain(&c->choice)];
	for (int i = *last - 1; i >= 0; i = h->built_choice[i].next - 1) {
		struct built_choice *e = &h->built_choice[i];
		if (e->built != built || !choice_same(&e->choice, &c->choice))
			continue;
		if (c->origin < e->origin)
			e->origin = c->origin;
		return i;
	}
	const int family = family_of(h, &c->choice);
	if (built < 0 || family < 0)
		return -1;
	if (!array_grow(&h->built_choice, h->num_built_choices, &h->built_choice_room,
			sizeof *h->built_choice)) {
		complain("out of memory");
		return -1;
	}
	struct built_choice *v = h->built_choice + h->num_built_choices;
	*v = (struct built_choice){ .choice = c->choice,
				    .origin = c->origin,
				    .family = family,
				    .built = built,
				    .next = *last };
	if (!binaries_add_helpers(b, &v->choice, shape, v->helper))
		return -1;
	*last = ++h->num_built_choices;
	return h->num_built_choices - 1;
}

int problem_add_candidate(struct problem *h, int built_choice)
{
	for (int i = 0; built_choice <= h->top && i < h->n; i++)
		if (h->built_choice[i] == built_choice)
			return i;
	const size_t n = (size_t)h->n + 1;
	if (!(h->n & (h->n - 1))) { /* grows in powers of two */
		const size_t room = h->n ? 2 * (size_t)h->n : 1;
		int *e = realloc(h->built_choice, room * sizeof *e);
		h->built_choice = e ? e : h->built_choice;
		double *us = realloc(h->us, room * sizeof *us);
		h->us = us ? us : h->us;
		char *bytes[4], **const at[4] = { &h->near, &h->stored, &h->noisy, &h->stage };
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
	h->built_choice[h->n] = built_choice;
	h->top = built_choice > h->top ? built_choice : h->top;
	h->us[h->n] = NAN;
	h->near[h->n] = h->stored[h->n] = h->noisy[h->n] = h->stage[h->n] = 0;
	h->n = (int)n;
	return h->n - 1;
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
	struct problem *h;
	struct binaries *b;
	const struct candidate_options *f;
	const attune_shape *shape;
	struct formula_values asked;
};

/* built_choice: the candidate's number; -1: no memory. */
static int enter(struct filling *x, const struct choice *c, int built_choice)
{
	const int place = built_choice < 0 ? -1 : problem_add_candidate(x->h, built_choice);
	if (place >= 0)
		x->h->near[place] =
		    (char)is_near(&x->asked, c, x->shape, &x->h->part, x->f->device);
	return place >= 0;
}

/* The legal choices around the one that replaced a default: few of the shape's candidates, which lie
 * around the default itself, are legal here. */
static int enter_neighbours(struct filling *x, const struct choice *of)
{
	struct candidates near = { 0 };
	int ok = candidates_add_neighbours(&near, of->kernel, &of->config, x->shape, &x->h->part,
					   x->f->device);
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
	if (!(is_default
		  ? nearest_legal(&c.choice.config, k, &wanted, x->shape, &x->h->part, x->f->device)
		  : baseline_nearest(&c.choice.config, k, x->shape, &x->h->part, x->f->device)))
		return 1;
	return enter(x, &c.choice, problems_add_choice(x->all, x->b, &c, x->shape)) &&
	       (!is_default || x->f->preset != PRESET_QUICK || x->f->keep ||
		enter_neighbours(x, &c.choice));
}

int problem_fill(struct problems *all, struct problem *h, struct binaries *b,
		 const struct candidate_options *f, const struct candidates *list,
		 const int *built_choice)
{
	const attune_shape *shape = &all->scenarios[h->scenario].shape;
	struct filling x = { .all = all, .h = h, .b = b, .f = f, .shape = shape };
	for (int i = 0; i < list->n; i++) {
		const struct candidate *c = &list->v[i];
		const struct kernel *k = c->choice.kernel;
		if (scales_refused(k, scenario_scales(&all->scenarios[h->scenario])))
			continue;
		const int legal =
		    !k->space->why_illegal(&c->choice.config, shape, &h->part, f->device);
		if (legal ? !enter(&x, &c->choice, built_choice[i])
			  : c->origin <= FROM_BASELINE && !enter_nearest(&x, *c))
			return 0;
	}
	return 1;
}
