/* explain.c - explains the plan of a batch: its path through the trees, the leaves, their rivals,
 * and the expected slowdown. For a batch that was never measured, times are estimates
 * (nearest_estimate.c). */
#include "explain.h"
#include "show.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void row(const struct why *w, const char *decision, const char *kind, const char *what,
		double us, double best)
{
	why_row(w, decision, kind, what, us, best, NULL);
}

static void leaf_rows(const struct why *w, enum decision t, const struct node *leaf)
{
	char text[MAX_TEXT], next[MAX_CHOICE_TEXT];
	if (!leaf->support || leaf->weight <= 0) {
		row(w, decision_names[t], "leaf", "no training scenario ended here", NAN, NAN);
		return;
	}
	snprintf(text, sizeof text, "%d training scenarios ended here, slowdown %.3f",
		 leaf->support, exp((double)leaf->cost / (double)leaf->weight / 1e6));
	row(w, decision_names[t], "leaf", text, NAN, NAN);
	if (leaf->runner_up == SAYS_DEFAULTS)
		return;
	says_words(w->f, t, leaf->runner_up, next);
	snprintf(text, sizeof text, "%s, slowdown %.3f", next,
		 exp((double)leaf->runner_up_cost / (double)leaf->weight / 1e6));
	row(w, decision_names[t], "runner-up", text, NAN, NAN);
}

static void path_rows(const struct why *w, enum decision t, enum phase phase)
{
	const struct tree *tree = &w->f->tree[t];
	const long long *value = (const long long *)&w->m->part[phase].f;
	char text[MAX_TEXT];
	int at = 0;
	while (tree->v[at].feature >= 0) {
		const struct node *v = &tree->v[at];
		const int below = value[v->feature] <= v->threshold;
		snprintf(text, sizeof text, "%s = %lld, %s %lld", feature_names[v->feature],
			 value[v->feature], below ? "at most" : "above", v->threshold);
		row(w, decision_names[t], "test", text, NAN, NAN);
		at = below ? v->below : v->above;
	}
	leaf_rows(w, t, &tree->v[at]);
}

/* If SEGMENTS of the leaf's choice is worked out (by a formula or by costs), a row with its rule;
 * the rows below show the number. */
static void formula_row(const struct why *w, enum decision t)
{
	const struct tree *tree = &w->f->tree[t];
	const int id = tree->v[tree_leaf(tree, &w->m->part[decision_phase(t)].f)].action;
	const struct choice *c = id < 0 ? NULL : &w->f->choice[id];
	char text[MAX_CHOICE_TEXT];
	if (!c || (!config_is_formula(&c->config, c->kernel->space) &&
		   !config_is_fitted(&c->config, c->kernel->space)))
		return;
	choice_words(c, text);
	row(w, decision_names[t], "formula", text, NAN, NAN);
}

static double plan_time(const struct why *w, const struct decided *made)
{
	struct pick p;
	if (w->scenario < 0)
		return estimate_plan(w->around, made);
	decided_pick(w->d, made, &p);
	return data_plan_time(w->d, w->scenario, &p);
}

/* The plan with its overlap, and the serial plan. */
static void overlap_rows(const struct why *w)
{
	char text[MAX_CHOICE_TEXT];
	const double us = plan_time(w, &w->serial);
	const int overlaps = w->made.how != w->serial.how || w->made.join != w->serial.join;
	if (overlaps && w->made.join)
		snprintf(text, sizeof text, "both parts overlapped");
	else if (overlaps)
		choice_words(&w->made.prefill, text);
	else
		snprintf(text, sizeof text, "no overlap");
	row(w, decision_names[DECIDE_OVERLAP], "picked", text, plan_time(w, &w->made), us);
	if (overlaps)
		row(w, decision_names[DECIDE_OVERLAP], "rival", "one after the other", us, us);
}

/* The part's early launch, if the caller allows one; the ratio is to the same choice in turn. */
static void early_rows(const struct why *w, enum phase phase, const struct choice *c)
{
	const struct attune_features *x = &w->m->part[phase].f;
	char text[MAX_CHOICE_TEXT];
	if (!c->kernel || c->kernel->space->early_axis < 0 || !forest_says_early(w->f))
		return;
	path_rows(w, DECIDE_EARLY, phase);
	const int says = forest_early(w->f, x);
	const double us = why_time(w, phase, c);
	for (int v = 0; v <= MOST_EARLY; v++) {
		const int choice = w->scenario < 0 ? -1 : data_find(w->d, c);
		const double ratio = !v ? 1
				     : choice < 0
					 ? NAN
					 : early_part_ratio(w->d, w->scenario, phase, choice, v);
		says_words(w->f, DECIDE_EARLY, v, text);
		row(w, decision_names[DECIDE_EARLY], v == says ? "picked" : "rival", text,
		    us * ratio, us);
	}
}

/* ---- confidence ---------------------------------------------------------------------------- */
/* Rows for features outside the training range of the decision. */
static void hull_rows(const struct why *w, enum decision t)
{
	const enum phase phase = decision_phase(t);
	const long long *value = (const long long *)&w->m->part[phase].f;
	char text[MAX_TEXT];
	int outside = 0;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++) {
		long long lo = INT64_MAX, hi = INT64_MIN;
		for (int s = 0; s < w->d->n; s++) {
			const struct measured *m = &w->d->v[s];
			if (!data_is_training(m) || !m->has[phase])
				continue;
			const long long v = ((const long long *)&m->part[phase].f)[i];
			lo = v < lo ? v : lo;
			hi = v > hi ? v : hi;
		}
		if (lo > hi || (value[i] >= lo && value[i] <= hi))
			continue;
		snprintf(text, sizeof text, "%s = %lld, training scenarios have %lld to %lld",
			 feature_names[i], value[i], lo, hi);
		row(w, decision_names[t], "outside", text, NAN, NAN);
		outside = 1;
	}
	if (!outside)
		row(w, decision_names[t], "inside", "every feature is in the training range", NAN,
		    NAN);
}

static void expected_row(const struct why *w)
{
	char text[MAX_TEXT];
	double far, best, us = plan_time(w, &w->made);
	const enum phase phase = w->m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL;
	if (w->scenario >= 0) {
		best = data_oracle(w->d, w->scenario);
		snprintf(text, sizeof text, "slowdown, measured%s%s",
			 data_is_training(&w->d->v[w->scenario]) ? "" : ", split ",
			 data_is_training(&w->d->v[w->scenario]) ? "" : w->d->v[w->scenario].split);
	} else {
		const int at = around_nearest(w->around, phase, &far);
		best = estimate_best(w->around);
		snprintf(text, sizeof text,
			 "slowdown, estimated; nearest measured: %s %.60s (distance %.2f)",
			 at < 0 ? "none" : w->d->v[at].model, at < 0 ? "" : w->d->v[at].batch_text,
			 far);
	}
	row(w, "plan", "expected", text, us, fmin(best, us));
}

int show_why(const struct data *d, const struct forest *f, const struct measured *m, int scenario,
	     enum format format)
{
	const char *columns[] = { "decision", "what", "is", "median_us", "ratio", "pass" };
	struct why w = { .d = d, .f = f, .m = m, .scenario = scenario };
	w.t = table_new(format, columns, (int)COUNT(columns));
	w.around = around_new(d, m);
	int done = w.t && w.around;
	forest_make(d, f, m, &w.made);
	forest_make_serial(d, f, m, &w.serial);
	for (int k = DECIDE_PREFILL; done && k <= DECIDE_DECODE; k++) {
		if (!m->has[decision_phase((enum decision)k)])
			continue;
		path_rows(&w, (enum decision)k, decision_phase((enum decision)k));
		formula_row(&w, (enum decision)k);
		done = why_rivals(&w, (enum decision)k);
		hull_rows(&w, (enum decision)k);
	}
	if (done && m->has[PHASE_PREFILL])
		early_rows(&w, w.made.join ? PHASE_PREFILL : PHASE_ALL, &w.made.prefill);
	if (done && m->has[PHASE_DECODE] && w.made.join)
		early_rows(&w, PHASE_DECODE, &w.made.decode);
	if (done && measured_is_mixed(m)) {
		path_rows(&w, DECIDE_OVERLAP, PHASE_ALL);
		overlap_rows(&w);
	}
	if (done)
		expected_row(&w);
	if (w.t)
		table_print(w.t, stdout);
	around_free(w.around);
	return done;
}
