/* early_times.c - the time of a part whose launch begins early, relative to the same launch in
 * turn. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

static int by_place(const void *x, const void *y)
{
	const struct early_part *a = x, *b = y;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	return (a->choice > b->choice) - (a->choice < b->choice);
}

struct early_part *early_parts(const struct data *d, int *n)
{
	struct early_part *v = malloc(sizeof *v * ((size_t)d->num_early + 1));
	*n = 0;
	for (int i = 0; v && i < d->num_early; i++) {
		const struct early_launch *p = &d->early_launch[i];
		v[i] = (struct early_part){ p->scenario, p->choice, p->phase };
	}
	if (v && d->num_early)
		qsort(v, (size_t)d->num_early, sizeof *v, by_place);
	for (int i = 0; v && i < d->num_early; i++)
		if (!*n || by_place(&v[*n - 1], &v[i]))
			v[(*n)++] = v[i];
	return v;
}

static int is_of(const struct early_launch *p, int scenario, enum phase phase)
{
	return p->scenario == scenario && p->phase == phase;
}

static const struct cell *cell_with(const struct data *d, const struct early_part *p, int value)
{
	for (int i = 0; i < d->num_early; i++) {
		const struct early_launch *at = &d->early_launch[i];
		if (is_of(at, p->scenario, p->phase) && at->choice == p->choice &&
		    at->value == value)
			return &at->cell;
	}
	return NULL;
}

double early_part_ratio(const struct data *d, const struct early_part *p, int value)
{
	const struct cell *turn = cell_with(d, p, 0), *early = cell_with(d, p, value);
	if (!turn || !early || turn->outcome != OUTCOME_OK || early->outcome != OUTCOME_OK ||
	    turn->race != early->race)
		return NAN;
	return turn->ratio > 0 && early->ratio > 0 ? early->ratio / turn->ratio
						   : early->median_us / turn->median_us;
}

double early_ratio(const struct data *d, int scenario, enum phase phase, int value)
{
	double logs = 0;
	int n = 0;
	for (int i = 0; i < d->num_early; i++) {
		const struct early_launch *at = &d->early_launch[i];
		const struct early_part p = { scenario, at->choice, phase };
		if (!is_of(at, scenario, phase) || (value && at->value != value))
			continue;
		const double ratio = early_part_ratio(d, &p, value);
		if (isnan(ratio))
			continue;
		logs += log(ratio);
		n++;
	}
	return n ? exp(logs / n) : NAN;
}
