/* problems.c - builds one problem per scenario and phase: its legal candidates in the order of
 * timing. Candidates are listed once per shape, and shapes share binaries. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The candidates of a shape, and the built choice of each. */
struct shape_candidates {
	attune_shape shape;
	struct candidates list;
	int *built_choice;
};

/* Whether a comma-separated list has `name`. */
static int named(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, name, len))
			return 1;
	return !list;
}

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
static int shape_index(struct problems *h, struct binaries *b, const attune_shape *s,
		       const struct candidate_options *f)
{
	for (int i = 0; i < h->num_shapes; i++)
		if (same_shape(&h->shapes[i].shape, s))
			return i;
	struct shape_candidates *v = realloc(h->shapes, ((size_t)h->num_shapes + 1) * sizeof *v);
	if (!v) {
		complain("out of memory");
		return -1;
	}
	h->shapes = v;
	v += h->num_shapes++;
	*v = (struct shape_candidates){ .shape = *s };
	for (const struct kernel *k = attune_kernels; f && k->name; k++)
		if (k->backend == f->device->backend && k->selectable &&
		    named(f->kernels, k->name) &&
		    !candidates_add(&v->list, k, s, f->device, f->preset, f->seed))
			return -1;
	if (f && f->keep)
		filter_candidates(&v->list, f);
	v->built_choice = calloc((size_t)v->list.n + 1, sizeof *v->built_choice);
	for (int i = 0; v->built_choice && i < v->list.n; i++)
		if ((v->built_choice[i] = problems_add_choice(h, b, &v->list.v[i], s)) < 0)
			return -1;
	return v->built_choice ? h->num_shapes - 1 : -1;
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
static struct turn turn(const struct problems *all, const struct problem *h, int place)
{
	const struct built_choice *e = &all->built_choice[h->built_choice[place]];
	const char *kernel = h->phase == PHASE_DECODE ? "segmented" : "qblock";
	struct turn t = { .built_choice = h->built_choice[place], .near = h->near[place] };
	if (e->origin == FROM_DEFAULT && !strcmp(e->choice.kernel->name, kernel))
		t.at = 0;
	else if (e->origin <= FROM_BASELINE)
		t.at = 1;
	else
		t.at = 2 + (scramble((unsigned)h->built_choice[place] + 1) >> 2);
	return t;
}

static int by_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;
	return x->at != y->at
		   ? (x->at > y->at) - (x->at < y->at)
		   : (x->built_choice > y->built_choice) - (x->built_choice < y->built_choice);
}

static int put_in_order(const struct problems *all, struct problem *h)
{
	struct turn *t = calloc((size_t)h->n + 1, sizeof *t);
	for (int i = 0; t && i < h->n; i++)
		t[i] = turn(all, h, i);
	if (t)
		qsort(t, (size_t)h->n, sizeof *t, by_turn);
	for (int i = 0; t && i < h->n; i++) {
		h->built_choice[i] = t[i].built_choice;
		h->near[i] = t[i].near;
	}
	free(t);
	return t != NULL;
}

static void describe(struct problem *h, const struct scenario *s)
{
	const struct attune_features *f = &h->part.f;
	const attune_shape *shape = &s->shape;
	const double of[PROBLEM_FEATURES] = {
		(double)f->num_seqs, (double)f->max_query, (double)f->query_tokens,
		(double)f->max_seq,  (double)f->kv_tokens, (double)f->heads_x_seqs,
		(double)f->group,    (double)f->head_size,
	};
	for (int i = 0; i < PROBLEM_FEATURES; i++)
		h->feature[i] = log2(of[i] + 1);
	h->bytes = 2.0 * (double)part_live_keys(shape, &s->batch->view, h->phase) *
		   shape->num_kv_heads * shape->head_size * dtype_bytes(shape->kv_dtype);
	h->flops = 4.0 * (double)part_pairs(shape, &s->batch->view, h->phase) * shape->head_size *
		   shape->num_query_heads;
}

static void drop(struct problem *h)
{
	free(h->built_choice);
	free(h->near);
	free(h->stored);
	free(h->noisy);
	free(h->stage);
	free(h->us);
	free(h->today_plan);
}

static struct problem *append(struct problems *all, const struct problem *h)
{
	if (!array_grow(&all->v, all->n, &all->room, sizeof *all->v)) {
		complain("out of memory");
		return NULL;
	}
	all->v[all->n] = *h;
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
		struct problem h = {
			.scenario = index, .shape = shape, .phase = order[i], .best = -1
		};
		if (!named(f->phases, store_phase(h.phase)) || (h.phase == PHASE_ALL && !mixed) ||
		    !part_make(&h.part, h.phase, &s->shape, batch, f->device))
			continue;
		describe(&h, s);
		ok = problem_fill(all, &h, b, f, &all->shapes[shape].list,
				  all->shapes[shape].built_choice) &&
		     put_in_order(all, &h);
		if (!ok || !h.n || !(ok = append(all, &h) != NULL))
			drop(&h);
	}
	return ok;
}

struct problem *problems_add_empty(struct problems *all, int index, enum phase phase,
				   const struct device_info *d)
{
	const struct scenario *s = &all->scenarios[index];
	struct problem h = { .scenario = index, .phase = phase, .best = -1 };
	if (!part_make(&h.part, phase, &s->shape, &s->batch->view, d))
		return NULL;
	h.shape = shape_index(all, NULL, &s->shape, NULL);
	describe(&h, s);
	return h.shape < 0 ? NULL : append(all, &h);
}

void problems_note(struct problem *h, int place, double us, enum stage stage)
{
	h->us[place] = us;
	h->stage[place] = (char)stage;
	h->best = -1;
	for (int i = 0; i < h->n; i++)
		if (h->us[i] < INFINITY && (h->best < 0 || h->us[i] < h->us[h->best]))
			h->best = i;
}

int problem_has_other_version(const struct problems *all, const struct problem *h, int place)
{
	return all->built_choice[h->built_choice[place]].choice.kernel->plugin &&
	       !isnan(h->us[place]) && !h->stored[place] && !h->noisy[place];
}

int problems_place(const struct problems *all, const struct problem *h, const struct choice *c)
{
	for (int i = 0; i < h->n; i++)
		if (choice_same(&all->built_choice[h->built_choice[i]].choice, c))
			return i;
	return -1;
}

struct problem *problems_find(const struct problems *h, int scenario, enum phase phase)
{
	for (int i = 0; i < h->n; i++)
		if (h->v[i].scenario == scenario && h->v[i].phase == phase)
			return &h->v[i];
	return NULL;
}

void problems_free(struct problems *h)
{
	for (int i = 0; i < h->n; i++)
		drop(&h->v[i]);
	for (int i = 0; i < h->num_shapes; i++) {
		free(h->shapes[i].list.v);
		free(h->shapes[i].built_choice);
	}
	free(h->v);
	free(h->built_choice);
	free(h->family);
	free(h->shapes);
	*h = (struct problems){ 0 };
}
