/* SPDX-License-Identifier: Apache-2.0 */
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
	struct wishes *wishes;
	const struct data *d;
	const struct device_info *device;
	struct forest rules;
	int has_rules;
	struct chooser *chooser[COUNT(baselines)]; /* NULL: it does not exist here */
	/* of a trace */
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

static void list_plugin(const struct lister *l, const struct measured *m, int s,
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
		wish(l->wishes, made_wish(m, &(struct decided){ .prefill = whole }));
	else if (has_parts)
		wish(l->wishes, made_wish(m, &made));
}

/* ---- a batch ------------------------------------------------------------------------------ */

/* The batch that was added last. s: of the data, -1: not in it. */
static void list_batch(const struct lister *l, const struct measured *m, int s)
{
	struct wishes *w = l->wishes;
	struct decided made;
	if (s >= 0) {
		made = data_fastest_plan(l->d, s);
		w->policy = policy_names[POLICY_ORACLE];
		wish(w, made_wish(m, &made));
	}
	w->policy = "attune";
	wish(w, library_wish(0));
	for (size_t i = 0; i < COUNT(baselines); i++) {
		if (!l->chooser[i])
			continue;
		chooser_make(l->chooser[i], m, s, &made);
		w->policy = policy_names[baselines[i]];
		wish(w, made_wish(m, &made));
	}
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->plugin && k->backend == l->device->backend) {
			w->policy = k->name;
			list_plugin(l, m, s, k);
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
	if (l->wishes->failed)
		complain("out of memory");
	return !l->wishes->failed;
}

int bench_list_split(struct wishes *w, const struct data *d, const struct hello *hello,
		     const char *split, int limit)
{
	struct lister l = { .wishes = w, .d = d, .device = &hello->info };
	begin(&l);
	for (int s = 0; s < d->n; s++)
		if (in_split(&d->v[s], split) && (!limit || w->batches.n < limit)) {
			wish_scenario(w, d, s);
			list_batch(&l, &d->v[s], s);
		}
	return end(&l);
}

/* ---- a trace ------------------------------------------------------------------------------ */

static int list_step(void *arg, int step, const attune_batch *view)
{
	struct lister *l = arg;
	struct measured m = { 0 };
	struct scenario s;
	char *text = batch_format(view);
	const int done = text && measured_make(&m, l->d, l->model, &l->shape, text);
	(void)step;
	free(text);
	if (done) {
		scenario_again(&s, &m);
		snprintf(s.set, sizeof s.set, "trace");
		snprintf(s.split, sizeof s.split, "trace");
		wish_batch(l->wishes, &s, -1);
		list_batch(l, &m, -1);
		m.batch_text = NULL; /* the list has them */
		m.batch = NULL;
	}
	measured_free(&m);
	return done;
}

int bench_list_trace(struct wishes *w, const struct data *d, const struct hello *hello,
		     const struct trace_options *o, int *all)
{
	struct lister l = { .wishes = w, .d = d, .device = &hello->info, .model = o->model };
	begin(&l);
	const int done = shape_of_model(&l.shape, d, o->model, 0) &&
			 trace_steps(o, o->steps, list_step, &l, all);
	return end(&l) && done;
}
