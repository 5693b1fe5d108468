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

/* All rows of a set made by the former attune refine have the stage refine. */
static enum stage stage_of(const struct sweep_session *session, const struct problem *problem)
{
	const int refines =
	    !session->survey && !strncmp(session_scenario(session, problem)->set, "refine", 6);
	return refines && session->stage < STAGE_AUDIT ? STAGE_REFINE : session->stage;
}

static void count(struct sweep_session *session, const struct measurement *m)
{
	struct tally *t = &session->tally[session->stage];
	t->device_s += m->device_us * 1e-6;
	t->cells += m->outcome == OUTCOME_OK;
	t->noisy += m->outcome == OUTCOME_NOISY;
	t->failed += m->outcome != OUTCOME_OK && m->outcome != OUTCOME_NOISY;
	session->failed[m->outcome]++;
}

int session_keep(struct sweep_session *session, struct problem *problem, int i,
		 const struct measurement *m)
{
	const struct built_choice *e = &session->problems.built_choice[problem->built_choice[i]];
	const enum stage stage = stage_of(session, problem);
	/* A stored time may come from a survey, which a race replaces. */
	problem->noisy[i] =
	    m->outcome == OUTCOME_NOISY && (!problem->stored[i] || stage == STAGE_RACE);
	if (m->outcome != OUTCOME_NOISY) {
		problems_note(problem, i, m->outcome == OUTCOME_OK ? m->median_us : INFINITY,
			      stage);
		problem->stored[i] = 1;
	}
	count(session, m);
	if (session->take) {
		const struct contender one = {
			.problem = { (int)(problem - session->problems.v), -1 }, .place = { i }
		};
		char text[MAX_PART_TEXT];
		choice_text(text, sizeof text, &e->choice);
		return session->take(session->take_arg, &one, text, m);
	}
	if (!session->store)
		return 1;
	store_stage(session->store, stage_names[stage]);
	return store_measurement(session->store, session->run, session_scenario(session, problem),
				 problem->phase, &e->choice, e->flags, m, e->registers,
				 e->spill_bytes);
}

int session_is_noisy(const struct sweep_session *session, const struct contender *plan)
{
	for (int i = 0; i < session->num_noisy_plans; i++)
		if (contender_same(&session->noisy_plan[i], plan))
			return 1;
	return 0;
}

/* 0: no memory. */
static int note_plan(struct sweep_session *session, const struct contender *plan, int is_noisy)
{
	int n = 0;
	for (int i = 0; i < session->num_noisy_plans; i++)
		if (!contender_same(&session->noisy_plan[i], plan))
			session->noisy_plan[n++] = session->noisy_plan[i];
	session->num_noisy_plans = n;
	if (!is_noisy)
		return 1;
	struct contender *more = realloc(session->noisy_plan, ((size_t)n + 1) * sizeof *more);
	if (!more) {
		complain("out of memory");
		return 0;
	}
	session->noisy_plan = more;
	more[session->num_noisy_plans++] = *plan;
	return 1;
}

/* library: the library's plan. */
static int keep_plan(struct sweep_session *session, const struct contender *contender,
		     const char *library, const struct measurement *m)
{
	struct problem *problem = &session->problems.v[contender->problem[0]];
	struct problem *whole = problems_find(&session->problems, problem->scenario, PHASE_ALL);
	char text[MAX_PLAN_TEXT];
	if (contender->is_library)
		snprintf(text, sizeof text, "%s", library);
	else
		plan_text(text, &session->problems, contender);
	const int is_noisy = m->outcome == OUTCOME_NOISY;
	(whole ? whole : problem)->noisy_plans += is_noisy;
	if (!note_plan(session, contender, is_noisy))
		return 0;
	count(session, m);
	if (session->take)
		return session->take(session->take_arg, contender, text, m);
	if (!session->store)
		return 1;
	store_stage(session->store, stage_names[stage_of(session, problem)]);
	return store_plan_measurement(session->store, session->run,
				      session_scenario(session, problem), text, m);
}

/* ---- listening to a race -------------------------------------------------------- */

struct running_race {
	struct sweep_session *session;
	const char *wanted;          /* as of session_run */
	char (*plan)[MAX_PLAN_TEXT]; /* of each contender that is the library */
};

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	struct running_race *r = arg;
	struct sweep_session *session = r->session;
	const struct contender *contender = &order->contender[i];
	struct problem *problem = &session->problems.v[contender->problem[0]];
	if (failed_gate && contender->problem[1] < 0 && !contender->is_library &&
	    m->outcome != OUTCOME_RESOURCES)
		*session_excluded(session, problem->built_choice[contender->place[0]],
				  problem->shape) = (char)m->outcome;
	if (m->outcome == OUTCOME_OK && !m->samples)
		return 1; /* the budget ended before it */
	if (!r->wanted[i]) {
		session->tally[session->stage].device_s += m->device_us * 1e-6;
		return 1;
	}
	return contender->problem[1] >= 0 || contender->is_library
		   ? keep_plan(session, contender, r->plan[i], m)
		   : session_keep(session, problem, contender->place[0], m);
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
	const struct contender *contender = &order->contender[i];
	const struct problem *problem = &r->session->problems.v[contender->problem[0]];
	*session_passed(r->session, problem->built_choice[contender->place[0]], problem->phase) = 1;
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
	const struct contender *contender = &order->contender[control->of];
	const struct problem *problem = &session->problems.v[contender->problem[0]];
	const int is_plan = contender->problem[1] >= 0;
	char text[MAX_PLAN_TEXT];
	session->tally[session->stage].controls++;
	session->tally[session->stage].device_s += control->device_us * 1e-6;
	if (noise_in_control(control) && !device_is_emulated(&session->hello.info))
		return on_bad_control(session, control);
	session->bad_controls = 0;
	if (!session->store || session->take)
		return 1;
	session->believed_race = store_last_race(session->store, session->run);
	if (is_plan)
		plan_text(text, &session->problems, contender);
	else
		choice_text(
		    text, sizeof text,
		    &session->problems.built_choice[problem->built_choice[contender->place[0]]]
			 .choice);
	store_stage(session->store, stage_names[stage_of(session, problem)]);
	return store_control(session->store, session->run, session_scenario(session, problem),
			     is_plan ? "plan" : store_phase(problem->phase), text,
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

enum race_end session_run(struct sweep_session *session, const char *wanted,
			  const struct order *order)
{
	struct running_race r = { .session = session,
				  .wanted = wanted,
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
