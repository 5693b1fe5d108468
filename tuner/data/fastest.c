/* SPDX-License-Identifier: Apache-2.0 */
/* fastest.c - finds the least time of each part and of the whole of each scenario, once for either
 * pass, since they are read often. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

/* The least times of one scenario and pass; either of all plans or of those without overlap. */
struct fastest {
	double us[NUM_PHASES], whole_us;
	int choice[NUM_PHASES];
};

static struct fastest *fastest_of(const struct data *d, int scenario, int serial)
{
	return &d->fastest[(scenario * NUM_PASSES + (int)d->pass) * 2 + serial];
}

/* serial: leaves out choices that overlap. */
static void find_part(const struct data *d, int scenario, enum phase phase, int serial,
		      const char *overlaps, struct fastest *f)
{
	const int again = measured_again(d, scenario, phase);
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	f->us[phase] = INFINITY;
	f->choice[phase] = -1;
	while (choices_next(&i)) {
		if ((again && !cells_confirmed(d, scenario, i.cells)) ||
		    (serial && overlaps[i.choice]))
			continue;
		const double us = cells_part_time(d, scenario, i.cells);
		if (us < f->us[phase])
			f->us[phase] = us, f->choice[phase] = i.choice;
	}
}

/* The least time of all plans, or only_again of those that pass B measured. */
static double least_of(const struct data *d, int scenario, int only_again, int serial,
		       const struct fastest *f)
{
	const struct measured *m = &d->v[scenario];
	int parts_count = 1;
	double best = INFINITY, parts = 0;
	if (!only_again || measured_again(d, scenario, PHASE_ALL))
		best = f->us[PHASE_ALL];
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++) {
		if (!m->has[p])
			continue;
		parts += f->us[p];
		parts_count &= !only_again || measured_again(d, scenario, p);
	}
	if (parts_count)
		best = fmin(best, parts);
	for (int i = d->plan_at[scenario]; i < d->plan_at[scenario + 1]; i++) {
		const struct composed *c = &d->plan[i];
		if (c->cell.outcome != OUTCOME_OK || c->pass > d->pass ||
		    (only_again && c->pass == PASS_A) || (serial && c->how != ATTUNE_SERIAL) ||
		    (d->pass == PASS_B && c->is_outdone))
			continue;
		const double shift =
		    d->pass == PASS_B && c->pass == PASS_A ? d->shift[scenario] : 1;
		best = fmin(best, c->cell.median_us * shift);
	}
	return best;
}

static double least_way(const struct data *d, int scenario, int serial, const struct fastest *f)
{
	const int again = measured_again(d, scenario, PHASE_ALL) ||
			  measured_again(d, scenario, PHASE_PREFILL) ||
			  measured_again(d, scenario, PHASE_DECODE);
	const double best = again ? least_of(d, scenario, 1, serial, f) : INFINITY;
	return isfinite(best) ? best : least_of(d, scenario, 0, serial, f);
}

int fastest_find(struct data *all)
{
	char *overlaps = calloc((size_t)all->num_choices + 1, 1);
	struct data of_pass, *d = &of_pass;
	all->fastest = malloc(sizeof *all->fastest * ((size_t)all->n * NUM_PASSES * 2 + 1));
	of_pass = *all;
	for (int c = 0; overlaps && c < d->num_choices; c++)
		overlaps[c] = (char)choice_overlaps(&d->choice[c]);
	for (int i = 0; overlaps && d->fastest && i < d->n * NUM_PASSES * 2; i++) {
		const int scenario = i / 2 / NUM_PASSES, serial = i % 2;
		d->pass = (enum pass)(i / 2 % NUM_PASSES);
		struct fastest *f = fastest_of(d, scenario, serial);
		for (int p = 0; p < NUM_PHASES; p++)
			find_part(d, scenario, (enum phase)p, serial, overlaps, f);
		f->whole_us = least_way(d, scenario, serial, f);
	}
	free(overlaps);
	return overlaps && all->fastest;
}

double data_best(const struct data *d, int scenario, enum phase phase, int *choice)
{
	const struct fastest *f = fastest_of(d, scenario, 0);
	*choice = f->choice[phase];
	return f->us[phase];
}

double data_oracle(const struct data *d, int scenario)
{
	return fastest_of(d, scenario, 0)->whole_us;
}

double data_serial(const struct data *d, int scenario)
{
	return fastest_of(d, scenario, 1)->whole_us;
}
