/* session_race.c - one race of a sweep session: which of its contenders can run, and whether one of
 * them runs twice, as an A/A control. */
#include "session.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROL_ODDS = 12 }; /* one race in so many has an A/A control */

/* Stores the outcome of a choice that cannot run. 1: stored; 0: it can run; -1: the database
 * failed. */
static int refuse(struct sweep_session *session, struct contender *c)
{
	const struct problem *problem = &session->problems.v[c->problem[0]];
	const int built_choice = problem->built_choice[c->place[0]];
	struct measurement m = { .outcome = (enum outcome) * session_excluded(session, built_choice,
									      problem->shape) };
	const struct built *b =
	    session->binaries.n
		? &session->binaries.v[session->problems.built_choice[built_choice].built]
		: NULL;
	if (m.outcome != OUTCOME_OK)
		snprintf(m.detail, sizeof m.detail, "not run: failed on this shape before");
	if (b && b->status == REFUSED_BY_COMPILER) {
		m.outcome = OUTCOME_COMPILE;
		snprintf(m.detail, sizeof m.detail, "%s", b->binary.log ? b->binary.log : "");
		m.detail[strcspn(m.detail, "\n")] = '\0';
	}
	if (b && b->status == USES_SCRATCH) {
		m.outcome = OUTCOME_RESOURCES;
		snprintf(m.detail, sizeof m.detail, "not run: %d bytes of scratch memory per lane",
			 b->binary.spill_bytes);
	}
	return m.outcome == OUTCOME_OK ? 0 : session_keep(session, c, NULL, &m) ? 1 : -1;
}

/* Moves what cannot run behind the order's end. 0: the database failed. */
static int drop_refused(struct sweep_session *session, struct order *order)
{
	for (int i = 0; i < order->n;) {
		struct contender c = order->v[i];
		const int refused = c.wanted && contender_parts(&c) == 1 ? refuse(session, &c) : 0;
		if (refused < 0)
			return 0;
		i += !refused;
		if (!refused)
			continue;
		order->n--;
		memmove(order->v + i, order->v + i + 1, (size_t)(order->n - i) * sizeof c);
		order->v[order->n] = c;
	}
	return 1;
}

int order_wants_any(const struct order *order)
{
	int wanted = 0;
	for (int i = 0; i < order->n; i++)
		wanted |= order->v[i].wanted;
	return wanted;
}

/* The first race of a sweep has a control, so that even a short sweep knows its noise. */
static int has_control(const struct sweep_session *session, int problem)
{
	return !problem || session->stage == STAGE_B || session->bad_controls ||
	       scramble((unsigned)problem * 0x9e3779b9ull + (unsigned)session->stage) %
		       CONTROL_ODDS ==
		   0;
}

enum race_end session_race(struct sweep_session *session, struct order *order)
{
	const enum race_end end = session_wait_for_code(session, order);
	const int problem = order->v[0].problem[0];
	if (end != RACE_ENDED)
		return end;
	if (!drop_refused(session, order))
		return RACE_STOPPED;
	if (!order_wants_any(order))
		return RACE_ENDED;
	order->with_control = has_control(session, problem);
	order->seed = session->o->seed + (unsigned)problem;
	return session_run(session, order);
}

enum race_end session_skip(struct sweep_session *session, int scenario, enum race_end end)
{
	const struct scenario *s = &session->problems.scenarios[scenario];
	session->ran_out |= end == RACE_TOO_LATE;
	if (end != RACE_IMPOSSIBLE)
		return end;
	if (session->stage == STAGE_RACE || session->stage == STAGE_B ||
	    session->survey) { /* else already reported */
		complain("%s %s is left out: %s", s->model, s->batch_text,
			 worker_text(session->worker));
		session->skipped++;
	}
	return RACE_ENDED;
}
