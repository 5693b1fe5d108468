/* session_results.c - runs a race of a sweep session and keeps its results: in the problems, in
 * the database, and in the session's counts. Stops the sweep if A/A controls keep failing. */
#include "session.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BAD_CONTROLS = 3 }; /* in a row; then the sweep stops */

static void count(struct sweep_session *session, const struct measurement *m)
{
	struct tally *t = &session->tally[session->stage];
	t->device_s += m->device_us * 1e-6;
	t->cells += m->outcome == OUTCOME_OK;
	t->noisy += m->outcome == OUTCOME_NOISY;
	t->failed += m->outcome != OUTCOME_OK && m->outcome != OUTCOME_NOISY;
	session->failed[m->outcome]++;
}

/* A stored time may come from a survey, which a race replaces. */
static void note(const struct sweep_session *session, const struct contender *c,
		 const struct measurement *m)
{
	struct problem *problem = &session->problems.v[c->problem[0]];
	const int i = c->place[0];
	if (contender_parts(c) != 1) {
		struct problem *whole =
		    problems_find(&session->problems, problem->scenario, PHASE_ALL);
		(whole ? whole : problem)->noisy_plans += c->noisy;
		return;
	}
	problem->noisy[i] = c->noisy && (!problem->stored[i] || session->stage == STAGE_RACE);
	if (!c->noisy) {
		problems_note(problem, i, m->outcome == OUTCOME_OK ? m->median_us : INFINITY,
			      session->stage);
		problem->stored[i] = 1;
	}
}

int session_keep(struct sweep_session *session, struct contender *c, const char *library,
		 const struct measurement *m)
{
	const struct problem *problem = &session->problems.v[c->problem[0]];
	const struct scenario *s = session_scenario(session, problem);
	char text[MAX_PLAN_TEXT];
	contender_text(text, c);
	if (c->is_library)
		snprintf(text, sizeof text, "%s", library);
	c->noisy = m->outcome == OUTCOME_NOISY;
	note(session, c, m);
	count(session, m);
	if (session->take)
		return session->take(session->take_arg, c, text, m);
	if (!session->store)
		return 1;
	store_stage(session->store, stage_names[session->stage]);
	if (contender_parts(c) != 1)
		return store_plan_measurement(session->store, session->run, s, text, m);
	const struct built_choice *e = contender_built(&session->problems, c, 0);
	return store_measurement(session->store, session->run, s, c->phase, &c->choice, e->flags, m,
				 e->registers, e->spill_bytes);
}

/* ---- listening to a race -------------------------------------------------------- */

struct running_race {
	struct sweep_session *session;
	char (*plan)[MAX_PLAN_TEXT]; /* of each contender that is the library */
};

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	struct running_race *r = arg;
	struct sweep_session *session = r->session;
	struct contender *c = &order->v[i];
	const struct problem *problem = &session->problems.v[c->problem[0]];
	if (failed_gate && contender_parts(c) == 1 && m->outcome != OUTCOME_RESOURCES)
		*session_excluded(session, problem->built_choice[c->place[0]], problem->shape) =
		    (char)m->outcome;
	if (m->outcome == OUTCOME_OK && !m->samples)
		return 1; /* the budget ended before it */
	if (c->wanted)
		return session_keep(session, c, r->plan[i], m);
	session->tally[session->stage].device_s += m->device_us * 1e-6;
	return 1;
}

static void on_planned(void *arg, const struct order *order, int i, const char *plan)
{
	const struct running_race *r = arg;
	(void)order;
	snprintf(r->plan[i], sizeof r->plan[i], "%s", plan);
}

static void on_passed(void *arg, const struct order *order, int i)
{
	const struct running_race *r = arg;
	const struct contender *c = &order->v[i];
	const struct problem *problem = &r->session->problems.v[c->problem[0]];
	session_pass(r->session, problem->built_choice[c->place[0]], problem->phase);
}

/* The race's times are already marked noisy, so a failed control is not stored. After
 * MOST_BAD_CONTROLS in a row all times since the last good control become noisy as well. */
static int on_bad_control(struct sweep_session *session, const struct control *control)
{
	session->bad_controls++;
	session->worst_control = fmax(session->worst_control, noise_of_control(control));
	if (session->bad_controls < MOST_BAD_CONTROLS)
		return 1;
	complain("the same choice twice differs by %.0f %%: the machine is not quiet. The sweep "
		 "stops; nothing is learned from what was measured since the last such pair that "
		 "agreed. The same command goes on when the machine is quiet",
		 100 * session->worst_control);
	session->refused = EXIT_BUSY;
	if (session->store)
		(void)store_disbelieve(session->store, session->run,
				       session->believed_race); /* it has complained */
	return 0;
}

static int on_control(void *arg, const struct order *order, const struct control *control)
{
	struct sweep_session *session = ((struct running_race *)arg)->session;
	const struct contender *c = &order->v[control->of];
	const struct problem *problem = &session->problems.v[c->problem[0]];
	char text[MAX_PLAN_TEXT];
	session->tally[session->stage].controls++;
	session->tally[session->stage].device_s += control->device_us * 1e-6;
	if (noise_in_control(control) && !device_is_emulated(&session->hello.info))
		return on_bad_control(session, control);
	session->bad_controls = 0;
	if (!session->store || session->take)
		return 1;
	session->believed_race = store_last_race(session->store, session->run);
	contender_text(text, c);
	store_stage(session->store, stage_names[session->stage]);
	return store_control(session->store, session->run, session_scenario(session, problem),
			     c->is_plan ? "plan" : store_phase(problem->phase), text,
			     control->median_us, control->ratio);
}

static void on_heartbeat(void *arg)
{
	const struct sweep_session *session = ((struct running_race *)arg)->session;
	char what[40];
	snprintf(what, sizeof what, "measuring (%s)", stage_names[session->stage]);
	progress(what,
		 fmax(session->stage_done / fmax(session->stage_problems, 1),
		      session_seconds(session) / fmax(session->limit_s, 1e-9)),
		 1);
}

enum race_end session_run(struct sweep_session *session, const struct order *order)
{
	struct running_race r = { .session = session,
				  .plan = calloc((size_t)order->n, sizeof *r.plan) };
	const struct listener listener = { .arg = &r,
					   .result = on_result,
					   .passed = on_passed,
					   .planned = on_planned,
					   .control = on_control,
					   .beat = on_heartbeat };
	const enum spent before = spent_on(SPENT_RACING);
	session->tally[session->stage].races++;
	budget_race();
	const enum race_end end = r.plan ? session_order(session, order, &listener) : RACE_STOPPED;
	free(r.plan);
	spent_on(before);
	return end;
}
