/* SPDX-License-Identifier: Apache-2.0 */
/* times.c - the time of a choice in a scenario, from its cells or from those of its family, and its
 * noise. */
#include "data.h"
#include "harness/base/base.h"
#include "kernels/spec/space.h"
#include <math.h>

double data_noise(const struct data *d, double us)
{
	return d->noise.floor[us < 20 ? 0 : us < 200 ? 1 : 2];
}

/* ---- cells ------------------------------------------------------------------------ */
static int is_ok(const struct cell *c)
{
	return c && c->outcome == OUTCOME_OK;
}

double cells_time(const struct data *d, int scenario, const struct cells *c)
{
	const struct cell *a = c->of[PASS_A], *b = c->of[PASS_B];
	if (d->pass == PASS_B && b)
		return is_ok(b) ? b->median_us : INFINITY;
	return is_ok(a) ? a->us * (d->pass == PASS_B ? d->shift[scenario] : 1) : INFINITY;
}

int data_legal(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	if (choice >= d->num_columns)
		return data_concrete(d, scenario, phase, choice) >= 0;
	const struct choice *c = &d->choice[choice];
	if (!c->kernel->selectable)
		return 0;
	if (choice >= d->num_choices)
		return family_value(d, scenario, phase, choice) >= 0;
	return !c->kernel->space->why_illegal(&c->config, &m->shape, &m->part[phase],
					      &d->run.device);
}

double data_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cells c = data_cells(d, scenario, phase, choice);
	return cells_time(d, scenario, &c);
}

double cells_part_time(const struct data *d, int scenario, const struct cells of[2])
{
	const double part = cells_time(d, scenario, &of[0]);
	return isfinite(part) || measured_is_mixed(&d->v[scenario])
		   ? part
		   : cells_time(d, scenario, &of[1]);
}

double data_part_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const double part = data_time(d, scenario, phase, choice);
	if (isfinite(part) || measured_is_mixed(&d->v[scenario]))
		return part;
	return data_time(d, scenario, PHASE_ALL, choice);
}

int cells_confirmed(const struct data *d, int scenario, const struct cells of[2])
{
	return is_ok(of[0].of[PASS_B]) ||
	       (!measured_is_mixed(&d->v[scenario]) && is_ok(of[1].of[PASS_B]));
}

int measured_again(const struct data *d, int scenario, enum phase phase)
{
	return d->pass == PASS_B && d->again[scenario * NUM_PHASES + (int)phase];
}

int data_has_second_pass(const struct data *d, int scenario)
{
	const struct measured *m = &d->v[scenario];
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		if (m->has[p] && !measured_again(d, scenario, p) &&
		    !measured_again(d, scenario, PHASE_ALL))
			return 0;
	return 1;
}

/* Between two measured members the guess is the larger of their times, since more segments first
 * help and then hinder. Beyond the last measured one each step adds a tenth; three steps are too
 * far. */
double family_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	enum { FAR = 3 };
	double nearest[2] = { INFINITY, INFINITY };
	int steps[2] = { 0, 0 };
	if (choice >= d->num_columns)
		choice = data_concrete(d, scenario, phase, choice);
	if (choice < 0)
		return INFINITY;
	const int family = d->family_of[choice];
	const int at = family < 0 ? -1 : family_value(d, scenario, phase, choice);
	if (at < 0)
		return INFINITY;
	const struct family *f = &d->family[family];
	for (int side = 0; side < 2; side++)
		for (int i = at; i >= 0 && i < f->num_members && !isfinite(nearest[side]);
		     i += side ? 1 : -1) {
			steps[side] = abs(i - at);
			nearest[side] = f->member[i] < 0
					    ? INFINITY
					    : data_part_time(d, scenario, phase, f->member[i]);
		}
	if (isfinite(nearest[0]) && isfinite(nearest[1]))
		return fmax(nearest[0], nearest[1]);
	const int side = !isfinite(nearest[0]);
	return steps[side] < FAR ? nearest[side] * (1 + 0.1 * steps[side]) : INFINITY;
}
