/* SPDX-License-Identifier: Apache-2.0 */
/* overlap_decision.c - learns the overlap decision: how the two parts A and B of a mixed batch run.
 * Ways, as in enum says of kernels/select/selector.h:
 *
 *   SAYS_SERIAL      A | B
 *   SAYS_ONE_LAUNCH  the choice of A runs the whole batch
 *   SAYS_STREAMS     A || B
 *   SAYS_SPARING16   A || B, where A leaves 16 units to B; and so on to 112
 *   a choice         of a fused kernel: one launch
 *
 * The time of a way is a ratio to the fastest serial plan of the same race. Two streams are
 * compared with the same parts in series. A leaf must not choose a way that is unmeasured or over
 * 1.49x slower than the pick's own parts in series, on any of its scenarios. Exempt: two streams
 * without a time, and ways that are illegal there: the library then runs the parts in series, or
 * on plain streams if A cannot leave units. With a limit of 2 %
 * most leaves could only choose two streams, since each had one scenario where pass A measured a
 * fused kernel as slow by chance: 21 % of 103 held-out mixed batches lost more than 5 %, instead of
 * 14 %.
 *
 * Fused choices may only be named if the kernel divides the units between the parts by an estimate
 * (0, the default of that axis): its own, or by the rates of the header (kernels/spec/mixed.h). A
 * fixed number that was best in a leaf's scenarios is 40 % too slow in others. From an H100's
 * times, 143 held-out mixed batches took 1.069 with fixed numbers and 1.041 without. */
#include "induce.h"
#include "kernels/spec/space.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/costmodel/made_up.h"
#include "tuner/data/data.h"
#include "tuner/data/runs.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>

enum { MAX_BEHIND = 400000 /* as a cost: 1.49x */ };
enum { NUM_SAYS = -SAYS_SPARING112 /* ways that are not a choice */ };
/* Ways that a tree with estimates may name: with numbers of units left to the decodes, and without. */
enum { WAYS = 5, WAYS_SPARING = 8 };
/* Minimum support: max(LEAST, rows / LEAST_SHARE). With rows / 10, every leaf contained a scenario
 * that loses. */
enum { LEAST_SHARE = 40, LEAST = 3 };
/* Rates for a header need times of FUSED choices in so many percent of the scenarios. */
enum { FUSED = 2, TIMED_PERCENT = 80 };

/* ---- which may be named ------------------------------------------------------------------ */
/* Whether a fused choice has all axes with default 0, by estimate, at that default. */
static int is_by_estimate(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	for (int i = 0; i < s->num_axes; i++)
		if (!s->axis[i].is_static && i != s->early_axis && !s->axis[i].dflt &&
		    c->config.v[i])
			return 0;
	return 1;
}

/* Whether the way is a fused choice that a leaf may name. */
static int is_fused_way(const struct data *d, int way)
{
	const struct choice *c = way < 0 ? NULL : &d->choice[way];
	return c && c->kernel->space->is_fused && c->kernel->selectable && is_by_estimate(c);
}

/* ---- which are worth a try ------------------------------------------------------------- */
/* Log gains of fused choices over the best serial plan, by rows; 0: none, or not measured. */
struct gains {
	int *choice, num_choices;
	double *v; /* [rows][num_choices] */
	int rows;
};

static int gains_fill(struct gains *g, const struct data *d)
{
	g->choice = malloc(sizeof *g->choice * ((size_t)d->num_choices + 1));
	for (int c = 0; g->choice && c < d->num_choices; c++)
		if (is_fused_way(d, c))
			g->choice[g->num_choices++] = c;
	g->v = calloc((size_t)d->n + 1, ((size_t)g->num_choices + 1) * sizeof *g->v);
	for (int s = 0; g->choice && g->v && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		double *row = &g->v[(size_t)g->rows * (size_t)g->num_choices];
		struct runs runs = { 0 };
		if (!data_is_training(m) || !m->has[PHASE_PREFILL] || !m->has[PHASE_DECODE])
			continue;
		if (!runs_find(d, s, PASS_A, &runs))
			return 0;
		for (int i = 0; i < g->num_choices; i++) {
			const double ratio = runs_fused(&runs, g->choice[i]);
			row[i] = ratio < 1 ? -log(ratio) : 0;
		}
		g->rows++;
		free(runs.v);
	}
	return g->choice && g->v;
}

/* The sum of column i's gains beyond those that rows already have. */
static double gain_of(const struct gains *g, int i, const double *has)
{
	double sum = 0;
	for (int r = 0; r < g->rows; r++)
		sum += fmax(0, g->v[(size_t)r * (size_t)g->num_choices + (size_t)i] - has[r]);
	return sum;
}

int overlap_portfolio(const struct data *all, int *choice, int most)
{
	struct data first = *all;
	struct gains g = { 0 };
	double *has = calloc((size_t)all->n + 1, sizeof *has);
	int n = 0;
	first.pass = PASS_A;
	for (int done = has && gains_fill(&g, &first); done && n < most; n++) {
		int best = -1;
		double gain = 0;
		for (int i = 0; i < g.num_choices; i++) {
			const double more = gain_of(&g, i, has);
			if (more > gain)
				best = i, gain = more;
		}
		if (best < 0)
			break;
		choice[n] = g.choice[best];
		for (int r = 0; r < g.rows; r++)
			has[r] =
			    fmax(has[r], g.v[(size_t)r * (size_t)g.num_choices + (size_t)best]);
	}
	free(g.choice);
	free(g.v);
	free(has);
	return n;
}

/* ---- costs ---------------------------------------------------------------------------- */
/* Lists the ways; [0] is serial. Returns their number. */
static int list_ways(const struct data *d, int *way)
{
	int n = 0;
	for (int says = SAYS_SERIAL; says >= SAYS_SPARING112; says--)
		way[n++] = says;
	for (int c = 0; c < d->num_choices; c++)
		if (is_fused_way(d, c))
			way[n++] = c;
	return n;
}

/* A mixed scenario's picks, and the rates by which fused choices divide it. */
struct picked {
	const struct pick *parts, *one_launch;
	const struct mixed_rates *rates;
};

/* The fused choice with its numbers for a scenario; -1: never measured so. */
static int divided(const struct data *d, int s, int choice, const struct mixed_rates *rates)
{
	const struct measured *m = &d->v[s];
	struct choice c = d->choice[choice];
	if (!data_legal(d, s, PHASE_ALL, choice))
		return choice;
	config_divide(&c.config, c.kernel, rates, &m->shape, &m->part[PHASE_ALL], &d->run.device);
	return data_find(d, &c);
}

/* What a way comes to: plain streams, if the prefills' choice cannot leave units there. */
static int way_there(const struct data *d, int s, int way, const struct picked *p)
{
	const struct measured *m = &d->v[s];
	struct choice c;
	if (!says_spares(way) || p->parts->prefill < 0)
		return way;
	c = d->choice[p->parts->prefill];
	return config_spare(&c.config, c.kernel->space, says_spares(way), &m->shape,
			    &m->part[PHASE_PREFILL], &d->run.device)
		   ? way
		   : SAYS_STREAMS;
}

/* A fused choice whose numbers by the rates have no time counts with those by its own estimate: in 321
 * races of an H200 that had both, the first took 3.5 % less. */
static double learned_ratio(const struct data *d, int s, const struct runs *all, int way,
			    const struct picked *p)
{
	const int fused = way < 0 ? -1 : divided(d, s, way, p->rates);
	const double by_rates = fused < 0 ? INFINITY : runs_fused(all, fused);
	return way == SAYS_SERIAL       ? 1
	       : way == SAYS_ONE_LAUNCH ? runs_one_launch(all, p->one_launch->prefill)
	       : way < 0                ? runs_streams(all, way, p->parts)
	       : isfinite(by_rates)     ? by_rates
					: runs_fused(all, way);
}

/* Whether an unmeasured way counts as serial: the library runs the parts in series where it is
 * illegal, and two streams are assumed to gain nothing (plan_times.c). */
static int gains_nothing(const struct data *d, int s, int way, const struct picked *p)
{
	if (way == SAYS_ONE_LAUNCH)
		return p->one_launch->join;
	return way < 0 ? !says_spares(way) : !data_legal(d, s, PHASE_ALL, way);
}

/* The pick's own parts in series / the fastest serial plan. INFINITY if they have no time: the row
 * is then left out, since its plans have other parts, which may be slow. */
static double own_ratio(const struct data *d, int s, struct pick p)
{
	p.how = ATTUNE_SERIAL;
	return fmax(1, data_plan_time(d, s, &p) / data_serial(d, s));
}

/* Time of a way / the fastest serial plan; INFINITY: not measured. */
static double way_ratio(const struct data *d, int s, const struct runs *all, int way,
			const struct picked *p, double own)
{
	const double ratio = learned_ratio(d, s, all, way, p);
	if (!isfinite(ratio) && gains_nothing(d, s, way, p))
		return own;
	return way == SAYS_ONE_LAUNCH || way >= 0 ? ratio : own * ratio;
}

/* Fills in the costs of a row. own: from own_ratio(); ways that use the pick's parts are scaled by
 * it. ratio: scratch, [cols]. 0: only serial was measured. */
static int fill_row(const struct data *d, int s, const struct runs *all, const struct matrix *m,
		    const struct picked *p, double own, double *ratio, int32_t *cost)
{
	double best = own;
	int others = 0;
	for (int c = 0; c < m->cols; c++) {
		const int way = way_there(d, s, m->choice[c], p);
		others += way != SAYS_SERIAL && isfinite(learned_ratio(d, s, all, way, p));
		ratio[c] = way_ratio(d, s, all, way, p, own);
		best = fmin(best, ratio[c]);
	}
	for (int c = 0; c < m->cols; c++)
		cost[c] = !isfinite(ratio[c]) || ratio[c] > own * exp(MAX_BEHIND / 1e6)
			      ? COST_FORBIDDEN
			  : ratio[c] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
								       : cost_of(ratio[c], best);
	return others;
}

static int least_rows(const struct matrix *m)
{
	return m->rows / LEAST_SHARE > LEAST ? m->rows / LEAST_SHARE : LEAST;
}

struct matrix *matrix_overlap(const struct data *all, const struct pick *picks,
			      const struct pick *one_launch, const struct mixed_rates *rates)
{
	struct data first = *all;
	struct matrix *m = matrix_new(all->n, all->num_choices + NUM_SAYS);
	double *ratio = malloc(sizeof *ratio * (size_t)(all->num_choices + NUM_SAYS));
	first.pass = PASS_A;
	if (!m || !ratio) {
		matrix_free(m);
		free(ratio);
		return NULL;
	}
	m->rows = 0;
	m->cols = list_ways(all, m->choice);
	for (int s = 0; s < all->n; s++) {
		const struct measured *v = &all->v[s];
		int32_t *cost = &m->cost[m->rows * m->cols];
		const struct picked p = { &picks[s], &one_launch[s], rates };
		struct runs runs = { 0 };
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE])
			continue;
		const double own = own_ratio(&first, s, picks[s]);
		if (isfinite(own) && runs_find(&first, s, PASS_A, &runs) &&
		    fill_row(&first, s, &runs, m, &p, own, ratio, cost)) {
			m->scenario[m->rows] = s;
			m->fallback[m->rows] = cost[0];
			matrix_describe_row(&first, m, m->rows++, PHASE_ALL);
		}
		free(runs.v);
	}
	free(ratio);
	return m;
}

/* ---- the tree ------------------------------------------------------------------------- */
/* The action of a column; choices that no other tree names get new ids. */
static int id_of(struct forest *f, const struct data *d, const struct matrix *m, int column)
{
	const int way = column < 0 ? SAYS_SERIAL : m->choice[column];
	int id = 0;
	if (way < 0)
		return way;
	while (id < f->num_choices && !choice_same(&f->choice[id], &d->choice[way]))
		id++;
	if (id == MAX_IDS)
		return SAYS_SERIAL;
	if (id == f->num_choices)
		f->choice[f->num_choices++] = d->choice[way];
	return id;
}

/* The same for a runner-up, which must not add a choice: SAYS_SERIAL if it has no id. */
static int known_id(struct forest *f, const struct data *d, const struct matrix *m, int column)
{
	const int before = f->num_choices;
	const int id = id_of(f, d, m, column);
	f->num_choices = before;
	return id < before ? id : SAYS_SERIAL;
}

static void name_leaves(struct forest *f, const struct data *d, const struct matrix *m)
{
	struct tree *t = &f->tree[DECIDE_OVERLAP];
	for (int i = 0; i < t->n; i++) {
		struct node *v = &t->v[i];
		if (v->feature >= 0)
			continue;
		v->remark = m->choice[v->action] == SAYS_SERIAL ? REMARK_NONE : v->remark;
		v->action = id_of(f, d, m, v->action);
	}
	for (int i = 0; i < t->n; i++) {
		t->v[i].runner_up = known_id(f, d, m, t->v[i].runner_up);
		t->v[i].action = t->v[i].feature < 0 ? t->v[i].action : SAYS_SERIAL;
	}
}

/* Fits the tree to the measured rows and, where there are enough, to made-up batches beside them. A
 * leaf's least rows count both. *loss: the mean cost of a row while held out. */
static int grow_ways(struct tree *t, const struct data *d, struct matrix *m, int most,
		     const struct growth *how, double *loss)
{
	const int with_estimates = m->rows >= ROWS_FOR_ESTIMATES;
	struct growth enough = *how;
	struct matrix *made = NULL;
	if (with_estimates && !matrix_portfolio(m, most, 0, NULL))
		return 0;
	if (with_estimates && !(made = made_up_mixed(d, m)))
		return 0;
	const struct matrix *from = made ? made : m;
	enough.scenarios = m->rows;
	enough.min_support = least_rows(m);
	enough.loss = loss;
	tree_free(t);
	const int done = tree_fit(t, from, &enough) && leaves_describe(t, m);
	matrix_free(made);
	return done;
}

/* The matrix without the columns of units left to the decodes. */
static struct matrix *without_spares(const struct matrix *m)
{
	struct matrix *less = matrix_new(m->rows, m->cols);
	if (!less)
		return NULL;
	less->cols = 0;
	for (int c = 0; c < m->cols; c++)
		if (!says_spares(m->choice[c]))
			less->choice[less->cols++] = m->choice[c];
	for (int r = 0; r < m->rows; r++) {
		made_up_row_like(less, r, m, r);
		for (int c = 0, to = 0; c < m->cols; c++)
			if (!says_spares(m->choice[c]))
				less->cost[r * less->cols + to++] = m->cost[r * m->cols + c];
	}
	return less;
}

/* Grows the tree with and without numbers of units left to the decodes. Keeps the first where it
 * loses a twentieth less on rows held out: the best number depends on how the blocks of both parts
 * fit the units, which features hardly tell. *m: the matrix of the tree. */
static int grow_overlap(struct tree *t, const struct data *d, struct matrix **m,
			const struct growth *how)
{
	struct matrix *less = without_spares(*m);
	struct tree sparing = { 0 };
	double loss, with_spares;
	int done = less && grow_ways(t, d, less, WAYS, how, &loss) &&
		   grow_ways(&sparing, d, *m, WAYS_SPARING, how, &with_spares);
	if (done && 20 * with_spares < 19 * loss) {
		tree_free(t);
		*t = sparing;
		matrix_free(less);
		return 1;
	}
	tree_free(&sparing);
	matrix_free(*m);
	*m = less;
	return done;
}

/* Whether most training scenarios have times of the fused choices with the numbers that the rates
 * give, so that the races and not only the fit speak for them. */
static int rates_have_times(const struct data *d, const struct mixed_rates *rates)
{
	int choice[FUSED], legal = 0, timed = 0;
	const int n = overlap_portfolio(d, choice, FUSED);
	for (int s = 0; s < d->n; s++)
		for (int i = 0; i < n; i++) {
			if (!data_is_training(&d->v[s]) || !measured_is_mixed(&d->v[s]) ||
			    !data_legal(d, s, PHASE_ALL, choice[i]) ||
			    !data_cell_in(d, PASS_A, s, PHASE_ALL, choice[i]))
				continue;
			legal++;
			timed += data_cell_in(d, PASS_A, s, PHASE_ALL,
					      divided(d, s, choice[i], rates)) != NULL;
		}
	return timed * 100ll >= legal * (long long)TIMED_PERCENT;
}

static int fit_rates(struct forest *f, const struct data *d)
{
	struct mixed_rates rates;
	if (!mixed_fit(d, &rates))
		return 0;
	if (rates.unit_flops && rates_have_times(d, &rates))
		f->mixed = rates;
	return 1;
}

/* The plan of a mixed scenario by a way that is not a choice. */
static void pick_by(const struct data *d, const struct forest *f, int s, int way, struct pick *p)
{
	struct decided made;
	forest_make_serial(d, f, &d->v[s], &made);
	overlap_made(d, f, way, &d->v[s], &made);
	decided_pick(d, &made, p);
}

int fit_overlap(struct forest *f, const struct data *d, const struct growth *how)
{
	struct pick *picks = malloc(sizeof *picks * 2 * (size_t)(d->n + 1));
	struct pick *one_launch = picks ? picks + d->n : NULL;
	struct tree *t = &f->tree[DECIDE_OVERLAP];
	struct matrix *m = NULL;
	int done = 0;
	if (picks && fit_rates(f, d) && tree_constant(t, SAYS_SERIAL)) {
		for (int s = 0; s < d->n; s++)
			pick_by(d, f, s, SAYS_SERIAL, &picks[s]);
		for (int s = 0; s < d->n; s++)
			pick_by(d, f, s, SAYS_ONE_LAUNCH, &one_launch[s]);
		m = matrix_overlap(d, picks, one_launch, &f->mixed);
		done = m && !m->rows;
	}
	if (m && m->rows) {
		done = grow_overlap(t, d, &m, how);
		if (done)
			name_leaves(f, d, m);
	}
	matrix_free(m);
	free(picks);
	return done;
}
