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
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
