/* times.c - what the measured cells say about a scenario: what may run, how long
 * a plan takes, and what the fastest measured plan takes. */
#include "tuner.h"
#include <math.h>
#include <string.h>

int data_is_training(const struct measured *m)
{
	return !split_is_held_out(m->split) && !m->lost_best;
}

int data_side(const struct measured *m)
{
	return data_is_training(m) ? 0 : in_split(m, "heldout") ? 1 : -1;
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
		return formula_is_legal(d, scenario, phase, choice);
	return !c->kernel->space->why_illegal(&c->config, &m->shape, &m->part[phase],
					      &d->run.device);
}

double data_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cells c = data_cells(d, scenario, phase, choice);
	return cells_time(d, scenario, &c);
}

static int is_mixed(const struct measured *m)
{
	return m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

double cells_part_time(const struct data *d, int scenario, const struct cells of[2])
{
	const double part = cells_time(d, scenario, &of[0]);
	return isfinite(part) || is_mixed(&d->v[scenario]) ? part : cells_time(d, scenario, &of[1]);
}

double data_part_time(const struct data *d, int scenario, enum phase phase, int choice)
{
	const double part = data_time(d, scenario, phase, choice);
	if (isfinite(part) || is_mixed(&d->v[scenario]))
		return part;
	return data_time(d, scenario, PHASE_ALL, choice);
}

int cells_confirmed(const struct data *d, int scenario, const struct cells of[2])
{
	return is_ok(of[0].of[PASS_B]) || (!is_mixed(&d->v[scenario]) && is_ok(of[1].of[PASS_B]));
}

/* Whether the part's time is one of pass B. */
static int is_confirmed(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cells of[2] = { data_cells(d, scenario, phase, choice),
				     data_cells(d, scenario, PHASE_ALL, choice) };
	return cells_confirmed(d, scenario, of);
}

int measured_again(const struct data *d, int scenario, enum phase phase)
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
	for (int i = d->plan_at[scenario]; i < d->plan_at[scenario + 1]; i++) {
		const struct composed *c = &d->plan[i];
		if (c->pass == pass && c->prefill == prefill && c->decode == decode &&
		    c->how == p->how)
			return &c->cell;
	}
	return NULL;
}

/* The time of a pair on two streams that was not measured. Streams are taken to save the share that
 * they saved the best pair measured in this scenario, but never so much that this pair becomes the
 * fastest of all. Where no pair was measured they save nothing. Over 328 pairs of an H200, each
 * left out in turn, this is 2.9 % off on average and 0.2 % too slow in the mean; without it times
 * would be 3.9 % too slow. */
static double on_streams(const struct data *d, int scenario, const struct pick *p)
{
	const double apart = data_time(d, scenario, PHASE_PREFILL, p->prefill) +
			     data_time(d, scenario, PHASE_DECODE, p->decode);
	return fmin(apart, fmax(overlap_pairs(d, scenario) * apart, data_oracle(d, scenario)));
}

/* Of a plan side by side that was not measured: what others that go its way gain. */
static double beside(const struct data *d, int scenario, const struct pick *p)
{
	const int way = pick_way(d, p);
	return way == SAYS_STREAMS ? on_streams(d, scenario, p)
				   : overlap_ratio(d, scenario, way, p) * data_serial(d, scenario);
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
