/* times.c - what the measured cells say about a scenario: what may run, how long
 * a plan takes, and what the fastest measured plan takes.
 *
 * A choice is raced in several stages, and between them a device drifts. All racers
 * of a race are timed in rounds against one reference, so that a cell's `us` is its
 * ratio to the reference x the reference's time, by one clock for the scenario and
 * phase: that of the race with most cells. A race keeps its own times where its
 * reference was another choice, as its cell of ratio 1 tells, or, where that cell has
 * been measured anew since, seems to have changed by more than MAX_DRIFT. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DRIFT 0.1

int data_is_training(const struct measured *m)
{
	return strncmp(m->split, "heldout", 7) != 0;
}

int noise_band(double us)
{
	return us < 20 ? 0 : us < 200 ? 1 : 2;
}

double data_noise(const struct data *d, double us)
{
	return d->noise.floor[noise_band(us)];
}

/* ---- cells ------------------------------------------------------------------------ */
/* [num_choices] where the cells of a scenario and phase are */
static const int *places_of(const struct data *d, enum pass pass, int scenario, enum phase phase)
{
	const size_t row =
	    ((size_t)pass * (size_t)d->n + (size_t)scenario) * NUM_PHASES + (size_t)phase;
	return d->place + row * (size_t)d->num_choices;
}

static struct cell *cell_of(const struct data *d, enum pass pass, int scenario, enum phase phase,
			    int choice)
{
	const int concrete = choice < 0 ? -1 : data_concrete(d, scenario, phase, choice);
	const int at = concrete < 0 ? -1 : places_of(d, pass, scenario, phase)[concrete];
	return at < 0 ? NULL : &d->cell[at];
}

static int is_ok(const struct cell *c)
{
	return c && c->outcome == OUTCOME_OK;
}

const struct cell *data_cell_in(const struct data *d, enum pass pass, int scenario,
				enum phase phase, int choice)
{
	return cell_of(d, pass, scenario, phase, choice);
}

const struct cell *data_cell(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *b =
	    d->pass == PASS_B ? cell_of(d, PASS_B, scenario, phase, choice) : NULL;
	return b ? b : cell_of(d, PASS_A, scenario, phase, choice);
}

int data_legal(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct measured *m = &d->v[scenario];
	struct config means;
	if (choice >= d->num_columns)
		return data_concrete(d, scenario, phase, choice) >= 0;
	const struct choice *c = &d->choice[choice];
	return c->kernel->selectable && !config_resolve(&means, &c->config, c->kernel, &m->shape,
							&m->part[phase], &d->run.device);
}

double data_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *a = cell_of(d, PASS_A, scenario, phase, choice);
	const struct cell *b =
	    d->pass == PASS_B ? cell_of(d, PASS_B, scenario, phase, choice) : NULL;
	if (b)
		return is_ok(b) ? b->median_us : INFINITY;
	return is_ok(a) ? a->us * (d->pass == PASS_B ? d->shift[scenario] : 1) : INFINITY;
}

int data_find(const struct data *d, const struct choice *c)
{
	for (int i = 0; i < d->num_columns; i++)
		if (d->choice[i].kernel == c->kernel &&
		    !memcmp(&d->choice[i].config, &c->config, sizeof c->config))
			return i;
	return -1;
}

static int is_mixed(const struct measured *m)
{
	return m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

double data_part_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const double part = data_time(d, scenario, phase, choice);
	if (isfinite(part) || is_mixed(&d->v[scenario]))
		return part;
	return data_time(d, scenario, PHASE_ALL, choice);
}

/* Whether the part's time is one of pass B. */
static int is_confirmed(const struct data *d, int scenario, enum phase phase, int choice)
{
	return is_ok(cell_of(d, PASS_B, scenario, phase, choice)) ||
	       (!is_mixed(&d->v[scenario]) &&
		is_ok(cell_of(d, PASS_B, scenario, PHASE_ALL, choice)));
}

static int measured_again(const struct data *d, int scenario, enum phase phase)
{
	return d->pass == PASS_B && d->again[scenario * NUM_PHASES + (int)phase];
}

/* ---- plans ------------------------------------------------------------------------ */
const struct cell *data_plan_cell(const struct data *d, enum pass pass, int scenario,
				  const struct pick *p)
{
	const int prefill =
	    p->prefill < 0 ? -1 : data_concrete(d, scenario, PHASE_PREFILL, p->prefill);
	const int decode = p->decode < 0 ? -1 : data_concrete(d, scenario, PHASE_DECODE, p->decode);
	for (int i = 0; i < d->num_plans; i++) {
		const struct composed *c = &d->plan[i];
		if (c->scenario == scenario && c->pass == pass && c->prefill == prefill &&
		    c->decode == decode && c->how == p->how)
			return &c->cell;
	}
	return NULL;
}

/* Of a plan side by side that was not measured: what others that go its way gain; two
 * streams that nobody tried there are taken to gain nothing. */
static double beside(const struct data *d, int scenario, const struct pick *p)
{
	const int way = pick_way(d, p);
	const double ratio = overlap_ratio(d, scenario, way, p);
	if (isfinite(ratio))
		return ratio * data_serial(d, scenario);
	return way == SAYS_STREAMS ? data_time(d, scenario, PHASE_PREFILL, p->prefill) +
					 data_time(d, scenario, PHASE_DECODE, p->decode)
				   : INFINITY;
}

/* Measured as one plan, else the parts one after the other. */
static double both(const struct data *d, int scenario, const struct pick *p)
{
	const struct cell *again =
	    d->pass == PASS_B ? data_plan_cell(d, PASS_B, scenario, p) : NULL;
	const struct cell *first = data_plan_cell(d, PASS_A, scenario, p);
	if (again)
		return is_ok(again) ? again->median_us : INFINITY;
	if (p->how == ATTUNE_STREAMS && (measured_again(d, scenario, PHASE_PREFILL) || !first))
		return beside(d, scenario, p);
	if (measured_again(d, scenario, PHASE_PREFILL) || !first)
		return data_time(d, scenario, PHASE_PREFILL, p->prefill) +
		       data_time(d, scenario, PHASE_DECODE, p->decode);
	return is_ok(first) ? first->median_us * (d->pass == PASS_B ? d->shift[scenario] : 1)
			    : INFINITY;
}

/* In one launch. A fused one that nobody tried there is taken to gain nothing, too. */
static double whole(const struct data *d, int scenario, int choice)
{
	if (choice >= 0 && d->choice[choice].kernel->space->is_fused &&
	    !data_cell(d, scenario, PHASE_ALL, choice))
		return data_serial(d, scenario);
	return data_time(d, scenario, PHASE_ALL, choice);
}

double data_plan_time(const struct data *d, int scenario, const struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	if (!m->has[PHASE_PREFILL])
		return data_part_time(d, scenario, PHASE_DECODE, p->decode);
	if (!m->has[PHASE_DECODE])
		return data_part_time(d, scenario, PHASE_PREFILL, p->prefill);
	return p->join ? both(d, scenario, p) : whole(d, scenario, p->prefill);
}

const struct cell *data_pick_cell(const struct data *d, int scenario, const struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	const enum phase phase = m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL;
	const int choice = is_mixed(m) || !m->has[PHASE_DECODE] ? p->prefill : p->decode;
	const struct cell *c = NULL;
	if (is_mixed(m) && p->join) {
		c = d->pass == PASS_B ? data_plan_cell(d, PASS_B, scenario, p) : NULL;
		return c ? c : data_plan_cell(d, PASS_A, scenario, p);
	}
	if (!is_mixed(m))
		c = data_cell(d, scenario, phase, choice);
	return c ? c : data_cell(d, scenario, PHASE_ALL, choice);
}

int data_confirmed(const struct data *d, int scenario, const struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	const signed char *again = &d->again[scenario * NUM_PHASES];
	if (!again[PHASE_ALL] && !again[PHASE_PREFILL] && !again[PHASE_DECODE])
		return 1;
	if (is_mixed(m) && !p->join)
		return is_confirmed(d, scenario, PHASE_ALL, p->prefill);
	if (is_mixed(m) && data_plan_cell(d, PASS_B, scenario, p))
		return 1;
	if (is_mixed(m) && p->how == ATTUNE_STREAMS)
		return 0;
	return (!m->has[PHASE_PREFILL] || is_confirmed(d, scenario, PHASE_PREFILL, p->prefill)) &&
	       (!m->has[PHASE_DECODE] || is_confirmed(d, scenario, PHASE_DECODE, p->decode));
}

/* serial: nothing that overlaps. */
static double best_of(const struct data *d, int scenario, enum phase phase, int serial, int *choice)
{
	const int again = measured_again(d, scenario, phase);
	/* Of thousands of choices few were measured here, of the part or of the whole. */
	const int *part[] = { places_of(d, PASS_A, scenario, phase),
			      places_of(d, PASS_B, scenario, phase) };
	const int *all[] = { places_of(d, PASS_A, scenario, PHASE_ALL),
			     places_of(d, PASS_B, scenario, PHASE_ALL) };
	double best = INFINITY;
	*choice = -1;
	for (int c = 0; c < d->num_choices; c++) {
		if (part[0][c] < 0 && part[1][c] < 0 && all[0][c] < 0 && all[1][c] < 0)
			continue;
		if ((again && !is_confirmed(d, scenario, phase, c)) ||
		    (serial && choice_overlaps(&d->choice[c])))
			continue;
		const double t = data_part_time(d, scenario, phase, c);
		if (t < best)
			best = t, *choice = c;
	}
	return best;
}

double data_best(const struct data *d, int scenario, enum phase phase, int *choice)
{
	return best_of(d, scenario, phase, 0, choice);
}

/* The least time of the ways that pass B measured, or of all of them. */
static double least_of(const struct data *d, int scenario, int only_again, int serial)
{
	const struct measured *m = &d->v[scenario];
	int choice, parts_count = 1;
	double best = INFINITY, parts = 0;
	if (!only_again || measured_again(d, scenario, PHASE_ALL))
		best = best_of(d, scenario, PHASE_ALL, serial, &choice);
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++) {
		if (!m->has[p])
			continue;
		parts += best_of(d, scenario, p, serial, &choice);
		parts_count &= !only_again || measured_again(d, scenario, p);
	}
	if (parts_count)
		best = fmin(best, parts);
	for (int i = 0; i < d->num_plans; i++) {
		const struct composed *c = &d->plan[i];
		if (c->scenario != scenario || !is_ok(&c->cell) || c->pass > d->pass ||
		    (only_again && c->pass == PASS_A) || (serial && c->how != ATTUNE_SERIAL) ||
		    (d->pass == PASS_B && c->is_outdone))
			continue;
		const double shift =
		    d->pass == PASS_B && c->pass == PASS_A ? d->shift[scenario] : 1;
		best = fmin(best, c->cell.median_us * shift);
	}
	return best;
}

static double oracle(const struct data *d, int scenario, int serial)
{
	const int again = measured_again(d, scenario, PHASE_ALL) ||
			  measured_again(d, scenario, PHASE_PREFILL) ||
			  measured_again(d, scenario, PHASE_DECODE);
	const double best = again ? least_of(d, scenario, 1, serial) : INFINITY;
	return isfinite(best) ? best : least_of(d, scenario, 0, serial);
}

double data_oracle(const struct data *d, int scenario)
{
	return oracle(d, scenario, 0);
}

double data_serial(const struct data *d, int scenario)
{
	return oracle(d, scenario, 1);
}

/* ---- one clock for several races ---------------------------------------------------- */
struct lap { /* a cell, and what it makes of its race's reference */
	struct cell *cell;
	int choice;
	double reference_us;
};

static int by_race(const void *pa, const void *pb)
{
	const struct lap *a = pa, *b = pb;
	if (a->cell->race != b->cell->race)
		return a->cell->race < b->cell->race ? -1 : 1;
	return (a->reference_us > b->reference_us) - (a->reference_us < b->reference_us);
}

/* Of laps[from..return) that are of one race. */
static int end_of_race(const struct lap *lap, int from, int n)
{
	int end = from;
	while (end < n && lap[end].cell->race == lap[from].cell->race)
		end++;
	return end;
}

/* Of a race's n laps; -1: measured anew since */
static int reference_of(const struct lap *lap, int n)
{
	for (int i = 0; i < n; i++)
		if (lap[i].cell->ratio == 1)
			return lap[i].choice;
	return -1;
}

static void set_clock(struct lap *lap, int n)
{
	double clock = NAN;
	int most = 0, reference = -1;
	qsort(lap, (size_t)n, sizeof *lap, by_race);
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(lap, i, n);
		if (end - i <= most)
			continue;
		most = end - i;
		clock = lap[(i + end) / 2].reference_us;
		reference = reference_of(lap + i, end - i);
	}
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(lap, i, n);
		const int own = reference_of(lap + i, end - i);
		const int alone = own >= 0 && end - i == 1 && own != reference;
		if (alone || (own >= 0 && reference >= 0 && own != reference) ||
		    fabs(lap[(i + end) / 2].reference_us / clock - 1) > MAX_DRIFT)
			continue;
		for (int k = i; k < end; k++)
			lap[k].cell->us = lap[k].cell->ratio * clock;
	}
}

static void compare_races(const struct data *d, int scenario, enum phase phase, struct lap *lap)
{
	int n = 0;
	for (int c = 0; c < d->num_choices; c++) {
		struct cell *cell = cell_of(d, PASS_A, scenario, phase, c);
		if (is_ok(cell) && cell->ratio > 0)
			lap[n++] = (struct lap){ cell, c, cell->median_us / cell->ratio };
	}
	if (n)
		set_clock(lap, n);
}

int times_prepare(struct data *d)
{
	const size_t room = (size_t)d->num_choices * NUM_PHASES + 1;
	struct lap *lap = malloc(sizeof *lap * room);
	double *ratio = malloc(sizeof *ratio * room);
	d->shift = malloc(sizeof *d->shift * ((size_t)d->n + 1));
	d->again = calloc((size_t)d->n + 1, NUM_PHASES);
	const int done = lap && ratio && d->shift && d->again;
	for (int s = 0; done && s < d->n; s++) {
		for (int p = 0; p < NUM_PHASES; p++)
			compare_races(d, s, (enum phase)p, lap);
		passes_compare(d, s, ratio);
	}
	free(lap);
	free(ratio);
	return done;
}
