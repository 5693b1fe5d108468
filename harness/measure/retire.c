/* SPDX-License-Identifier: Apache-2.0 */
/* retire.c - removes contenders from a race, and rechecks times that are too good to be true. */
#include "measure.h"
#include "race.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>

enum { RECHECKS = 3 /* runs of a recheck */ };

static const double too_fast = 0.5; /* share of the least time by the ceilings */

enum attune_status race_recheck(struct race_state *c, int i, double *us, int times)
{
	struct call_state *r = &c->call_state[i];
	struct measurement *m = r->m;
	const double bound = c->race->v[r->of].bound_us, first = *us;
	double again[MAX_SAMPLES];
	if (!(first < too_fast * bound))
		return ATTUNE_OK;
	if (c->race->right && !c->race->right(c->race->arg, r->of)) {
		m->outcome = OUTCOME_WRONG;
		snprintf(m->detail, sizeof m->detail,
			 "%.3f us, and its output is wrong when checked again", first);
		return ATTUNE_OK;
	}
	for (int k = 0; k < times; k++) {
		enum attune_status status = race_run_graph(c, i, &again[k]);
		if (status || !r->alive)
			return status;
	}
	*us = median(again, times);
	if (*us < too_fast * bound) {
		m->outcome = OUTCOME_WRONG;
		snprintf(m->detail, sizeof m->detail,
			 "%.3f us twice, but the device's ceilings allow %.3f us at best", *us,
			 bound);
	}
	return ATTUNE_OK;
}

enum attune_status race_recheck_rounds(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	const double first = race_median(c, i);
	double us = first;
	enum attune_status status = race_recheck(c, i, &us, RECHECKS);
	if (status || !(us > first))
		return status;
	for (int k = 0; k < c->rounds; k++) /* the clock was wrong */
		r->by_round[k] = NAN;
	r->probe_us = us;
	r->m->lead = r->m->lead_low = NAN;
	return ATTUNE_OK;
}

static struct call_state *control_of(const struct race_state *c, int i)
{
	struct call_state *control = c->contenders > c->race->n ? &c->call_state[c->race->n] : NULL;
	return control && control->of == i && control != &c->call_state[i] ? control : NULL;
}

void race_remove(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i], *control = control_of(c, i);
	r->alive = r->in = 0;
	graphs_free(&r->graphs, c->dev);
	if (control)
		race_remove(c, c->race->n);
}

enum attune_status race_retire(struct race_state *c, int i, const char *why)
{
	struct call_state *r = &c->call_state[i];
	snprintf(r->m->stopped, sizeof r->m->stopped, "%s", why);
	enum attune_status status = race_recheck_rounds(c, i);
	if (!status && r->alive)
		race_remove(c, i);
	return status;
}

void race_rest_reference(struct race_state *c)
{
	struct measurement *m = c->call_state[0].m;
	struct call_state *control = control_of(c, 0);
	c->call_state[0].in = 0;
	if (control)
		control->in = 0;
	snprintf(m->stopped, sizeof m->stopped, "beaten");
}
