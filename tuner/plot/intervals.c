/* SPDX-License-Identifier: Apache-2.0 */
/* intervals.c - how sure a time is that a picture shows. The data answer with the time of a plan and
 * not with its row, so the row is found by the time. */
#include "plot.h"
#include "tuner/data/data.h"
#include <math.h>

double cell_interval(const struct cell *c)
{
	return c->outcome == OUTCOME_OK ? c->ci_us / c->median_us : NAN;
}

static int is_time(double us, double of_row)
{
	return fabs(of_row - us) <= 1e-9 * us;
}

static double of_part(const struct data *d, int scenario, enum phase phase, double us)
{
	struct choice_iter i = choices_of(d, scenario, phase, phase);
	while (choices_next(&i))
		if (is_time(us, cells_time(d, scenario, &i.cells[0])))
			return cell_interval(cells_of_pass(d, &i.cells[0]));
	return NAN;
}

static double of_plan(const struct data *d, int scenario, double us)
{
	for (int i = d->plan_at[scenario]; i < d->plan_at[scenario + 1]; i++) {
		const struct composed *c = &d->plan[i];
		const double shift =
		    d->pass == PASS_B && c->pass == PASS_A ? d->shift[scenario] : 1;
		if (c->pass <= d->pass && !(d->pass == PASS_B && c->is_outdone) &&
		    is_time(us, c->cell.median_us * shift))
			return cell_interval(&c->cell);
	}
	return NAN;
}

/* The best prefill and the best decode, one after the other. */
static double of_sum(const struct data *d, int scenario, double us)
{
	int choice;
	const double prefill = data_best(d, scenario, PHASE_PREFILL, &choice);
	const double decode = data_best(d, scenario, PHASE_DECODE, &choice);
	if (!is_time(us, prefill + decode))
		return NAN;
	return hypot(prefill * of_part(d, scenario, PHASE_PREFILL, prefill),
		     decode * of_part(d, scenario, PHASE_DECODE, decode)) /
	       us;
}

double time_interval(const struct data *d, int scenario, double us)
{
	if (!isfinite(us))
		return NAN;
	double found = of_part(d, scenario, PHASE_ALL, us);
	for (enum phase p = PHASE_PREFILL; isnan(found) && p <= PHASE_DECODE; p++)
		if (!measured_is_mixed(&d->v[scenario]))
			found = of_part(d, scenario, p, us);
	found = isnan(found) ? of_plan(d, scenario, us) : found;
	return isnan(found) ? of_sum(d, scenario, us) : found;
}
