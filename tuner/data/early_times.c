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

/* The first of that scenario and phase, or where it would be. */
static int first_early(const struct data *d, int scenario, enum phase phase)
{
	int lo = 0, hi = d->num_early;
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;
		const struct early_launch *at = &d->early_launch[mid];
		if (at->scenario < scenario || (at->scenario == scenario && at->phase < phase))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int is_early_of(const struct data *d, int i, int scenario, enum phase phase)
{
	return i < d->num_early && d->early_launch[i].scenario == scenario &&
	       d->early_launch[i].phase == phase;
}

static const struct cell *cell_with(const struct data *d, const struct early_part *p, int value)
{
	const int first = first_early(d, p->scenario, p->phase);
	for (int i = first; is_early_of(d, i, p->scenario, p->phase); i++)
		if (d->early_launch[i].choice == p->choice && d->early_launch[i].value == value)
			return &d->early_launch[i].cell;
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
	for (int i = first_early(d, scenario, phase); is_early_of(d, i, scenario, phase); i++) {
		const struct early_launch *at = &d->early_launch[i];
		const struct early_part p = { scenario, at->choice, phase };
		if (at->value != (value ? value : at->value))
			continue;
		const double ratio = early_part_ratio(d, &p, value);
		if (isnan(ratio))
			continue;
		logs += log(ratio);
		n++;
	}
	return n ? exp(logs / n) : NAN;
}
