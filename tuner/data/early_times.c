/* SPDX-License-Identifier: Apache-2.0 */
/* early_times.c - the time of a part whose launch begins early, relative to the same launch in
 * turn. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>

static const struct cell *cell_with(const struct data *d, int scenario, enum phase phase,
				    int choice, int value)
{
	for (int i = 0; i < d->num_early; i++) {
		const struct early_launch *p = &d->early_launch[i];
		if (p->scenario == scenario && p->phase == phase && p->choice == choice &&
		    p->value == value)
			return &p->cell;
	}
	return NULL;
}

double early_part_ratio(const struct data *d, int scenario, enum phase phase, int choice, int value)
{
	const struct cell *turn = cell_with(d, scenario, phase, choice, 0);
	const struct cell *early = cell_with(d, scenario, phase, choice, value);
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
		const struct early_launch *p = &d->early_launch[i];
		if (p->scenario != scenario || p->phase != phase || (value && p->value != value))
			continue;
		const double ratio = early_part_ratio(d, scenario, phase, p->choice, value);
		if (isnan(ratio))
			continue;
		logs += log(ratio);
		n++;
	}
	return n ? exp(logs / n) : NAN;
}
