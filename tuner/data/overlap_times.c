/* SPDX-License-Identifier: Apache-2.0 */
/* overlap_times.c - the times of mixed batches by how their two parts overlap. A `way` is
 * SAYS_SERIAL, SAYS_STREAMS, SAYS_SPARING16 to SAYS_SPARING112 or a fused choice, as in
 * overlap_decision.c. Its time counts as a ratio to serial plans of the same race. */
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

/* Plans with another number of units left to the decodes: no leaf can name it. */
enum { WAY_UNNAMED = SAYS_SPARING112 - 1 };

static int streams_sparing(int units)
{
	const int way = SAYS_STREAMS - units / 16;
	return units % 16 || way < SAYS_SPARING112 ? WAY_UNNAMED : way;
}

static int composed_way(const struct data *d, const struct composed *c)
{
	return c->how == ATTUNE_SERIAL ? SAYS_SERIAL
				       : streams_sparing(choice_spares(&d->choice[c->prefill]));
}

int data_unspared(const struct data *d, int choice)
{
	struct choice c;
	if (choice < 0 || !choice_spares(&d->choice[choice]))
		return choice;
	c = d->choice[choice];
	c.config.v[space_spares(c.kernel->space)] = 0;
	return data_find(d, &c);
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
			add_run(r, &c->cell, composed_way(d, c), data_unspared(d, c->prefill),
				c->decode);
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

double runs_fused(const struct runs *all, int choice)
{
	double best = INFINITY;
	for (int i = 0; i < all->n; i++)
		if (all->v[i].way == choice && !isnan(ratio_of(all, &all->v[i])))
			best = fmin(best, ratio_of(all, &all->v[i]));
	return best;
}

double runs_one_launch(const struct runs *all, int choice)
{
	for (int i = 0; i < all->n; i++)
		if (all->v[i].decode < 0 && all->v[i].prefill == choice)
			return ratio_of(all, &all->v[i]);
	return INFINITY;
}

double runs_streams(const struct runs *all, int way, const struct pick *p)
{
	double ratio = INFINITY, us = INFINITY;
	for (int i = 0; i < all->n; i++) {
		const struct run *run = &all->v[i];
		const struct run *serial = run->way == way ? serial_of(all, run) : NULL;
		const double itself = serial ? run->cell->ratio / serial->cell->ratio : NAN;
		if (run->way != way)
			continue;
		if (run->prefill == p->prefill && run->decode == p->decode)
			return serial ? itself : ratio_of(all, run);
		if (serial && run->cell->us < us)
			us = run->cell->us, ratio = itself;
	}
	return ratio;
}

double overlap_pairs(const struct data *d, int s, int way)
{
	const int again = d->pass == PASS_B;
	double least = INFINITY;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
		const struct composed *c = &d->plan[i];
		if (c->pass > d->pass || (again && c->is_outdone) ||
		    c->cell.outcome != OUTCOME_OK || composed_way(d, c) != way)
			continue;
		const double shift = again && c->pass == PASS_A ? d->shift[s] : 1;
		const double apart = data_time(d, s, PHASE_PREFILL, data_unspared(d, c->prefill)) +
				     data_time(d, s, PHASE_DECODE, c->decode);
		if (isfinite(apart))
			least = fmin(least, c->cell.us * shift / apart);
	}
	return least;
}

int pick_way(const struct data *d, const struct pick *p)
{
	const struct choice *c = p->prefill < 0 ? NULL : &d->choice[p->prefill];
	if (p->how == ATTUNE_STREAMS)
		return streams_sparing(c ? choice_spares(c) : 0);
	return c && !p->join && c->kernel->space->is_fused ? p->prefill : SAYS_SERIAL;
}
