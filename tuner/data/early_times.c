/* early_times.c - the time of a part whose launch begins early, relative to the same launch in
 * turn. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

static int by_place(const void *x, const void *y)
{
	const struct pace *a = x, *b = y;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	return (a->choice > b->choice) - (a->choice < b->choice);
}

struct pace *paces_of(const struct data *d, int *n)
{
	struct pace *v = malloc(sizeof *v * ((size_t)d->num_paced + 1));
	*n = 0;
	for (int i = 0; v && i < d->num_paced; i++) {
		const struct paced *p = &d->paced[i];
		v[i] = (struct pace){ p->scenario, p->choice, p->phase };
	}
	if (v && d->num_paced)
		qsort(v, (size_t)d->num_paced, sizeof *v, by_place);
	for (int i = 0; v && i < d->num_paced; i++)
		if (!*n || by_place(&v[*n - 1], &v[i]))
			v[(*n)++] = v[i];
	return v;
}

/* The first of that scenario and phase, or where it would be. */
static int first_paced(const struct data *d, int scenario, enum phase phase)
{
	int lo = 0, hi = d->num_paced;
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;
		const struct paced *at = &d->paced[mid];
		if (at->scenario < scenario || (at->scenario == scenario && at->phase < phase))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int is_paced(const struct data *d, int i, int scenario, enum phase phase)
{
	return i < d->num_paced && d->paced[i].scenario == scenario && d->paced[i].phase == phase;
}

static const struct cell *cell_with(const struct data *d, const struct pace *p, int value)
{
	const int first = first_paced(d, p->scenario, p->phase);
	for (int i = first; is_paced(d, i, p->scenario, p->phase); i++)
		if (d->paced[i].choice == p->choice && d->paced[i].value == value)
			return &d->paced[i].cell;
	return NULL;
}

double pace_ratio(const struct data *d, const struct pace *p, int value)
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
	for (int i = first_paced(d, scenario, phase); is_paced(d, i, scenario, phase); i++) {
		const struct paced *at = &d->paced[i];
		const struct pace p = { scenario, at->choice, phase };
		if (at->value != (value ? value : at->value))
			continue;
		const double ratio = pace_ratio(d, &p, value);
		if (isnan(ratio))
			continue;
		logs += log(ratio);
		n++;
	}
	return n ? exp(logs / n) : NAN;
}
