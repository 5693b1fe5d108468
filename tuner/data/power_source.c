/* power_source.c - finds out which runs the power reading of each cell covers.
 *
 * An NVIDIA sensor averages over a second; the race of a burst lasts a twentieth of that. A reading
 * after a burst covers whatever ran around it. A steady race runs without a break until the power
 * settles, so its reading covers all contenders; their joules then differ only as their times do.
 * The contenders left at its end each run alone for a while (protocol.hold_s), so their readings
 * cover only themselves. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_reading =
    1e-9; /* relative: the same number, converted to joules and back */

struct reading {
	struct cell *cell;
	int scenario, phase;
	double watts;
};

static int is_one_race(const struct reading *a, const struct reading *b)
{
	return a->scenario == b->scenario && a->phase == b->phase && a->cell->race == b->cell->race;
}

static int by_race(const void *pa, const void *pb)
{
	const struct reading *a = pa, *b = pb;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	if (a->cell->race != b->cell->race)
		return a->cell->race < b->cell->race ? -1 : 1;
	return (a->watts > b->watts) - (a->watts < b->watts);
}

static int are_same(const struct reading *a, const struct reading *b)
{
	return fabs(a->watts - b->watts) < same_reading * a->watts;
}

/* v: the n readings of one race, sorted by watts */
static enum power_of power_of(const struct reading *v, int i, int n)
{
	const int shared =
	    (i && are_same(&v[i - 1], &v[i])) || (i + 1 < n && are_same(&v[i], &v[i + 1]));
	return shared ? POWER_RACE : POWER_ALONE;
}

static void mark(const struct reading *v, int n)
{
	for (int i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && is_one_race(&v[i], &v[end]); end++)
			;
		for (int k = i; k < end; k++)
			v[k].cell->power_of = power_of(&v[i], k - i, end - i);
	}
}

/* v NULL: all readings cover what ran around a burst. */
static void read(struct reading *v, int *n, struct cell *c, int scenario, int phase)
{
	if (c->outcome != OUTCOME_OK || !(c->joules > 0))
		return;
	if (v)
		v[(*n)++] = (struct reading){ c, scenario, phase, c->joules / c->median_us };
	else
		c->power_of = POWER_AROUND;
}

int energy_mark(struct data *d)
{
	const int steady = strstr(d->protocol, "-steady") != NULL;
	const size_t all = (size_t)(d->num_cells + d->num_plans + d->num_early);
	struct reading *v = steady ? malloc(sizeof *v * (all + 1)) : NULL;
	int n = 0;
	if (steady && !v)
		return 0;
	for (int i = 0; i < d->num_cells; i++) {
		const int row = d->scaffold->place[i].row;
		read(v, &n, &d->cell[i], row / NUM_PHASES, row % NUM_PHASES);
	}
	for (int i = 0; i < d->num_plans; i++)
		read(v, &n, &d->plan[i].cell, d->plan[i].scenario, PHASE_PLAN);
	for (int i = 0; i < d->num_early; i++)
		read(v, &n, &d->early_launch[i].cell, d->early_launch[i].scenario,
		     (int)d->early_launch[i].phase);
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_race);
	mark(v, n);
	free(v);
	return 1;
}
