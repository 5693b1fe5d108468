/* screening.c - who enters a race: one call of each, so that what is twice the best takes no
 * samples; then how many calls make a sample, and graphs of so many. */
#include "measure.h"
#include "race.h"
#include "sample_graph.h"
#include "harness/base/base.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { ATTEMPTS = 4, PLAYS = 4 };

static const double first_drop = 2;

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

/* How long one call takes, roughly: the start of a graph is in it, and the first play warms
 * up; a call as long as a sample needs none. Where other programs run in between it is
 * played again, and if it never has the CPU to itself nothing follows from its time. */
static enum attune_status see(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	enum attune_status status;
	r->probe_us = INFINITY;
	for (int play = 0; play < PLAYS; play++) {
		double us;
		if ((status = race_play(c, i, &us)) || !r->alive)
			return status;
		r->seen |= race_share(c) >= clean_share;
		r->us = r->probe_us = fmin(r->probe_us, us);
		if (r->seen && (play || us >= c->race->protocol->sample_us))
			break;
	}
	return ATTUNE_OK;
}

/* Who is faster than the machine would drive all others out, and is doubted here. */
static enum attune_status probe(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	enum attune_status status = ATTUNE_OK;
	r->untold = r->alive = r->in = 1;
	race_record(c, i, 1, PLAYS / 2);
	if (r->alive)
		status = see(c, i);
	if (!status && r->alive)
		status = race_doubt(c, i, &r->probe_us, 1);
	if (!status && r->alive && r->m->outcome != OUTCOME_OK)
		race_leave(c, i);
	return status;
}

/* By the one who seems to be the fastest: graphs of the right length tell better how long a
 * call takes, since a short call is then told apart from the cost of starting a graph. */
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
		race_record(c, best, *calls, INT_MAX);
		if (r->alive)
			status = race_play(c, best, &r->us);
	}
	return status;
}

/* Graphs of that many calls for all who stay, fewer for a slow reference. */
static void record_all(struct race_state *c, int calls)
{
	for (int i = 0; i < c->runners; i++) {
		struct call_state *r = &c->call_state[i];
		const double longest = c->race->protocol->longest_us;
		const double most = r->seen ? fmax(floor(longest / r->us), 1) : calls;
		const int mine = calls < most ? calls : (int)most;
		if (r->alive && (r->calls != mine || mine == 1))
			race_record(c, i, mine, INT_MAX);
	}
}

/* The fastest of the screen runs twice from here on. */
static void add_twin(struct race_state *c)
{
	int best = -1;
	if (!c->race->control || isinf(race_best_probe(c, &best)))
		return;
	c->race->control->of = best;
	c->call_state[c->runners++] = (struct call_state){
		.of = best, .m = &c->twin, .alive = 1, .in = 1, .us = c->call_state[best].us
	};
}

enum attune_status race_screen(struct race_state *c)
{
	const struct protocol *p = c->race->protocol;
	enum attune_status status = ATTUNE_OK;
	int best, calls;
	/* half of the time for it, at most */
	for (int i = 0; i < c->race->n && !status; i++)
		if (!i || race_spent(c) < p->seconds / 2)
			status = probe(c, i);
	const double limit = fmax(first_drop, p->screen_ratio) * race_best_probe(c, &best);
	for (int i = c->race->n - 1; i > 0 && !status && !c->race->fixed_rounds; i--)
		if (c->call_state[i].alive && c->call_state[i].seen &&
		    c->call_state[i].probe_us > limit)
			status = race_retire(c, i, "slow");
	if (!status)
		status = plan_calls(c, &calls);
	if (status)
		return status;
	add_twin(c);
	record_all(c, calls);
	return ATTUNE_OK;
}
