/* retire.c - takes contenders out of a race, and times again what is too fast to be true. */
#include "measure.h"
#include "race.h"
#include "sample_graph.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>

enum { TIMES = 3 /* who is doubted runs again */ };

static const double too_fast = 0.5; /* of the least that the ceilings allow */

enum attune_status race_doubt(struct race_state *c, int i, double *us, int times)
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
			 "%.3f us, and its output is wrong when looked at again", first);
		return ATTUNE_OK;
	}
	for (int k = 0; k < times; k++) {
		enum attune_status status = race_play(c, i, &again[k]);
		if (status || !r->alive)
			return status;
	}
	*us = median(again, times);
	if (*us < too_fast * bound) {
		m->outcome = OUTCOME_WRONG;
		snprintf(m->detail, sizeof m->detail,
			 "%.3f us twice: the machine's ceilings allow no less than %.3f us", *us,
			 bound);
	}
	return ATTUNE_OK;
}

enum attune_status race_doubt_rounds(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	const double first = race_median(c, i);
	double us = first;
	enum attune_status status = race_doubt(c, i, &us, TIMES);
	if (status || !(us > first))
		return status;
	for (int k = 0; k < c->rounds; k++) /* the clock had lied */
		r->by_round[k] = NAN;
	r->probe_us = us;
	r->m->lead = r->m->lead_low = NAN;
	return ATTUNE_OK;
}

static struct call_state *twin_of(const struct race_state *c, int i)
{
	struct call_state *twin = c->runners > c->race->n ? &c->call_state[c->race->n] : NULL;
	return twin && twin->of == i && twin != &c->call_state[i] ? twin : NULL;
}

void race_leave(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i], *twin = twin_of(c, i);
	r->alive = r->in = 0;
	graphs_free(&r->graphs, c->dev);
	if (twin)
		race_leave(c, c->race->n);
}

enum attune_status race_retire(struct race_state *c, int i, const char *why)
{
	struct call_state *r = &c->call_state[i];
	snprintf(r->m->stopped, sizeof r->m->stopped, "%s", why);
	enum attune_status status = race_doubt_rounds(c, i);
	if (!status && r->alive)
		race_leave(c, i);
	return status;
}

void race_rest(struct race_state *c)
{
	struct measurement *m = c->call_state[0].m;
	struct call_state *twin = twin_of(c, 0);
	c->call_state[0].in = 0;
	if (twin)
		twin->in = 0;
	snprintf(m->stopped, sizeof m->stopped, "beaten");
}
