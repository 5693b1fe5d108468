/* SPDX-License-Identifier: Apache-2.0 */
/* problems.c - builds one problem per scenario and phase: its legal candidates in the order of
 * timing. Candidates are listed once per shape, and shapes share binaries. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- candidates of a problem ------------------------------------------------------- */
/* The choices of a sweep, and the candidates of one problem: those of its shape that are legal for
 * its part, and what replaces those that are not. */

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

/* Adds the candidates of a shape that are legal for the problem's part. A default or baseline that
 * is not is replaced by the nearest legal choice; in a quick sweep the neighbours of a default's come,
 * too. built_choice: their numbers. 0: no memory. */
static int problem_fill(struct problems *all, struct problem *problem, struct binaries *b,
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

/* ---- problems ---------------------------------------------------------------------- */

/* The candidates of a shape, and the built choice of each. */
struct shape_candidates {
	attune_shape shape;
	struct candidates list;
	int *built_choice;
};

static int same_shape(const attune_shape *a, const attune_shape *b)
{
	return a->num_query_heads == b->num_query_heads && a->num_kv_heads == b->num_kv_heads &&
	       a->head_size == b->head_size && a->page_size == b->page_size &&
	       a->dtype == b->dtype && a->kv_dtype == b->kv_dtype && a->causal == b->causal &&
	       a->window == b->window && a->softcap == b->softcap && a->has_sinks == b->has_sinks &&
	       a->has_alibi == b->has_alibi && a->has_lse == b->has_lse &&
	       a->kv_layout == b->kv_layout;
}

/* Removes candidates that f->keep rejects. */
static void filter_candidates(struct candidates *list, const struct candidate_options *f)
{
	int n = 0;
	for (int i = 0; i < list->n; i++)
		if (f->keep(f->keep_arg, &list->v[i]))
			list->v[n++] = list->v[i];
	list->n = n;
}

/* Index of a shape, which is added if new, with candidates if f is not NULL; -1: no memory. */
static int shape_index(struct problems *all, struct binaries *b, const attune_shape *s,
		       const struct candidate_options *f)
{
	for (int i = 0; i < all->num_shapes; i++)
		if (same_shape(&all->shapes[i].shape, s))
			return i;
	struct shape_candidates *v =
	    realloc(all->shapes, ((size_t)all->num_shapes + 1) * sizeof *v);
	if (!v) {
		complain("out of memory");
		return -1;
	}
	all->shapes = v;
	v += all->num_shapes++;
	*v = (struct shape_candidates){ .shape = *s };
	for (const struct kernel *k = attune_kernels; f && k->name; k++)
		if (k->backend == f->device->backend && k->selectable &&
		    (!f->kernels || list_has(f->kernels, k->name)) &&
		    !candidates_add(&v->list, k, s, f->device, f->preset, f->seed))
			return -1;
	if (f && f->keep)
		filter_candidates(&v->list, f);
	v->built_choice = calloc((size_t)v->list.n + 1, sizeof *v->built_choice);
	for (int i = 0; v->built_choice && i < v->list.n; i++)
		if ((v->built_choice[i] = problems_add_choice(all, b, &v->list.v[i], s)) < 0)
			return -1;
	return v->built_choice ? all->num_shapes - 1 : -1;
}

/* ---- filling ------------------------------------------------------------------ */

struct turn {
	unsigned long long at;
	int built_choice;
	char near;
};

/* The order of timing: first the reference, the default of the phase's own kernel; then other
 * defaults and baselines; then the rest in random order, so that a race that is cut short has
 * covered all of the space evenly. */
static struct turn turn(const struct problems *all, const struct problem *problem, int place)
{
	const struct built_choice *e = &all->built_choice[problem->built_choice[place]];
	const char *kernel = problem->phase == PHASE_DECODE ? "segmented" : "qblock";
	struct turn t = { .built_choice = problem->built_choice[place],
			  .near = problem->near[place] };
	if (e->origin == FROM_DEFAULT && !strcmp(e->choice.kernel->name, kernel))
		t.at = 0;
	else if (e->origin <= FROM_BASELINE)
		t.at = 1;
	else
		t.at = 2 + (scramble((unsigned)problem->built_choice[place] + 1) >> 2);
	return t;
}

static int by_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;
	return x->at != y->at
		   ? (x->at > y->at) - (x->at < y->at)
		   : (x->built_choice > y->built_choice) - (x->built_choice < y->built_choice);
}

static int put_in_order(const struct problems *all, struct problem *problem)
{
	struct turn *t = calloc((size_t)problem->n + 1, sizeof *t);
	for (int i = 0; t && i < problem->n; i++)
		t[i] = turn(all, problem, i);
	if (t)
		qsort(t, (size_t)problem->n, sizeof *t, by_turn);
	for (int i = 0; t && i < problem->n; i++) {
		problem->built_choice[i] = t[i].built_choice;
		problem->near[i] = t[i].near;
	}
	free(t);
	return t != NULL;
}

static void describe(struct problem *problem, const struct scenario *s)
{
	const struct attune_features *f = &problem->part.f;
	const attune_shape *shape = &s->shape;
	const double of[PROBLEM_FEATURES] = {
		(double)f->num_seqs, (double)f->max_query, (double)f->query_tokens,
		(double)f->max_seq,  (double)f->kv_tokens, (double)f->heads_x_seqs,
		(double)f->group,    (double)f->head_size,
	};
	for (int i = 0; i < PROBLEM_FEATURES; i++)
		problem->feature[i] = log2(of[i] + 1);
	problem->bytes = 2.0 * (double)part_live_keys(shape, &s->batch->view, problem->phase) *
			 shape->num_kv_heads * shape->head_size * dtype_bytes(shape->kv_dtype);
	problem->flops = 4.0 * (double)part_pairs(shape, &s->batch->view, problem->phase) *
			 shape->head_size * shape->num_query_heads;
}

static void drop(struct problem *problem)
{
	free(problem->built_choice);
	free(problem->near);
	free(problem->stored);
	free(problem->noisy);
	free(problem->stage);
	free(problem->us);
	free(problem->today_plan);
}

static struct problem *append(struct problems *all, const struct problem *problem)
{
	if (!array_grow(&all->v, all->n, &all->room, sizeof *all->v)) {
		complain("out of memory");
		return NULL;
	}
	all->v[all->n] = *problem;
	return &all->v[all->n++];
}

int problems_add(struct problems *all, struct binaries *b, int index,
		 const struct candidate_options *f)
{
	const struct scenario *s = &all->scenarios[index];
	const attune_batch *batch = &s->batch->view;
	struct part part;
	const int mixed = part_make(&part, PHASE_PREFILL, &s->shape, batch, f->device) &&
			  part_make(&part, PHASE_DECODE, &s->shape, batch, f->device);
	/* The whole batch comes after its parts, as the best of these race with it as plans. */
	static const enum phase order[] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL };
	const int shape = shape_index(all, b, &s->shape, f);
	int ok = shape >= 0;
	for (size_t i = 0; ok && i < COUNT(order); i++) {
		struct problem problem = {
			.scenario = index, .shape = shape, .phase = order[i], .best = -1
		};
		if ((f->phases && !list_has(f->phases, store_phase(problem.phase))) ||
		    (problem.phase == PHASE_ALL && !mixed) ||
		    !part_make(&problem.part, problem.phase, &s->shape, batch, f->device))
			continue;
		describe(&problem, s);
		ok = problem_fill(all, &problem, b, f, &all->shapes[shape].list,
				  all->shapes[shape].built_choice) &&
		     put_in_order(all, &problem);
		if (!ok || !problem.n || !(ok = append(all, &problem) != NULL))
			drop(&problem);
	}
	return ok;
}

struct problem *problems_add_empty(struct problems *all, int index, enum phase phase,
				   const struct device_info *d)
{
	const struct scenario *s = &all->scenarios[index];
	struct problem problem = { .scenario = index, .phase = phase, .best = -1 };
	if (!part_make(&problem.part, phase, &s->shape, &s->batch->view, d))
		return NULL;
	problem.shape = shape_index(all, NULL, &s->shape, NULL);
	describe(&problem, s);
	return problem.shape < 0 ? NULL : append(all, &problem);
}

void problems_note(struct problem *problem, int place, double us, enum stage stage)
{
	problem->us[place] = us;
	problem->stage[place] = (char)stage;
	problem->best = -1;
	for (int i = 0; i < problem->n; i++)
		if (problem->us[i] < INFINITY &&
		    (problem->best < 0 || problem->us[i] < problem->us[problem->best]))
			problem->best = i;
}

int problem_has_other_version(const struct problems *all, const struct problem *problem, int place)
{
	return all->built_choice[problem->built_choice[place]].choice.kernel->plugin &&
	       !isnan(problem->us[place]) && !problem->stored[place] && !problem->noisy[place];
}

int problems_place(const struct problems *all, const struct problem *problem,
		   const struct choice *c)
{
	for (int i = 0; i < problem->n; i++)
		if (choice_same(&all->built_choice[problem->built_choice[i]].choice, c))
			return i;
	return -1;
}

struct problem *problems_find(const struct problems *all, int scenario, enum phase phase)
{
	for (int i = 0; i < all->n; i++)
		if (all->v[i].scenario == scenario && all->v[i].phase == phase)
			return &all->v[i];
	return NULL;
}

void problems_free(struct problems *all)
{
	for (int i = 0; i < all->n; i++)
		drop(&all->v[i]);
	for (int i = 0; i < all->num_shapes; i++) {
		free(all->shapes[i].list.v);
		free(all->shapes[i].built_choice);
	}
	free(all->v);
	free(all->built_choice);
	free(all->family);
	free(all->shapes);
	*all = (struct problems){ 0 };
}
