/* plugin_decision.c - learns where plug-ins run in place of our choices. The columns of a matrix:
 *
 *   a phase  SAYS_OURS, what the forest runs the part by | choices of plug-ins
 *   mixed    SAYS_OURS, the forest's plan | SAYS_PARTS, each part by its tree | choices, in one
 *            launch
 *
 *   cost = log(time / least time of these columns)
 *
 * A row is a training scenario where ours have a time and a plug-in was tried. Without a plug-in the library
 * runs ours unchanged, so no leaf needs a choice of ours.
 *
 * No leaf takes a choice that failed in one of its rows, or of a plug-in that was not measured
 * there. Where another choice of the plug-in was measured and this one was left out, it counts as
 * slower than all that were. What a plug-in refuses is not asked, so that the trees depend on the
 * database alone; where it refuses, the library runs ours. */
#include "plugin_decision.h"
#include "induce.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A leaf names a plug-in if it gains more than this share of the time of ours, on average. */
enum { LEAST_GAIN = NOISE_FLOOR, MOST_COLUMNS = 8, MAX_DEPTH = 6 };
/* Minimum support: max(LEAST, rows / LEAST_SHARE). */
enum { LEAST_SHARE = 20, LEAST = 2 };

/* ---- costs -------------------------------------------------------------------------------- */
static int was_tried(const struct data *d, int s, enum phase phase, int choice)
{
	return data_cell(d, s, phase, choice) || (!decision_is_of(DECIDE_MIXED_PLUGIN, &d->v[s]) &&
						  data_cell(d, s, PHASE_ALL, choice));
}

/* Whether any choice of that plug-in was measured there. */
static int plugin_was_tried(const struct data *d, int s, enum phase phase, const struct kernel *k)
{
	for (int c = 0; c < d->num_choices; c++)
		if (d->choice[c].kernel == k && was_tried(d, s, phase, c))
			return 1;
	return 0;
}

static double time_of(const struct data *d, int s, enum phase phase, int choice)
{
	return phase == PHASE_ALL ? data_time(d, s, phase, choice)
				  : data_part_time(d, s, phase, choice);
}

/* ours: the time of SAYS_OURS. parts: of SAYS_PARTS, where there is such a column. */
static void fill_row(const struct data *d, struct matrix *m, int row, enum phase phase, double ours,
		     double parts)
{
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], worst = 0;
	const int s = m->scenario[row];
	double best = fmin(ours, parts);
	for (int c = 0; c < m->cols; c++)
		if (m->choice[c] >= 0)
			best = fmin(best, time_of(d, s, phase, m->choice[c]));
	for (int c = 0; c < m->cols; c++) {
		const int choice = m->choice[c];
		const double us = choice == SAYS_OURS    ? ours
				  : choice == SAYS_PARTS ? parts
							 : time_of(d, s, phase, choice);
		cost[c] = isfinite(us) ? cost_of(us, best) : COST_FORBIDDEN;
		worst = isfinite(us) && cost[c] > worst ? cost[c] : worst;
	}
	for (int c = 0; c < m->cols; c++) {
		const int choice = m->choice[c];
		if (cost[c] == COST_FORBIDDEN && choice >= 0 && !was_tried(d, s, phase, choice) &&
		    plugin_was_tried(d, s, phase, d->choice[choice].kernel))
			cost[c] = worst + COST_MISSING;
	}
	m->fallback[row] = cost[0];
}

static int is_row(const struct data *d, int s, enum phase phase)
{
	const struct measured *v = &d->v[s];
	if (!data_is_training(v) || !v->has[phase] ||
	    (phase == PHASE_ALL && !decision_is_of(DECIDE_MIXED_PLUGIN, v)))
		return 0;
	for (int c = 0; c < d->num_choices; c++)
		if (d->choice[c].kernel->plugin && was_tried(d, s, phase, c))
			return 1;
	return 0;
}

/* Ours and, of a mixed batch, its parts by the forest's trees of phases. INFINITY: no time. */
static void plan_times(const struct data *d, const struct forest *f, int s, enum phase phase,
		       double *ours, double *parts)
{
	struct decided made;
	struct pick pick;
	*parts = INFINITY;
	if (phase != PHASE_ALL) {
		forest_make_serial(d, f, &d->v[s], &made);
		decided_pick(d, &made, &pick);
		const int choice = phase == PHASE_PREFILL ? pick.prefill : pick.decode;
		*ours = choice < 0 ? INFINITY : data_part_time(d, s, phase, choice);
		return;
	}
	forest_pick(d, f, s, &pick);
	*ours = data_plan_time(d, s, &pick);
	if (forest_make_parts(d, f, &d->v[s], &made)) {
		decided_pick(d, &made, &pick);
		*parts = data_plan_time(d, s, &pick);
	} else {
		*parts = *ours; /* the library runs ours */
	}
}

/* NULL without memory. */
static struct matrix *matrix_plugins(const struct data *d, const struct forest *f,
				     enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	struct matrix *m = matrix_new(d->n, d->num_choices + 2);
	if (!m)
		return NULL;
	m->rows = m->cols = 0;
	m->choice[m->cols++] = SAYS_OURS;
	if (phase == PHASE_ALL)
		m->choice[m->cols++] = SAYS_PARTS;
	for (int c = 0; c < d->num_choices; c++)
		if (d->choice[c].kernel->plugin)
			m->choice[m->cols++] = c;
	for (int s = 0; s < d->n; s++) {
		double ours, parts;
		if (!is_row(d, s, phase))
			continue;
		plan_times(d, f, s, phase, &ours, &parts);
		if (!isfinite(ours))
			continue;
		m->scenario[m->rows] = s;
		matrix_describe_row(d, m, m->rows, phase);
		fill_row(d, m, m->rows, phase, ours, parts);
		m->rows++;
	}
	return m;
}

/* ---- trees -------------------------------------------------------------------------------- */
/* The row of plugin for a choice; -1: there are too many. */
static int row_of(struct forest *f, const struct choice *c)
{
	int row = 0;
	while (row < f->num_plugins && !choice_same(&f->plugin[row], c))
		row++;
	if (row == MAX_PLUGIN_ROWS)
		return -1;
	if (row == f->num_plugins)
		f->plugin[f->num_plugins++] = *c;
	return row;
}

/* Sets leaves to ours whose gain is too small, or may be chance. */
static int keep_gains(struct tree *t, const struct matrix *m)
{
	if (!leaves_describe(t, m))
		return 0;
	for (int i = 0; i < t->n; i++) {
		struct node *v = &t->v[i];
		long long gain = 0, weight = 0;
		for (int r = 0; r < m->rows && v->feature < 0; r++)
			if (tree_leaf(t, &m->f[r]) == i) {
				gain += matrix_at(m, r, 0) - matrix_at(m, r, v->action);
				weight += m->weight[r];
			}
		if (v->feature < 0 && (gain <= LEAST_GAIN * weight || v->remark == REMARK_UNSURE))
			v->action = 0;
		v->remark = REMARK_NONE;
	}
	return tree_tidy(t) && leaves_describe(t, m);
}

/* Actions become rows and says; the runner-up is ours. */
static void name_leaves(struct forest *f, struct tree *t, const struct data *d,
			const struct matrix *m)
{
	for (int i = 0; i < t->n; i++) {
		struct node *v = &t->v[i];
		const int choice = v->feature < 0 ? m->choice[v->action] : SAYS_OURS;
		v->runner_up_cost = 0;
		for (int r = 0; r < m->rows && v->feature < 0; r++)
			if (tree_leaf(t, &m->f[r]) == i)
				v->runner_up_cost += matrix_at(m, r, 0);
		v->runner_up = SAYS_OURS;
		v->remark = choice == SAYS_OURS ? REMARK_NONE : v->remark;
		v->action = choice < 0 ? choice : row_of(f, &d->choice[choice]);
	}
}

static int fit(struct forest *f, const struct data *d, enum decision decision,
	       const struct limits *limits)
{
	struct tree *t = &f->tree[decision];
	struct matrix *m = matrix_plugins(d, f, decision);
	const int least = m && m->rows / LEAST_SHARE > LEAST ? m->rows / LEAST_SHARE : LEAST;
	const struct growth how = { .max_leaves = limits->leaves,
				    .max_depth = MAX_DEPTH,
				    .min_support = least,
				    .rule = SIZE_FEWEST };
	int done = m != NULL;
	if (done && !m->rows)
		done = tree_constant(t, SAYS_OURS);
	else if (done) {
		done = matrix_portfolio(m, MOST_COLUMNS, 0, NULL) && tree_fit(t, m, &how) &&
		       keep_gains(t, m);
		if (done)
			name_leaves(f, t, d, m);
	}
	matrix_free(m);
	return done;
}

static int says_ours(const struct tree *t)
{
	return t->v[0].feature < 0 && t->v[0].action == SAYS_OURS;
}

int fit_plugins(struct forest *f, const struct data *all, const struct limits *limits)
{
	struct data first = *all;
	int done = 1, ours = 1;
	first.pass = PASS_A;
	for (int t = NUM_DECISIONS; done && t < ALL_DECISIONS; t++) {
		done = fit(f, &first, (enum decision)t, limits);
		ours &= done && says_ours(&f->tree[t]);
	}
	if (done && !ours)
		return 1;
	for (int t = NUM_DECISIONS; t < ALL_DECISIONS; t++)
		tree_free(&f->tree[t]);
	f->num_plugins = 0;
	return done;
}
