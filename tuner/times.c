/* times.c - what the measured cells say about a scenario: what may run, how long
 * a plan takes, and what the fastest measured plan takes. */
#include "tuner.h"
#include <math.h>
#include <string.h>

int data_is_training(const struct measured *m)
{
	return strcmp(m->split, "heldout") != 0;
}

const struct cell *data_cell(const struct data *d, int scenario, enum phase phase, int choice)
{
	const size_t row = (size_t)scenario * NUM_PHASES + (size_t)phase;
	const int at = d->place[row * (size_t)d->num_choices + (size_t)choice];
	return at < 0 ? NULL : &d->cell[at];
}

int data_legal(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	const struct choice *c = &d->choice[choice];
	return c->kernel->selectable && !c->kernel->space->why_illegal(
					    &c->config, &m->shape, &m->part[phase], &d->run.device);
}

double data_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, scenario, phase, choice);
	return cell && cell->outcome == OUTCOME_OK ? cell->median_us : INFINITY;
}

int data_find(const struct data *d, const struct choice *c)
{
	for (int i = 0; i < d->num_choices; i++)
		if (d->choice[i].kernel == c->kernel &&
		    !memcmp(&d->choice[i].config, &c->config, sizeof c->config))
			return i;
	return -1;
}

/* Both parts in one plan: measured as such, else the parts one after the other. */
static double both(const struct data *d, int scenario, const struct pick *p)
{
	for (int i = 0; i < d->num_plans; i++) {
		const struct composed *c = &d->plan[i];
		if (c->scenario == scenario && c->prefill == p->prefill && c->decode == p->decode)
			return c->cell.outcome == OUTCOME_OK ? c->cell.median_us : INFINITY;
	}
	return data_time(d, scenario, PHASE_PREFILL, p->prefill) +
	       data_time(d, scenario, PHASE_DECODE, p->decode);
}

double data_part_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	const double part = data_time(d, scenario, phase, choice);
	if (isfinite(part) || (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE]))
		return part;
	return data_time(d, scenario, PHASE_ALL, choice);
}

double data_plan_time(const struct data *d, int scenario, const struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	if (!m->has[PHASE_PREFILL])
		return data_part_time(d, scenario, PHASE_DECODE, p->decode);
	if (!m->has[PHASE_DECODE])
		return data_part_time(d, scenario, PHASE_PREFILL, p->prefill);
	return p->join ? both(d, scenario, p) : data_time(d, scenario, PHASE_ALL, p->prefill);
}

double data_best(const struct data *d, int scenario, enum phase phase, int *choice)
{
	double best = INFINITY;
	*choice = -1;
	for (int c = 0; c < d->num_choices; c++) {
		const double t = data_part_time(d, scenario, phase, c);
		if (t < best)
			best = t, *choice = c;
	}
	return best;
}

double data_oracle(const struct data *d, int scenario)
{
	int choice;
	double best = data_best(d, scenario, PHASE_ALL, &choice), parts = 0;
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		if (d->v[scenario].has[p])
			parts += data_best(d, scenario, p, &choice);
	best = fmin(best, parts);
	for (int i = 0; i < d->num_plans; i++)
		if (d->plan[i].scenario == scenario && d->plan[i].cell.outcome == OUTCOME_OK)
			best = fmin(best, d->plan[i].cell.median_us);
	return best;
}
