/* cliffs.c - `attune eval --cliffs`: estimates what the change of action costs at every threshold
 * of the trees. */
#include "eval.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double cliff_limit = 1.05;

struct walk {
	const struct data *d;
	const struct forest *f;
	struct cliff *v;
	int n, room;
	enum decision decision;
	int failed;
};

long long feature_value(const struct attune_features *f, int feature)
{
	return ((const long long *)f)[feature];
}

/* Whether these features pass that node. */
static int tree_passes(const struct tree *t, int node, const struct attune_features *f)
{
	int at = 0;
	while (at != node && t->v[at].feature >= 0)
		at = feature_value(f, t->v[at].feature) <= t->v[at].threshold ? t->v[at].below
									      : t->v[at].above;
	return at == node;
}

static int is_training_row(const struct measured *m, enum decision t)
{
	return data_is_training(m) && decision_is_of(t, m);
}

/* Whether a scenario passes the node on that side (0: below) of its threshold. */
static int is_beside(const struct walk *w, int node, int side, int s)
{
	const struct tree *t = &w->f->tree[w->decision];
	const struct node *v = &t->v[node];
	const struct measured *m = &w->d->v[s];
	const struct attune_features *f = &m->part[decision_phase(w->decision)].f;
	return is_training_row(m, w->decision) &&
	       (feature_value(f, v->feature) > v->threshold) == side && tree_passes(t, node, f);
}

/* The tree's action for a scenario with one feature set to `value`. */
static int action_at(const struct walk *w, int scenario, int feature, long long value)
{
	const struct tree *t = &w->f->tree[w->decision];
	struct attune_features f = w->d->v[scenario].part[decision_phase(w->decision)].f;
	((long long *)&f)[feature] = value;
	return t->v[tree_leaf(t, &f)].action;
}

/* Time of the whole plan with that action. For an overlap the parts are the forest's; for a part
 * the other part is the fastest measured. */
static double time_with(const struct walk *w, int s, int action)
{
	const struct measured *m = &w->d->v[s];
	const enum phase phase = decision_phase(w->decision);
	struct choice made;
	struct decided plan;
	double beside = 0;
	int any;
	if (w->decision == DECIDE_EARLY)
		return early_ratio(w->d, s, phase, action == SAYS_OWN ? 0 : action);
	if (w->decision == DECIDE_OVERLAP) {
		struct pick p;
		forest_make_serial(w->d, w->f, m, &plan);
		overlap_made(w->d, w->f, action, m, &plan);
		decided_pick(w->d, &plan, &p);
		return data_plan_time(w->d, s, &p);
	}
	if (measured_is_mixed(m))
		beside =
		    data_best(w->d, s, phase == PHASE_DECODE ? PHASE_PREFILL : PHASE_DECODE, &any);
	if (!action_or_default(w->d, w->f, w->decision, action, m, &made))
		return INFINITY;
	return data_part_time(w->d, s, phase, data_find(w->d, &made)) +
	       (isfinite(beside) ? beside : 0);
}

/* Log of time above / time below; NaN: unknown. */
static double log_ratio(const struct walk *w, int s, const struct node *v)
{
	const double below = time_with(w, s, action_at(w, s, v->feature, v->threshold));
	const double above = time_with(w, s, action_at(w, s, v->feature, v->threshold + 1));
	return isfinite(below) && isfinite(above) ? log(above / below) : NAN;
}

/* Finds the scenarios on one side that lie nearest to the threshold, all with the same value.
 * Stores the first of them and the geometric mean of their ratios. */
static void nearest_beside(const struct walk *w, int node, int side, struct cliff *c)
{
	const enum phase phase = decision_phase(w->decision);
	long long nearest = 0;
	double logs = 0;
	int known = 0;
	for (int s = 0; s < w->d->n; s++) {
		if (!is_beside(w, node, side, s))
			continue;
		const long long value = feature_value(&w->d->v[s].part[phase].f, c->feature);
		if (c->scenario[side] >= 0 && (side ? value > nearest : value < nearest))
			continue;
		if (c->scenario[side] < 0 || value != nearest)
			c->scenario[side] = s, nearest = value, logs = 0, known = 0;
		const double one = log_ratio(w, s, &w->f->tree[w->decision].v[node]);
		if (!isnan(one))
			logs += one, known++;
	}
	c->ratio[side] = known ? exp(logs / known) : NAN;
}

/* Log of the ratio at the threshold, interpolated between both sides. */
static double crossing_of(const struct walk *w, const struct cliff *c)
{
	const enum phase phase = decision_phase(c->decision);
	double x[2], y[2];
	for (int i = 0; i < 2; i++) {
		y[i] = log(c->ratio[i]);
		x[i] = c->scenario[i] < 0
			   ? 0
			   : log(1.0 + (double)feature_value(&w->d->v[c->scenario[i]].part[phase].f,
							     c->feature));
	}
	if (isnan(y[0]) || isnan(y[1]))
		return isnan(y[0]) ? y[1] : y[0];
	const double at = log(1.5 + (double)c->threshold);
	return y[0] + (y[1] - y[0]) * (at - x[0]) / (x[1] - x[0]);
}

static void look_at(struct walk *w, int node)
{
	const struct node *v = &w->f->tree[w->decision].v[node];
	if (!array_grow(&w->v, w->n, &w->room, sizeof *w->v)) {
		w->failed = 1;
		return;
	}
	struct cliff *c = &w->v[w->n];
	*c = (struct cliff){ w->decision, node, v->feature, v->threshold, .scenario = { -1, -1 } };
	for (int side = 0; side < 2; side++)
		nearest_beside(w, node, side, c);
	const int of = c->scenario[0] >= 0 ? c->scenario[0] : c->scenario[1];
	if (of < 0) /* no training scenario passes the node */
		return;
	const int below = action_at(w, of, v->feature, v->threshold);
	const int above = action_at(w, of, v->feature, v->threshold + 1);
	if (below == above && (c->ratio[1] == 1 || isnan(c->ratio[1])))
		return;
	says_words(w->f, w->decision, below, c->below);
	says_words(w->f, w->decision, above, c->above);
	c->crossing = exp(fabs(crossing_of(w, c)));
	w->n++;
}

int cliffs_find(const struct data *d, const struct forest *f, struct cliff **out, int *n)
{
	struct walk w = { .d = d, .f = f };
	for (int t = 0; t < NUM_DECISIONS; t++) {
		w.decision = (enum decision)t;
		for (int i = 0; i < f->tree[t].n && !w.failed; i++)
			if (f->tree[t].v[i].feature >= 0)
				look_at(&w, i);
	}
	*out = w.v;
	*n = w.n;
	if (w.failed)
		complain("out of memory");
	return !w.failed;
}

void cliffs_print(const struct data *d, const struct cliff *v, int n, enum format format)
{
	const char *columns[] = { "decision",    "feature",     "threshold",   "below",
				  "above",       "batch_below", "ratio_below", "batch_above",
				  "ratio_above", "crossing",    "flag" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	int flagged = 0;
	for (int i = 0; t && i < n; i++) {
		const struct cliff *c = &v[i];
		const int bad = c->crossing > cliff_limit;
		flagged += bad;
		table_text(t, decision_names[c->decision]);
		table_text(t, feature_names[c->feature]);
		table_number(t, (double)c->threshold, 0);
		table_text(t, c->below);
		table_text(t, c->above);
		for (int k = 0; k < 2; k++) {
			table_text(t, c->scenario[k] < 0 ? NULL : d->v[c->scenario[k]].batch_text);
			table_number(t, c->ratio[k], 4);
		}
		table_number(t, c->crossing, 4);
		table_text(t, bad ? "cliff" : "");
		table_end_row(t);
	}
	if (format_has_notes(format))
		printf("# %d thresholds change the action; %d of them cost more than %.0f %% to "
		       "cross\n",
		       n, flagged, 100 * (cliff_limit - 1));
	if (t)
		table_print(t, stdout);
}
