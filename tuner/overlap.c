/* overlap.c - the overlap decision: whether parts that run apart do so one after the other
 * or side by side, and in which way. Ways are, as in enum says of kernels/heuristics.h:
 *
 *   SAYS_SERIAL   A | B
 *   SAYS_STREAMS  A || B
 *   a choice      of a fused kernel: one launch; else C || B, where C leaves units to B
 *
 * Times of a way count as ratios to the fastest serial way of the same race; while learning those
 * of two streams to the same parts one after the other, and the pick's own parts for what they
 * are. What takes half as long again as these, or was not measured, no leaf over that scenario may
 * say, but two streams, and what is not legal there. With a limit of 2 % instead most leaves could
 * say two streams alone, since each had one scenario where the first pass had no luck with a
 * fused kernel: of 103 held-out mixed batches 21 % lost more than 5 % by it, and 14 % do now.
 *
 * Of a fused kernel only choices that divide the units between both parts by estimate (0, the
 * default of such an axis) may be named: a number that was best in a leaf's scenarios is 40 % too
 * slow in others. Learned from an H100's times, numbers took 1.069 on 143 held-out mixed batches,
 * and 1.041 without them. */
#include "../harness/sweep.h"
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BEHIND = 400000 /* as a cost */ };
enum { NUM_SAYS = 2 /* ways that are no choice */ };
/* A leaf may lose that share for fewer choices. */
#define ENOUGH 0.005
/* What is this share of another time was another plan, and not the clock. */
#define GOOD 0.95
/* A leaf has one in so many of the mixed scenarios, or three: one in ten always had one that
 * loses. */
enum { LEAST_SHARE = 40, LEAST = 3 };

/* ---- what a way takes ----------------------------------------------------------------- */
/* Whether a fused choice leaves to the kernel what it can: axes whose default is 0, by estimate. */
static int is_by_estimate(const struct choice *c)
{
	const struct space *s = c->kernel->space;
	for (int i = 0; i < s->num_axes; i++)
		if (!s->axis[i].is_static && i != s->early_axis && !s->axis[i].dflt &&
		    c->config.v[i])
			return 0;
	return 1;
}

/* Fused ones that a leaf may name. */
static int is_fused_way(const struct data *d, int way)
{
	const struct choice *c = way < 0 ? NULL : &d->choice[way];
	return c && c->kernel->space->is_fused && c->kernel->selectable && is_by_estimate(c);
}

int choice_overlaps(const struct choice *c)
{
	return c->kernel->space->is_fused || choice_spares(c) > 0;
}

/* A measured way to run a mixed scenario whole. */
struct run {
	const struct cell *cell;
	int way;
	int prefill, decode; /* of a plan; -1 */
};

struct runs {
	struct run *v;
	int n;
	double serial_us; /* the least of all serial ways, in whatever race */
};

/* Also of those that the race gave up: the serial plan which another way has beaten is the
 * one to compare that with. */
static void add_run(struct runs *r, const struct cell *cell, int way, int prefill, int decode)
{
	if (cell && cell->outcome == OUTCOME_OK)
		r->v[r->n++] = (struct run){ cell, way, prefill, decode };
}

static int way_of(const struct data *d, const struct composed *c)
{
	if (c->how == ATTUNE_SERIAL)
		return SAYS_SERIAL;
	return choice_spares(&d->choice[c->prefill]) > 0 ? c->prefill : SAYS_STREAMS;
}

/* All of one pass. 0 without memory. */
static int find_runs(const struct data *d, int s, enum pass pass, struct runs *r)
{
	const int row = s * NUM_PHASES + PHASE_ALL, plans = d->plan_at[s + 1] - d->plan_at[s];
	const size_t most = (size_t)(plans + d->row[row + 1] - d->row[row]);
	struct choice_iter i = choices_of(d, s, PHASE_ALL, PHASE_ALL);
	*r = (struct runs){ .v = calloc(most + 1, sizeof *r->v), .serial_us = data_serial(d, s) };
	for (int p = d->plan_at[s]; r->v && p < d->plan_at[s + 1]; p++) {
		const struct composed *c = &d->plan[p];
		if (c->pass == pass)
			add_run(r, &c->cell, way_of(d, c), c->prefill, c->decode);
	}
	while (r->v && choices_next(&i)) {
		const int is_fused = d->choice[i.choice].kernel->space->is_fused;
		add_run(r, i.cells[0].of[pass], is_fused ? i.choice : SAYS_SERIAL, i.choice, -1);
	}
	return r->v != NULL;
}

static int is_paired(const struct cell *a, const struct cell *b)
{
	return a->race == b->race && a->ratio > 0 && b->ratio > 0;
}

/* To the fastest serial run of the same race. Where that race had none, or none that is any
 * good, to the fastest of all, be it the sum of parts that no race ran one after the other. */
static double ratio_of(const struct runs *all, const struct run *run)
{
	double paired = NAN, us = INFINITY;
	for (int i = 0; i < all->n; i++) {
		const struct cell *serial = all->v[i].cell;
		if (all->v[i].way != SAYS_SERIAL || !is_paired(run->cell, serial))
			continue;
		paired = fmax(run->cell->ratio / serial->ratio, isnan(paired) ? 0 : paired);
		us = fmin(us, serial->us);
	}
	if (isnan(paired))
		return isfinite(all->serial_us) ? run->cell->us / all->serial_us : NAN;
	return all->serial_us < GOOD * us ? paired * us / all->serial_us : paired;
}

/* The same parts one after the other, in the same race; NULL: they did not run so. */
static const struct run *serial_of(const struct runs *all, const struct run *run)
{
	for (int i = 0; i < all->n; i++) {
		const struct run *serial = &all->v[i];
		if (serial->way == SAYS_SERIAL && serial->prefill == run->prefill &&
		    serial->decode == run->decode && is_paired(run->cell, serial->cell))
			return serial;
	}
	return NULL;
}

/* Races ran pairs, too, of which neither part was any good: no way makes these fast. */
static int has_good_parts(const struct runs *all, const struct run *run)
{
	const struct run *serial = serial_of(all, run);
	return serial && GOOD * serial->cell->us <= all->serial_us;
}

/* The least ratio of a way; of the pick's own parts, where they ran so. */
static double ratio_in(const struct runs *all, int way, const struct pick *p)
{
	double best = INFINITY, own = INFINITY;
	for (int i = 0; i < all->n; i++) {
		const struct run *run = &all->v[i];
		const double ratio = run->way == way ? ratio_of(all, run) : NAN;
		if (isnan(ratio))
			continue;
		if (!p || way != SAYS_STREAMS || has_good_parts(all, run))
			best = fmin(best, ratio);
		if (p && run->decode == p->decode && (way >= 0 || run->prefill == p->prefill))
			own = fmin(own, ratio);
	}
	return isfinite(own) ? own : best;
}

/* What two streams take, to one after the other: hardly a matter of what the parts are. Told
 * by the pick's own parts, else by the fastest pair that ran both ways. */
static double streams_ratio(const struct runs *all, const struct pick *p)
{
	double ratio = INFINITY, us = INFINITY;
	for (int i = 0; i < all->n; i++) {
		const struct run *run = &all->v[i];
		const struct run *serial = run->way == SAYS_STREAMS ? serial_of(all, run) : NULL;
		const double itself = serial ? run->cell->ratio / serial->cell->ratio : NAN;
		if (run->way != SAYS_STREAMS)
			continue;
		if (run->prefill == p->prefill && run->decode == p->decode)
			return serial ? itself : ratio_of(all, run);
		if (serial && run->cell->us < us)
			us = run->cell->us, ratio = itself;
	}
	return ratio;
}

double overlap_pairs(const struct data *d, int s)
{
	const int again = d->pass == PASS_B;
	double least = INFINITY;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
		const struct composed *c = &d->plan[i];
		if (c->pass > d->pass || (again && c->is_outdone) ||
		    c->cell.outcome != OUTCOME_OK || way_of(d, c) != SAYS_STREAMS)
			continue;
		const double shift = again && c->pass == PASS_A ? d->shift[s] : 1;
		const double apart = data_time(d, s, PHASE_PREFILL, c->prefill) +
				     data_time(d, s, PHASE_DECODE, c->decode);
		if (isfinite(apart))
			least = fmin(least, c->cell.us * shift / apart);
	}
	return least;
}

double overlap_ratio(const struct data *d, int s, int way, const struct pick *p)
{
	double ratio = INFINITY;
	for (int pass = (int)d->pass; pass >= PASS_A && !isfinite(ratio); pass--) {
		struct runs all;
		if (find_runs(d, s, (enum pass)pass, &all))
			ratio = ratio_in(&all, way, p);
		free(all.v);
	}
	return ratio;
}

int pick_way(const struct data *d, const struct pick *p)
{
	const struct choice *c = p->prefill < 0 ? NULL : &d->choice[p->prefill];
	if (p->how == ATTUNE_STREAMS)
		return c && choice_spares(c) > 0 ? p->prefill : SAYS_STREAMS;
	return c && !p->join && c->kernel->space->is_fused ? p->prefill : SAYS_SERIAL;
}

/* ---- which are worth a try ------------------------------------------------------------- */
/* Of fused choices, by rows: what they gain over the best serial plan, as a log; 0: nothing,
 * or not measured. */
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
		if (!find_runs(d, s, PASS_A, &runs))
			return 0;
		for (int i = 0; i < g->num_choices; i++) {
			const double ratio = ratio_in(&runs, g->choice[i], NULL);
			row[i] = ratio < 1 ? -log(ratio) : 0;
		}
		g->rows++;
		free(runs.v);
	}
	return g->choice && g->v;
}

/* What column `i` gains beyond what each row has. */
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
/* Ways that some training scenario was run in; [0] is serial. How many. */
static int list_ways(const struct data *d, int *way)
{
	char *seen = calloc((size_t)d->num_choices + 1, 1);
	int n = 0;
	way[n++] = SAYS_SERIAL;
	way[n++] = SAYS_STREAMS;
	for (int i = 0; seen && i < d->num_plans; i++)
		if (d->plan[i].how == ATTUNE_STREAMS && way_of(d, &d->plan[i]) >= 0)
			seen[d->plan[i].prefill] = 1;
	for (int c = 0; seen && c < d->num_choices; c++)
		if (seen[c] || is_fused_way(d, c))
			way[n++] = c;
	free(seen);
	return n;
}

static double learned_ratio(const struct runs *all, int way, const struct pick *p)
{
	return way == SAYS_SERIAL    ? 1
	       : way == SAYS_STREAMS ? streams_ratio(all, p)
				     : ratio_in(all, way, p);
}

/* Of a way that was not measured: where it is not legal the library runs the parts one after
 * the other, and two streams are taken to (times.c). */
static int gains_nothing(const struct data *d, int s, int way)
{
	return way < 0 || !data_legal(d, s, is_fused_way(d, way) ? PHASE_ALL : PHASE_PREFILL, way);
}

/* Both parts of the pick, one after the other, to the fastest serial way. Infinite where they have
 * no time: ways are then told by plans of other parts alone, which may have been slow ones. */
static double own_ratio(const struct data *d, int s, struct pick p)
{
	p.how = ATTUNE_SERIAL;
	return fmax(1, data_plan_time(d, s, &p) / data_serial(d, s));
}

/* What a column takes, to the fastest serial way; INFINITY: it was not measured. */
static double column_ratio(const struct data *d, int s, const struct runs *all, int way,
			   const struct pick *p, double own)
{
	const double ratio = learned_ratio(all, way, p);
	if (!isfinite(ratio) && gains_nothing(d, s, way))
		return own;
	return is_fused_way(d, way) ? ratio : own * ratio;
}

/* 0: nothing but serial was measured. own: what the pick's parts take one after the other, which
 * is what those ways save that do without them. ratio: room for one of each column. */
static int fill_row(const struct data *d, int s, const struct runs *all, const struct matrix *m,
		    const struct pick *p, double own, double *ratio, int32_t *cost)
{
	double best = own;
	int others = 0;
	for (int c = 0; c < m->cols; c++) {
		const int way = m->choice[c];
		others += way != SAYS_SERIAL && isfinite(learned_ratio(all, way, p));
		ratio[c] = column_ratio(d, s, all, way, p, own);
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

/* Drops ways that no leaf can say: those allowed in fewer rows than a leaf has. Sweeps try
 * hundreds of pairs of which each ran in a few scenarios. */
static void drop_rare(struct matrix *m)
{
	const int before = m->cols, least = least_rows(m);
	m->cols = 0;
	for (int c = 0; c < before; c++) {
		int allowed = 0;
		for (int r = 0; r < m->rows; r++)
			allowed += m->cost[r * before + c] < COST_FORBIDDEN;
		if (m->choice[c] < 0 || allowed >= least) {
			for (int r = 0; r < m->rows; r++)
				m->cost[r * before + m->cols] = m->cost[r * before + c];
			m->choice[m->cols++] = m->choice[c];
		}
	}
	for (int r = 0; r < m->rows; r++)
		memmove(&m->cost[r * m->cols], &m->cost[r * before],
			sizeof *m->cost * (size_t)m->cols);
}

struct matrix *matrix_overlap(const struct data *all, const struct pick *picks)
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
		struct runs runs = { 0 };
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE])
			continue;
		const double own = own_ratio(&first, s, picks[s]);
		if (isfinite(own) && find_runs(&first, s, PASS_A, &runs) &&
		    fill_row(&first, s, &runs, m, &picks[s], own, ratio, cost)) {
			m->scenario[m->rows] = s;
			m->fallback[m->rows] = cost[0];
			matrix_describe_row(&first, m, m->rows++, PHASE_ALL);
		}
		free(runs.v);
	}
	free(ratio);
	drop_rare(m);
	return m;
}

/* ---- the tree ------------------------------------------------------------------------- */
/* What a leaf says of a column: the ids of choices that no other tree names follow. */
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

/* Runners-up are named only where a leaf needs their code anyway. */
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

int fit_overlap(struct forest *f, const struct data *d, const struct growth *how)
{
	struct pick *picks = malloc(sizeof *picks * (size_t)(d->n + 1));
	struct tree *t = &f->tree[DECIDE_OVERLAP];
	struct matrix *m = NULL;
	int done = 0;
	if (picks && tree_constant(t, SAYS_SERIAL)) {
		for (int s = 0; s < d->n; s++)
			forest_pick(d, f, s, &picks[s]);
		m = matrix_overlap(d, picks);
		done = m && !m->rows;
	}
	if (m && m->rows) {
		struct growth enough = *how;
		enough.min_support = least_rows(m);
		tree_free(t);
		done = tree_fit(t, m, &enough) && tree_relabel(t, m, ENOUGH, NULL) &&
		       tree_tidy(t) && leaves_describe(t, m);
		if (done)
			name_leaves(f, d, m);
	}
	matrix_free(m);
	free(picks);
	return done;
}

int forest_overlaps(const struct forest *f)
{
	const struct tree *t = &f->tree[DECIDE_OVERLAP];
	int says = 0;
	for (int i = 0; i < t->n; i++)
		says |= t->v[i].feature < 0 && t->v[i].action != SAYS_SERIAL;
	return says;
}
