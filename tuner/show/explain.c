/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - `attune show --why`: explains the plan of a batch by its path through the trees, the leaves,
 * their rows, rivals and the expected slowdown. For a batch that was never measured, times are estimates
 * (nearest_estimate.c). */
#include "show.h"
#include "planned.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { RIVALS = 3, MAX_TEXT = MAX_CHOICE_TEXT + 120 };

struct why {
	const struct data *d;
	const struct forest *f;
	const struct measured *m;
	int scenario; /* -1: not measured */
	struct around *around;
	struct decided made, serial;   /* the plan; the same without an overlap */
	const struct planned *planned; /* NULL: the library was not built with these rules */
	struct table *t;
};

/* Adds a row with its time, the ratio to `best`, and the pass of the time (NULL: none or several).
 * Times that are not finite stay empty. */
static void row(const struct why *w, const char *decision, const char *kind, const char *what,
		double us, double best, const char *pass)
{
	table_add(w->t, "%s %s %s %.3f %.3f", decision, kind, what, us,
		  isfinite(best) ? us / best : NAN);
	table_text(w->t, pass);
	table_end_row(w->t);
}

/* Adds a row without a time. */
__attribute__((format(printf, 4, 5))) static void say(const struct why *w, enum decision t,
						      const char *kind, const char *format, ...)
{
	char text[MAX_TEXT];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	row(w, decision_names[t], kind, text, NAN, NAN, NULL);
}

/* The time of a choice for the phase; an estimate if the batch was never measured. */
static double time_of(const struct why *w, enum phase phase, const struct choice *c)
{
	if (w->scenario < 0)
		return estimate_part(w->around, phase, c);
	return c->kernel ? data_part_time(w->d, w->scenario, phase, data_find(w->d, c)) : INFINITY;
}

static int is_legal(const struct why *w, enum phase phase, int choice)
{
	const struct choice *c = &w->d->choice[choice];
	return !c->kernel->space->why_illegal(&c->config, &w->m->shape, &w->m->part[phase],
					      &w->d->run.device);
}

/* The time of the fastest choice. For a batch that was never measured: of the choices that its
 * nearest scenario has times of and that are legal in the batch. */
static double best_of(const struct why *w, enum phase phase)
{
	double best = INFINITY, far;
	int choice;
	if (w->scenario >= 0)
		return data_best(w->d, w->scenario, phase, &choice);
	const int at = around_nearest(w->around, phase, &far);
	for (int c = 0; at >= 0 && c < w->d->num_choices; c++)
		if (isfinite(data_part_time(w->d, at, phase, c)) && is_legal(w, phase, c))
			best = fmin(best, time_of(w, phase, &w->d->choice[c]));
	return best;
}

static double mean_slowdown(long long cost, const struct node *leaf)
{
	return exp((double)cost / (double)leaf->weight / 1e6);
}

static void leaf_rows(const struct why *w, enum decision t, const struct node *leaf)
{
	char next[MAX_CHOICE_TEXT], settled[60] = "";
	if (!leaf->support || leaf->weight <= 0) {
		say(w, t, "leaf", "no training scenario ended here");
		return;
	}
	if (leaf->row_cost >= 0)
		snprintf(settled, sizeof settled, "; of the fastest choice of its row %.3f",
			 mean_slowdown(leaf->row_cost, leaf));
	say(w, t, "leaf", "%d training scenarios ended here, slowdown %.3f%s", leaf->support,
	    mean_slowdown(leaf->cost, leaf), settled);
	if (leaf->runner_up == SAYS_DEFAULTS)
		return;
	says_words(w->f, t, leaf->runner_up, next);
	say(w, t, "runner-up", "%s, slowdown %.3f", next,
	    mean_slowdown(leaf->runner_up_cost, leaf));
}

static void path_rows(const struct why *w, enum decision t, enum phase phase)
{
	const struct tree *tree = &w->f->tree[t];
	const long long *value = (const long long *)&w->m->part[phase].f;
	int at = 0;
	while (tree->v[at].feature >= 0) {
		const struct node *v = &tree->v[at];
		const int below = value[v->feature] <= v->threshold;
		say(w, t, "test", "%s = %lld, %s %lld", feature_names[v->feature],
		    value[v->feature], below ? "at most" : "above", v->threshold);
		at = below ? v->below : v->above;
	}
	leaf_rows(w, t, &tree->v[at]);
}

/* Without a plan of the library: the row that the leaf names, whichever of it runs. */
static void row_of_leaf(const struct why *w, enum decision t)
{
	const struct tree *tree = &w->f->tree[t];
	const int id = tree->v[tree_leaf(tree, &w->m->part[decision_phase(t)].f)].action;
	const struct attune_list alone = { 1, { (short)id } };
	const struct attune_list *row = id >= 0 && w->f->list[id].n ? &w->f->list[id] : &alone;
	char text[MAX_CHOICE_TEXT];
	for (int i = 0; id >= 0 && i < row->n; i++) {
		choice_words(&w->f->choice[row->at[i]], text);
		say(w, t, "row", "%s%s", text,
		    w->f->by_estimate[id] >> i & 1 ? ", " BY_ESTIMATE : "");
	}
}

/* The row of the leaf: which member runs, and why those before it do not. The rows "picked" and
 * "rival" have the time. */
static void row_rows(const struct why *w, enum decision t)
{
	if (w->planned)
		tried_rows(w->t, w->planned, w->f, t, &w->m->part[decision_phase(t)], 3);
	else
		row_of_leaf(w, t);
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
	const int spares = overlaps && w->made.join ? choice_spares(&w->made.prefill) : 0;
	if (spares)
		snprintf(text, sizeof text, "side by side, with %d units left to the decodes",
			 spares);
	else if (overlaps && w->made.join)
		snprintf(text, sizeof text, "side by side");
	else if (overlaps)
		choice_words(&w->made.prefill, text);
	else
		snprintf(text, sizeof text, "no overlap");
	row(w, decision_names[DECIDE_OVERLAP], "picked", text, plan_time(w, &w->made), us, NULL);
	if (overlaps)
		row(w, decision_names[DECIDE_OVERLAP], "rival", "one after the other", us, us,
		    NULL);
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
	const double us = time_of(w, phase, c);
	for (int v = 0; v <= MOST_EARLY; v++) {
		const int choice = w->scenario < 0 ? -1 : data_find(w->d, c);
		const double ratio = !v ? 1
				     : choice < 0
					 ? NAN
					 : early_part_ratio(w->d, w->scenario, phase, choice, v);
		says_words(w->f, DECIDE_EARLY, v, text);
		row(w, decision_names[DECIDE_EARLY], v == says ? "picked" : "rival", text,
		    us * ratio, us, NULL);
	}
}

/* ---- the pick of a part and its fastest rivals among the times that compare with its own ------- */
/* A measured choice of a part: its cell in one pass, of the part or (is_whole) of the batch. */
struct part_cell {
	const struct cell *cell; /* NULL: no correct time */
	int is_whole;
	enum pass pass;
};

struct rival {
	int choice;
	struct part_cell part;
	double ratio; /* to the pick */
};

static int by_ratio(const void *pa, const void *pb)
{
	const struct rival *a = pa, *b = pb;
	if (a->ratio != b->ratio)
		return a->ratio < b->ratio ? -1 : 1;
	return a->choice - b->choice;
}

/* cells: of the part and of the whole batch. A batch of one phase may have its time in either. */
static struct part_cell cell_in(const struct why *w, enum pass pass, const struct cells cells[2])
{
	const struct measured *m = w->m;
	const int mixed = measured_is_mixed(m);
	for (int i = 0; i < 2 - mixed; i++)
		if (cells[i].of[pass] && cells[i].of[pass]->outcome == OUTCOME_OK)
			return (struct part_cell){ cells[i].of[pass], i, pass };
	return (struct part_cell){ NULL, 0, pass };
}

/* The cell of the second pass if it has one, else of the first. */
static struct part_cell cell_of(const struct why *w, enum phase phase, const struct choice *c)
{
	const int choice = c->kernel ? data_find(w->d, c) : -1;
	if (choice < 0)
		return (struct part_cell){ 0 };
	const struct cells cells[2] = { data_cells(w->d, w->scenario, phase, choice),
					data_cells(w->d, w->scenario, PHASE_ALL, choice) };
	const struct part_cell again = cell_in(w, PASS_B, cells);
	return again.cell ? again : cell_in(w, PASS_A, cells);
}

/* The choices with times comparable to the pick's, fastest first; returns their number. */
static int find_rivals(const struct why *w, enum phase phase, const struct part_cell *pick,
		       struct rival *v)
{
	struct choice_iter i = choices_of(w->d, w->scenario, phase, PHASE_ALL);
	int n = 0;
	while (choices_next(&i)) {
		struct rival *r = &v[n];
		*r = (struct rival){ .choice = i.choice, .part = cell_in(w, pick->pass, i.cells) };
		if (!r->part.cell || r->part.cell == pick->cell ||
		    r->part.is_whole != pick->is_whole)
			continue;
		r->ratio = cells_ratio(r->part.cell, pick->cell);
		n += !isnan(r->ratio);
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_ratio);
	return n;
}

static const char *pass_word(const struct part_cell *p)
{
	if (!p->cell)
		return NULL;
	return p->pass == PASS_A ? "A" : "B";
}

/* The time that a cell is compared by. */
static double us_of(const struct part_cell *p)
{
	return p->pass == PASS_B ? p->cell->median_us : p->cell->us;
}

/* Rows of a measured batch. The pick's ratio is to its fastest comparable rival, a rival's ratio to
 * the pick. If the pick was not measured, the fastest choice takes its place as the base. */
static void measured_rivals(const struct why *w, enum decision t, const struct choice *picked,
			    struct rival *v)
{
	const enum phase phase = decision_phase(t);
	struct part_cell pick = cell_of(w, phase, picked);
	char text[MAX_CHOICE_TEXT] = "nothing that runs here";
	const char *what = "picked";
	int choice;
	if (picked->kernel)
		choice_words(picked, text);
	if (!pick.cell) {
		row(w, decision_names[t], "picked", text, NAN, NAN, NULL);
		what = "rival";
		if (!isfinite(data_best(w->d, w->scenario, phase, &choice)))
			return;
		pick = cell_of(w, phase, &w->d->choice[choice]);
		choice_words(&w->d->choice[choice], text);
	}
	const int n = find_rivals(w, phase, &pick, v);
	double least = 1;
	for (int i = 0; i < n; i++)
		least = fmin(least, v[i].ratio);
	row(w, decision_names[t], what, text, us_of(&pick), us_of(&pick) * least, pass_word(&pick));
	for (int i = 0; i < n && i < RIVALS; i++) {
		const double us = us_of(&v[i].part);
		choice_words(&w->d->choice[v[i].choice], text);
		row(w, decision_names[t], "rival", text, us, us / v[i].ratio,
		    pass_word(&v[i].part));
	}
}

/* Rows of a batch that was never measured: estimates of the choices that best_of() compares. */
static void estimated_rivals(const struct why *w, enum decision t, const struct choice *picked,
			     struct rival *v)
{
	const enum phase phase = decision_phase(t);
	const double best = best_of(w, phase);
	char text[MAX_CHOICE_TEXT] = "nothing that runs here";
	double far;
	const int at = around_nearest(w->around, phase, &far);
	int n = 0;
	if (picked->kernel)
		choice_words(picked, text);
	row(w, decision_names[t], "picked", text, time_of(w, phase, picked), best, NULL);
	for (int c = 0; at >= 0 && c < w->d->num_choices; c++) {
		const double us = data_part_time(w->d, at, phase, c);
		if (isfinite(us) && !choice_same(&w->d->choice[c], picked) && is_legal(w, phase, c))
			v[n++] = (struct rival){ .choice = c, .ratio = us };
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_ratio);
	for (int i = 0; i < n && i < RIVALS; i++) {
		choice_words(&w->d->choice[v[i].choice], text);
		row(w, decision_names[t], "rival", text,
		    time_of(w, phase, &w->d->choice[v[i].choice]), best, NULL);
	}
}

/* The rows "picked" and "rival". 0 without memory. */
static int rivals(const struct why *w, enum decision t)
{
	const struct choice *picked = t == DECIDE_DECODE ? &w->serial.decode : &w->serial.prefill;
	struct rival *v = malloc(sizeof *v * (size_t)(w->d->num_choices + 1));
	if (v && w->scenario >= 0)
		measured_rivals(w, t, picked, v);
	else if (v)
		estimated_rivals(w, t, picked, v);
	free(v);
	return v != NULL;
}

/* ---- confidence ---------------------------------------------------------------------------- */
/* Rows for features outside the training range of the decision. */
static void hull_rows(const struct why *w, enum decision t)
{
	const enum phase phase = decision_phase(t);
	const long long *value = (const long long *)&w->m->part[phase].f;
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
		say(w, t, "outside", "%s = %lld, training scenarios have %lld to %lld",
		    feature_names[i], value[i], lo, hi);
		outside = 1;
	}
	if (!outside)
		say(w, t, "inside", "every feature is in the training range");
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
		if (!measured_is_mixed(w->m))
			best = best_of(w, phase);
		snprintf(text, sizeof text,
			 "slowdown, estimated; nearest measured: %s %.60s (distance %.2f)",
			 at < 0 ? "none" : w->d->v[at].model, at < 0 ? "" : w->d->v[at].batch_text,
			 far);
	}
	row(w, "plan", "expected", text, us, fmin(best, us), NULL);
}

int show_why(const struct data *d, const struct forest *f, const struct measured *m, int scenario,
	     const struct planned *planned, enum format format)
{
	const char *columns[] = { "decision", "what", "is", "median_us", "ratio", "pass" };
	struct why w = { .d = d, .f = f, .m = m, .scenario = scenario };
	w.t = table_new(format, columns, (int)COUNT(columns));
	w.around = around_new(d, m);
	int done = w.t && w.around;
	forest_make(d, f, m, &w.made);
	forest_make_serial(d, f, m, &w.serial);
	if (planned) {
		w.planned = planned;
		w.made = planned->made;
		w.serial = planned->serial;
	}
	for (int k = DECIDE_PREFILL; done && k <= DECIDE_DECODE; k++) {
		if (!m->has[decision_phase((enum decision)k)])
			continue;
		path_rows(&w, (enum decision)k, decision_phase((enum decision)k));
		row_rows(&w, (enum decision)k);
		done = rivals(&w, (enum decision)k);
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
