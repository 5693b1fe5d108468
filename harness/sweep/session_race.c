/* SPDX-License-Identifier: Apache-2.0 */
/* session_race.c - one race of a sweep session: which of its contenders can run, and whether one of
 * them runs twice, as an A/A control. Keeps its results: in the problems, in the database, and in the
 * session's counts. Stops the sweep if A/A controls keep failing. */
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

/* ---- results ----------------------------------------------------------------------- */
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

static int session_keep(struct sweep_session *session, struct contender *c, const char *library,
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

static enum race_end session_run(struct sweep_session *session, const struct order *order)
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

/* ---- a race ------------------------------------------------------------------------ */

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
