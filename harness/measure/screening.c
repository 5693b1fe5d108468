/* SPDX-License-Identifier: Apache-2.0 */
/* screening.c - times one call of each contender and eliminates those that take twice the best;
 * then chooses the calls in a sample and builds the graphs of the rest. */
#include "measure.h"
#include "race.h"
#include "harness/base/base.h"
#include <limits.h>
#include <math.h>

enum { ATTEMPTS = 4, PLAYS = 4 };

static const double least_ratio = 2; /* one call is a coarse time: drop nothing below this */

double race_best_probe(const struct race_state *c, int *who)
{
	double best = INFINITY;
	for (int i = 0; i < c->race->n; i++)
		if (c->call_state[i].alive && c->call_state[i].probe_us < best) {
			best = c->call_state[i].probe_us;
			*who = i;
		}
	return best;
}

/* Times one call, roughly: the time includes the start of the graph. The first run warms up,
 * unless the call is as long as a sample. Repeats while other programs disturb it; if all runs
 * were disturbed (probe_clean 0), its time eliminates nothing. */
static enum attune_status time_one_call(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	enum attune_status status;
	r->probe_us = INFINITY;
	for (int play = 0; play < PLAYS; play++) {
		double us;
		if ((status = race_run_graph(c, i, &us)) || !r->alive)
			return status;
		r->probe_clean |= race_cpu_share(c) >= clean_share;
		r->us = r->probe_us = fmin(r->probe_us, us);
		if (r->probe_clean && (play || us >= c->race->protocol->sample_us))
			break;
	}
	return ATTUNE_OK;
}

/* A time too good to be true would eliminate all others, so it is rechecked here. */
static enum attune_status probe(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	enum attune_status status = ATTUNE_OK;
	r->unreported = r->alive = r->in = 1;
	race_build_graphs(c, i, 1, PLAYS / 2);
	if (r->alive)
		status = time_one_call(c, i);
	if (!status && r->alive)
		status = race_recheck(c, i, &r->probe_us, 1);
	if (!status && r->alive && r->m->outcome != OUTCOME_OK)
		race_remove(c, i);
	return status;
}

/* Chooses the calls in a sample for the fastest contender. Longer graphs give a better time of
 * a call, as the start of a graph weighs less, so the choice is repeated until it is stable. */
static enum attune_status plan_calls(struct race_state *c, int *calls)
{
	enum attune_status status = ATTUNE_OK;
	int best = -1;
	*calls = 1;
	for (int attempt = 0; attempt < ATTEMPTS && !status; attempt++) {
		if (isinf(race_best_probe(c, &best)))
			return ATTUNE_OK;
		struct call_state *r = &c->call_state[best];
		*calls = graphs_plan(c->race->protocol, c->race->sets, r->us);
		if (*calls < r->calls * 5 / 4 + 1) {
			*calls = r->calls;
			return ATTUNE_OK;
		}
		race_build_graphs(c, best, *calls, INT_MAX);
		if (r->alive)
			status = race_run_graph(c, best, &r->us);
	}
	return status;
}

/* Builds graphs of that many calls for all, and of fewer for a slow reference. */
static void record_all(struct race_state *c, int calls)
{
	for (int i = 0; i < c->contenders; i++) {
		struct call_state *r = &c->call_state[i];
		const double longest = c->race->protocol->longest_us;
		const double most = r->probe_clean ? fmax(floor(longest / r->us), 1) : calls;
		const int mine = calls < most ? calls : (int)most;
		if (r->alive && (r->calls != mine || mine == 1))
			race_build_graphs(c, i, mine, INT_MAX);
	}
}

/* The fastest of the screen runs twice from now on: the A/A control. */
static void add_control(struct race_state *c)
{
	int best = -1;
	if (!c->race->control || isinf(race_best_probe(c, &best)))
		return;
	c->race->control->of = best;
	c->call_state[c->contenders++] = (struct call_state){
		.of = best, .m = &c->control_m, .alive = 1, .in = 1, .us = c->call_state[best].us
	};
}

enum attune_status race_screen(struct race_state *c)
{
	const struct protocol *p = c->race->protocol;
	enum attune_status status = ATTUNE_OK;
	int best, calls;
	/* the screen may take half of the budget */
	for (int i = 0; i < c->race->n && !status; i++)
		if (!i || race_spent(c) < p->seconds / 2)
			status = probe(c, i);
	const double limit = fmax(least_ratio, p->screen_ratio) * race_best_probe(c, &best);
	for (int i = c->race->n - 1; i > 0 && !status && !c->race->fixed_rounds; i--)
		if (c->call_state[i].alive && c->call_state[i].probe_clean &&
		    c->call_state[i].probe_us > limit)
			status = race_retire(c, i, "slow");
	if (!status)
		status = plan_calls(c, &calls);
	if (status)
		return status;
	add_control(c);
	record_all(c, calls);
	return ATTUNE_OK;
}
