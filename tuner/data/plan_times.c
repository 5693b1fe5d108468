/* SPDX-License-Identifier: Apache-2.0 */
/* plan_times.c - the time of a picked plan: measured as a whole, else derived from its parts and
 * from plans with the same overlap; and the fastest plan. */
#include "data.h"
#include "harness/base/base.h"
#include "kernels/spec/space.h"
#include <math.h>

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

/* Estimates a pair on two streams that was not measured. It saves the same share as the best
 * measured pair of the scenario, but never becomes the fastest plan of all. Without a measured pair
 * it saves nothing. Over 328 pairs of an H200, each left out in turn, the error is 2.9 % on average
 * and the estimate 0.2 % too slow in the mean; without the saving it would be 3.9 % too slow.
 * Where the pair leaves units to the decodes, pairs that leave as many count, if there are any; it
 * may also lose as they do. */
static double on_streams(const struct data *d, int scenario, const struct pick *p)
{
	const int way = pick_way(d, p);
	const double apart = data_time(d, scenario, PHASE_PREFILL, data_unspared(d, p->prefill)) +
			     data_time(d, scenario, PHASE_DECODE, p->decode);
	const double alike = way == SAYS_STREAMS ? INFINITY : overlap_pairs(d, scenario, way);
	const double others = fmin(overlap_pairs(d, scenario, SAYS_STREAMS), 1);
	return fmax((isfinite(alike) ? alike : others) * apart, data_oracle(d, scenario));
}

/* Two parts: the time of the measured plan, else the sum of the parts. */
static double both(const struct data *d, int scenario, const struct pick *p)
{
	const struct cell *again =
	    d->pass == PASS_B ? data_plan_cell(d, PASS_B, scenario, p) : NULL;
	const struct cell *first = data_plan_cell(d, PASS_A, scenario, p);
	if (again)
		return again->outcome == OUTCOME_OK ? again->median_us : INFINITY;
	if (p->how == ATTUNE_STREAMS && (measured_again(d, scenario, PHASE_PREFILL) || !first))
		return on_streams(d, scenario, p);
	if (measured_again(d, scenario, PHASE_PREFILL) || !first)
		return data_time(d, scenario, PHASE_PREFILL, p->prefill) +
		       data_time(d, scenario, PHASE_DECODE, p->decode);
	return first->outcome == OUTCOME_OK
		   ? first->median_us * (d->pass == PASS_B ? d->shift[scenario] : 1)
		   : INFINITY;
}

/* One launch for both parts. A fused choice that was not measured there is taken to save
 * nothing. */
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
	const int choice = measured_is_mixed(m) || !m->has[PHASE_DECODE] ? p->prefill : p->decode;
	const struct cell *c = NULL;
	if (measured_is_mixed(m) && p->join) {
		c = d->pass == PASS_B ? data_plan_cell(d, PASS_B, scenario, p) : NULL;
		return c ? c : data_plan_cell(d, PASS_A, scenario, p);
	}
	if (!measured_is_mixed(m))
		c = data_cell(d, scenario, phase, choice);
	return c ? c : data_cell(d, scenario, PHASE_ALL, choice);
}

static int is_confirmed(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cells of[2] = { data_cells(d, scenario, phase, choice),
				     data_cells(d, scenario, PHASE_ALL, choice) };
	return cells_confirmed(d, scenario, of);
}

int data_confirmed(const struct data *d, int scenario, const struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	const signed char *again = &d->again[scenario * NUM_PHASES];
	if (!again[PHASE_ALL] && !again[PHASE_PREFILL] && !again[PHASE_DECODE])
		return 1;
	if (measured_is_mixed(m) && !p->join)
		return is_confirmed(d, scenario, PHASE_ALL, p->prefill);
	if (measured_is_mixed(m) && data_plan_cell(d, PASS_B, scenario, p))
		return 1;
	if (measured_is_mixed(m) && p->how == ATTUNE_STREAMS)
		return 0;
	return (!m->has[PHASE_PREFILL] || is_confirmed(d, scenario, PHASE_PREFILL, p->prefill)) &&
	       (!m->has[PHASE_DECODE] || is_confirmed(d, scenario, PHASE_DECODE, p->decode));
}

/* ---- the fastest plan ------------------------------------------------------------------ */
/* The fastest plan that was measured whole, if it takes less than `us`. */
static void take_plan(struct decided *made, const struct data *d, int s, double us)
{
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
		const struct composed *p = &d->plan[i];
		const struct pick pick = { p->prefill, p->decode, 1, p->how };
		const double took = data_plan_time(d, s, &pick);
		if (!(took < us))
			continue;
		us = took;
		*made = (struct decided){ .join = 1,
					  .how = p->how,
					  .prefill = d->choice[p->prefill],
					  .decode = d->choice[p->decode] };
	}
}

struct decided data_fastest_plan(const struct data *d, int s)
{
	struct decided made = { .join = 1 };
	int all, prefill = -1, decode = -1;
	double parts = 0;
	const double whole = data_best(d, s, PHASE_ALL, &all);
	if (d->v[s].has[PHASE_PREFILL])
		parts += data_best(d, s, PHASE_PREFILL, &prefill);
	if (d->v[s].has[PHASE_DECODE])
		parts += data_best(d, s, PHASE_DECODE, &decode);
	if (d->v[s].has[PHASE_PREFILL] && d->v[s].has[PHASE_DECODE] && whole < parts)
		made.join = 0, prefill = all;
	if (prefill >= 0)
		made.prefill = d->choice[prefill];
	if (decode >= 0)
		made.decode = d->choice[decode];
	take_plan(&made, d, s, fmin(whole, parts));
	return made;
}
