/* bench_policies.c - what `attune bench` times on a batch:
 *
 *   attune      the library, through attune_plan_batch and attune_run
 *   oracle      the fastest plan of the database; the reference of ratios. A trace's step has
 *               none: there the reference is attune
 *   best_fixed  one choice of the header for each phase
 *   vllm_triton, aiter_rule  the constants of vLLM's Triton backend and of aiter: nearest choices,
 *               one launch
 *   default     the kernels' defaults
 *   others      the kernel of each plug-in (--plugin), by its fastest choice in the database, else
 *               its default; mixed batches as one launch or its fastest two, whichever is faster */
#include "bench.h"
#include "harness/sweep/sweep.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>

static const enum policy baselines[] = { POLICY_BEST_FIXED, POLICY_VLLM_TRITON, POLICY_AITER_RULE,
					 POLICY_DEFAULT };

struct lister {
	struct bench_list *list;
	const struct data *d;
	const struct device_info *device;
	struct forest rules;
	int has_rules;
	struct chooser *chooser[COUNT(baselines)]; /* NULL: it does not exist here */
	/* of a trace */
	struct measured *made;
	const char *model;
	attune_shape shape;
};

/* ---- plug-ins ----------------------------------------------------------------------------- */

/* The fastest choice of a plug-in for a phase; where none was measured its default. kernel NULL: it
 * cannot run this, or failed. */
static double fastest(struct choice *out, const struct lister *l, const struct measured *m, int s,
		      enum phase phase, const struct kernel *k)
{
	struct choice_iter i = { .choice = -1 };
	double best = INFINITY;
	int measured = 0;
	*out = (struct choice){ .kernel = NULL };
	if (!m->has[phase])
		return 0;
	if (s >= 0)
		i = choices_of(l->d, s, phase, phase);
	while (s >= 0 && choices_next(&i)) {
		const double us = cells_time(l->d, s, &i.cells[0]);
		measured |= l->d->choice[i.choice].kernel == k;
		if (l->d->choice[i.choice].kernel == k && us < best)
			best = us, *out = l->d->choice[i.choice];
	}
	if (measured)
		return best;
	config_default(&out->config, k->space);
	if (!k->space->why_illegal(&out->config, &m->shape, &m->part[phase], l->device))
		out->kernel = k;
	return INFINITY;
}

static void list_plugin(const struct lister *l, int at, const struct measured *m, int s,
			const struct kernel *k)
{
	struct decided made = { .join = 1 };
	struct choice whole;
	const double all = fastest(&whole, l, m, s, PHASE_ALL, k);
	const double parts = fastest(&made.prefill, l, m, s, PHASE_PREFILL, k) +
			     fastest(&made.decode, l, m, s, PHASE_DECODE, k);
	const int has_parts = (made.prefill.kernel || !m->has[PHASE_PREFILL]) &&
			      (made.decode.kernel || !m->has[PHASE_DECODE]);
	if (measured_is_mixed(m) && whole.kernel && (!has_parts || !(parts < all)))
		wish_made(&l->list->wishes, at, m, &(struct decided){ .prefill = whole });
	else if (has_parts)
		wish_made(&l->list->wishes, at, m, &made);
}

/* ---- a batch ------------------------------------------------------------------------------ */

/* at: of the list; s: of the data, -1: not in it. */
static void list_batch(const struct lister *l, int at, const struct measured *m, int s)
{
	struct wishes *w = &l->list->wishes;
	struct decided made;
	scenario_again(&l->list->batches.v[at], m);
	if (s >= 0) {
		made = data_fastest_plan(l->d, s);
		w->policy = policy_names[POLICY_ORACLE];
		wish_made(w, at, m, &made);
	}
	w->policy = "attune";
	wish_library(w, at, 0);
	for (size_t i = 0; i < COUNT(baselines); i++) {
		if (!l->chooser[i])
			continue;
		chooser_make(l->chooser[i], m, s, &made);
		w->policy = policy_names[baselines[i]];
		wish_made(w, at, m, &made);
	}
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->plugin && k->backend == l->device->backend) {
			w->policy = k->name;
			list_plugin(l, at, m, s, k);
		}
}

static void begin(struct lister *l)
{
	char header[PATH_TEXT];
	rules_path(header, getenv("ATTUNE_HEURISTICS"), l->d->gpu);
	l->has_rules = forest_load(&l->rules, header);
	for (size_t i = 0; i < COUNT(baselines); i++)
		l->chooser[i] = chooser_new(l->d, baselines[i], l->has_rules ? &l->rules : NULL);
	policies_say_unlearned(l->d);
}

static int end(struct lister *l)
{
	for (size_t i = 0; i < COUNT(baselines); i++)
		chooser_free(l->chooser[i]);
	if (l->has_rules)
		forest_free(&l->rules);
	if (l->list->wishes.failed || !l->list->batches.v)
		complain("out of memory");
	return !l->list->wishes.failed && l->list->batches.v;
}

int bench_list_split(struct bench_list *list, const struct data *d, const struct hello *hello,
		     const char *split, int limit)
{
	struct lister l = { .list = list, .d = d, .device = &hello->info };
	struct scenario_list *b = &list->batches;
	b->v = calloc((size_t)d->n + 1, sizeof *b->v);
	begin(&l);
	for (int s = 0; b->v && s < d->n; s++)
		if (in_split(&d->v[s], split) && (!limit || b->n < limit))
			list_batch(&l, b->n++, &d->v[s], s);
	return end(&l);
}

/* ---- a trace ------------------------------------------------------------------------------ */

static int list_step(void *arg, int step, const attune_batch *view)
{
	struct lister *l = arg;
	struct scenario_list *b = &l->list->batches;
	struct measured *m = &l->made[b->n];
	char *text = batch_format(view);
	const int done = text && measured_make(m, l->d, l->model, &l->shape, text);
	(void)step;
	free(text);
	if (done) {
		list_batch(l, b->n, m, -1);
		snprintf(b->v[b->n].set, sizeof b->v->set, "trace");
		snprintf(b->v[b->n++].split, sizeof b->v->split, "trace");
	}
	return done;
}

int bench_list_trace(struct bench_list *list, const struct data *d, const struct hello *hello,
		     const struct trace_options *o, struct measured *made, int *all)
{
	struct lister l = {
		.list = list, .d = d, .device = &hello->info, .made = made, .model = o->model
	};
	list->batches.v = calloc((size_t)o->steps + 1, sizeof *list->batches.v);
	begin(&l);
	const int done = list->batches.v && shape_of_model(&l.shape, d, o->model, 0) &&
			 trace_steps(o, o->steps, list_step, &l, all);
	return end(&l) && done;
}
