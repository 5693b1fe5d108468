/* overlap_times.c - the times of mixed batches by how their two parts overlap. A `way` is
 * SAYS_SERIAL, SAYS_STREAMS or a fused choice, as in overlap_decision.c. Its time counts as a ratio
 * to the fastest serial plan of the same race. */
#include "data.h"
#include "runs.h"
#include "harness/base/base.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>

/* A larger difference than this is not clock drift: the plans themselves differ. */
#define GOOD 0.95

/* Keeps eliminated runs, too: a serial plan that an overlap eliminated is the one to compare it
 * with. */
static void add_run(struct runs *r, const struct cell *cell, int way, int prefill, int decode)
{
	if (cell && cell->outcome == OUTCOME_OK)
		r->v[r->n++] = (struct run){ cell, way, prefill, decode };
}

int composed_way(const struct data *d, const struct composed *c)
{
	if (c->how == ATTUNE_SERIAL)
		return SAYS_SERIAL;
	return choice_spares(&d->choice[c->prefill]) > 0 ? c->prefill : SAYS_STREAMS;
}

int runs_find(const struct data *d, int s, enum pass pass, struct runs *r)
{
	const int row = s * NUM_PHASES + PHASE_ALL, plans = d->plan_at[s + 1] - d->plan_at[s];
	const size_t most = (size_t)(plans + d->row[row + 1] - d->row[row]);
	struct choice_iter i = choices_of(d, s, PHASE_ALL, PHASE_ALL);
	*r = (struct runs){ .v = calloc(most + 1, sizeof *r->v), .serial_us = data_serial(d, s) };
	for (int p = d->plan_at[s]; r->v && p < d->plan_at[s + 1]; p++) {
		const struct composed *c = &d->plan[p];
		if (c->pass == pass)
			add_run(r, &c->cell, composed_way(d, c), c->prefill, c->decode);
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

/* The run's time / the fastest serial time of its race. If that race had no serial run, or none
 * that is near the scenario's best, the scenario's serial time counts; it may be a sum of two
 * parts. */
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

/* The same parts in series, in the same race; NULL: not measured. */
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

/* Races also ran pairs of slow parts, which no overlap makes fast. */
static int has_good_parts(const struct runs *all, const struct run *run)
{
	const struct run *serial = serial_of(all, run);
	return serial && GOOD * serial->cell->us <= all->serial_us;
}

double runs_ratio(const struct runs *all, int way, const struct pick *p)
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

double runs_one_launch(const struct runs *all, int choice)
{
	for (int i = 0; i < all->n; i++)
		if (all->v[i].decode < 0 && all->v[i].prefill == choice)
			return ratio_of(all, &all->v[i]);
	return INFINITY;
}

double runs_streams(const struct runs *all, const struct pick *p)
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
		    c->cell.outcome != OUTCOME_OK || composed_way(d, c) != SAYS_STREAMS)
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
		if (runs_find(d, s, (enum pass)pass, &all))
			ratio = runs_ratio(&all, way, p);
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
