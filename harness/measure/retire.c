/* retire.c - takes runners out of a race, and times again what is too fast to be true. */
#include "measure.h"
#include "race.h"
#include "sample_graph.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>

enum { TIMES = 3 /* who is doubted runs again */ };

static const double too_fast = 0.5; /* of the least that the ceilings allow */

enum attune_status course_doubt(struct course *c, int i, double *us, int times)
{
	struct runner *r = &c->runner[i];
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
		enum attune_status status = course_play(c, i, &again[k]);
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

enum attune_status course_doubt_rounds(struct course *c, int i)
{
	struct runner *r = &c->runner[i];
	const double first = course_median(c, i);
	double us = first;
	enum attune_status status = course_doubt(c, i, &us, TIMES);
	if (status || !(us > first))
		return status;
	for (int k = 0; k < c->rounds; k++) /* the clock had lied */
		r->by_round[k] = NAN;
	r->probe_us = us;
	r->m->lead = r->m->lead_low = NAN;
	return ATTUNE_OK;
}

static struct runner *twin_of(const struct course *c, int i)
{
	struct runner *twin = c->runners > c->race->n ? &c->runner[c->race->n] : NULL;
	return twin && twin->of == i && twin != &c->runner[i] ? twin : NULL;
}

void course_leave(struct course *c, int i)
{
	struct runner *r = &c->runner[i], *twin = twin_of(c, i);
	r->alive = r->in = 0;
	tapes_free(&r->tapes, c->dev);
	if (twin)
		course_leave(c, c->race->n);
}

enum attune_status course_retire(struct course *c, int i, const char *why)
{
	struct runner *r = &c->runner[i];
	snprintf(r->m->stopped, sizeof r->m->stopped, "%s", why);
	enum attune_status status = course_doubt_rounds(c, i);
	if (!status && r->alive)
		course_leave(c, i);
	return status;
}

void course_rest(struct course *c)
{
	struct measurement *m = c->runner[0].m;
	struct runner *twin = twin_of(c, 0);
	c->runner[0].in = 0;
	if (twin)
		twin->in = 0;
	snprintf(m->stopped, sizeof m->stopped, "beaten");
}
