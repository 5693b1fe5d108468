/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - the stages of a sweep. Each measures only what the database lacks, so an interrupted
 * stage continues where it stopped:
 *
 *   race      every scenario and phase: promising candidates race, and slow ones are eliminated
 *   complete  the portfolio of each phase on all its scenarios, in fixed rounds: a tree may choose
 *             any of it anywhere
 *   cold      the first scenarios, which had no neighbours to learn from, and those whose
 *             neighbours disagree, with what is known by now
 *   audit     all legal choices on a few scenarios, to see what racing missed
 *
 * A survey runs only the stage complete, on problems that were never raced.
 *
 * A stage may use its share of the budget and what earlier stages left. */
#include "session.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdlib.h>

enum {
	COMPLETE_ROUNDS = 5,
	SURVEY_ROUNDS = 3,
	COLD_SHARE = 10 /* the first 1/10 of the scenarios */,
	AUDIT_ODDS = 25,
	AUDIT_LEAST = 10 /* with fewer scenarios none is audited */,
	AHEAD = 128 /* binaries to keep waiting for builders, if so many are left */
};
static const double until[NUM_STAGES] = {
	[STAGE_RACE] = 0.7, [STAGE_COMPLETE] = 0.88, [STAGE_COLD] = 0.94, [STAGE_AUDIT] = 1
};
static const double in_question = 1.03 /* within this ratio of the best: raced again */;

/* What the races of a stage are made from. */
struct making {
	char *family[3];           /* by phase: the portfolio */
	int *place;                /* room for those of a problem */
	struct order order, ahead; /* the next race, and a later one; room for all of a problem */
};

static int most_places(const struct sweep_session *session)
{
	int n = 0;
	for (int i = 0; i < session->problems.n; i++)
		n = session->problems.v[i].n > n ? session->problems.v[i].n : n;
	return n + 1;
}

static int making_begin(struct making *m, const struct sweep_session *session)
{
	const size_t n = (size_t)most_places(session);
	m->place = calloc(n, sizeof *m->place);
	m->order.v = calloc(n + MAX_PLANS, sizeof *m->order.v);
	m->ahead.v = calloc(n + MAX_PLANS, sizeof *m->ahead.v);
	int ok = m->place && m->order.v && m->ahead.v;
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		char *family = calloc((size_t)session->problems.num_families + 1, 1);
		m->family[p] = family;
		ok &=
		    family && (session->survey || stages_portfolio(&session->problems, p, family));
		for (int f = 0; family && session->survey && f < session->problems.num_families;
		     f++)
			family[f] =
			    (char)survey_wants(session->survey, p, &session->problems.family[f]);
	}
	return ok;
}

static void making_end(struct making *m)
{
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		free(m->family[p]);
	free(m->place);
	free(m->order.v);
	free(m->ahead.v);
}

static int races_everyone(const struct sweep_session *session)
{
	return session->o->preset == PRESET_SMOKE;
}

/* ---- what runs in which stage --------------------------------------------------- */

static int wants_plans(const struct problem *problem)
{
	return problem->phase == PHASE_ALL && !problem->planned;
}

/* The few rounds of a survey are no race: the problem is still raced. */
static int was_surveyed(const struct problem *problem)
{
	return problem->n && problem->stored[0] && problem->stage[0] == STAGE_COMPLETE;
}

static int due_in_race(const struct problem *problem)
{
	int noisy = 0;
	for (int i = 0; i < problem->n; i++)
		noisy += problem->noisy[i];
	return !problem->finished || noisy || wants_plans(problem);
}

static int holes(const struct problem *problem, const int *place, int n)
{
	int missing = 0;
	for (int i = 0; i < n; i++)
		missing += !problem->stored[place[i]];
	return missing;
}

/* A survey also measures the default choices and baselines. */
static int pick_survey(const struct sweep_session *session, const struct problem *problem,
		       const char *family, int *place)
{
	int n = problems_resolve(&session->problems, problem, family, place);
	for (int i = 0; problem->phase != PHASE_ALL && i < problem->n; i++) {
		int in =
		    session->problems.built_choice[problem->built_choice[i]].origin > FROM_BASELINE;
		for (int k = 0; k < n && !in; k++)
			in = place[k] == i;
		if (!in)
			place[n++] = i;
	}
	return n;
}

static int pick_complete(const struct sweep_session *session, const struct problem *problem,
			 const char *family, int *place)
{
	int n = 0;
	if (session->survey && !problem->finished)
		n = pick_survey(session, problem, family, place);
	if (!session->survey && problem->finished)
		n = problems_resolve(&session->problems, problem, family, place);
	return holes(problem, place, n) ? n : 0;
}

/* Scenarios are sorted in the order in which they race. */
static int is_early(const struct sweep_session *session, const struct problem *problem)
{
	return (problem - session->problems.v) * COLD_SHARE < session->problems.n;
}

static int due_in_cold(const struct sweep_session *session, const struct problem *problem)
{
	return problem->phase != PHASE_ALL && problem->finished && problem->best >= 0 &&
	       problem->stage[problem->best] < STAGE_COLD &&
	       (is_early(session, problem) || problems_disputed(&session->problems, problem) ||
		problems_overlooked(&session->problems, problem));
}

/* The portfolio, what neighbours now promise, and the choices that came close. */
static int pick_cold(const struct sweep_session *session, const struct problem *problem,
		     const char *family, int *place)
{
	char *in = calloc((size_t)problem->n + 1, 1);
	int n = in ? problems_resolve(&session->problems, problem, family, place) : 0, kept = 0;
	for (int i = 0; i < n; i++)
		in[place[i]] = 1;
	n = in ? problems_shortlist(&session->problems, problem, 0, place) : 0;
	for (int i = 0; i < n; i++)
		in[place[i]] = 1;
	for (int i = 0; in && i < problem->n; i++)
		if (problem->us[i] <= in_question * problem->us[problem->best] ||
		    (in[i] && isnan(problem->us[i])))
			place[kept++] = i;
	free(in);
	return kept;
}

static int num_scenarios(const struct sweep_session *session)
{
	int n = 0;
	for (int i = 0; i < session->problems.n; i++)
		n += !i || session->problems.v[i].scenario != session->problems.v[i - 1].scenario;
	return n;
}

static int is_audited(const struct sweep_session *session, const struct problem *problem)
{
	const struct scenario *s = &session->problems.scenarios[problem->scenario];
	unsigned long long z = session->o->seed;
	for (const char *t = s->batch_text; *t; t++)
		z = scramble(z * 31 + (unsigned char)*t);
	for (const char *t = s->model; *t; t++)
		z = scramble(z * 31 + (unsigned char)*t);
	return problem->phase != PHASE_ALL && num_scenarios(session) >= AUDIT_LEAST &&
	       scramble(z) % AUDIT_ODDS == 0;
}

static int pick_audit(const struct problem *problem, int *place)
{
	int n = 0;
	for (int i = 0; i < problem->n; i++)
		if (!problem->stored[i] ||
		    (problem->stage[i] != STAGE_AUDIT &&
		     problem->us[i] <= in_question * problem->us[problem->best]))
			place[n++] = i;
	return n;
}

/* Whether a race is over except for cells or plans with noisy times. */
static int is_over_but_noisy(const struct problem *problem)
{
	int noisy = problem->noisy_plans;
	for (int i = 0; i < problem->n; i++)
		noisy += problem->noisy[i];
	return noisy && problem->finished;
}

/* The cells with noisy times of a finished race. */
static int pick_noisy(const struct problem *problem, int *place, int *again)
{
	int n = 0;
	for (int i = 0; i < problem->n; i++)
		if (problem->noisy[i]) {
			place[n++] = i;
			*again |= problem->stored[i];
		}
	return n;
}

/* again: also what is stored. */
static int pick_race(const struct sweep_session *session, const struct problem *problem, int *place,
		     int *again)
{
	if (is_over_but_noisy(problem))
		return pick_noisy(problem, place, again);
	*again = was_surveyed(problem);
	return problems_shortlist(&session->problems, problem, races_everyone(session), place);
}

/* Adds the candidate if its time is asked for. The reference comes without that, too, unless it
 * failed: the others are compared with it. */
static void add(const struct sweep_session *session, const struct problem *problem, int place,
		int again, struct order *o)
{
	struct contender c = contender_at(&session->problems, problem, place);
	c.wanted = (char)(again || !problem->stored[place]);
	c.passed = *session_passed(session, problem->built_choice[place], problem->phase);
	if (c.wanted || (!place && !isinf(problem->us[0])))
		o->v[o->n++] = c;
}

/* Makes the race of a problem in the current stage. 0: there is none. */
static int make(const struct sweep_session *session, const struct problem *problem,
		const struct making *m, struct order *order)
{
	const char *family = m->family[problem->phase];
	const int is_raced = problem->finished && problem->best >= 0;
	int n = 0, again = 1, with_plans = 0;
	switch (session->stage) {
	case STAGE_RACE:
		if (!due_in_race(problem))
			break;
		again = 0;
		with_plans = wants_plans(problem);
		n = pick_race(session, problem, m->place, &again);
		break;
	case STAGE_COMPLETE:
		again = 0;
		n = pick_complete(session, problem, family, m->place);
		break;
	case STAGE_COLD:
		if (due_in_cold(session, problem))
			n = pick_cold(session, problem, family, m->place);
		break;
	case STAGE_AUDIT:
		if (is_raced && is_audited(session, problem))
			n = pick_audit(problem, m->place);
		break;
	default: break;
	}
	order->n = 0;
	order->fixed_rounds = session->stage != STAGE_COMPLETE ? 0
			      : session->survey                ? SURVEY_ROUNDS
							       : COMPLETE_ROUNDS;
	if (n || with_plans)
		add(session, problem, 0, again, order);
	for (int i = 0; i < n; i++)
		if (m->place[i])
			add(session, problem, m->place[i], again, order);
	if (with_plans)
		order->n += plans_pick(&session->problems, problem->scenario, order->v + order->n);
	if (!order_wants_any(order))
		order->n = 0;
	return order->n;
}

/* ---- running ------------------------------------------------------------------------ */

/* A race's weight in sharing out the time. A sample is assumed as long as the protocol asks, or as
 * a call slightly above the roofline. The square root gives heavy races more time than light ones,
 * but lets more light ones finish when time is short. */
static double work_of(const struct sweep_session *session, const struct problem *problem,
		      const struct order *order)
{
	const double us =
	    fmax(session->protocol.sample_us, 2 * problems_roofline(&session->problems, problem));
	return sqrt(us * (10 + (order->fixed_rounds ? order->fixed_rounds : 3) * order->n));
}

static int is_asked(const struct sweep_session *session, const struct problem *problem)
{
	return session->problems.scenarios[problem->scenario].asked;
}

/* The number of races that are due, and the sums of their work: [1] for the scenarios that the user
 * named, [0] for the others. The first share all the time; the others share what they leave. */
static int left_in_stage(const struct sweep_session *session, struct making *m, double work[2])
{
	int n = 0;
	work[0] = work[1] = 0;
	for (int i = 0; i < session->problems.n; i++) {
		const struct problem *problem = &session->problems.v[i];
		if (make(session, problem, m, &m->order))
			work[is_asked(session, problem)] += work_of(session, problem, &m->order),
			    n++;
	}
	return n;
}

/* Asks builders for the code of the next races, as known now. `next`: the first problem that was
 * not asked for yet. */
static void ask_ahead(struct sweep_session *session, struct making *m, int after, int *next)
{
	for (*next = *next > after ? *next : after + 1;
	     *next < session->problems.n && binaries_waiting(&session->binaries) < AHEAD; ++*next) {
		make(session, &session->problems.v[*next], m, &m->ahead);
		session_ask(session, &m->ahead);
	}
}

/* Runs each race that is due, once. */
static enum race_end run_problems(struct sweep_session *session, struct making *m)
{
	enum race_end end = RACE_ENDED;
	double left_of[2];
	int last = -1, next = 0;
	session->stage_done = 0;
	session->stage_problems = left_in_stage(session, m, left_of);
	for (int i = 0; i < session->problems.n && end == RACE_ENDED; i++) {
		struct problem *problem = &session->problems.v[i];
		if (!make(session, problem, m, &m->order))
			continue;
		const double work = work_of(session, problem, &m->order);
		double *left = &left_of[is_asked(session, problem)];
		m->order.seconds = session_share(session, fmin(1, work / fmax(*left, work)));
		if (m->order.seconds <= 0) {
			session->ran_out = 1;
			break;
		}
		*left -= work;
		if (m->order.v[m->order.n - 1].is_plan)
			problem->noisy_plans = 0;
		session_ask(session, &m->order);
		ask_ahead(session, m, i, &next);
		end = session_race(session, &m->order);
		session->tally[session->stage].scenarios += problem->scenario != last;
		last = problem->scenario;
		if (end == RACE_ENDED && session->stage == STAGE_RACE) {
			problem->finished = 1;
			problem->planned = !problem->noisy_plans;
		}
		end = session_skip(session, problem->scenario, end);
		session->stage_done++;
	}
	return end;
}

/* Runs the stage, then races noisy cells again while time is left. */
static enum race_end run_stage(struct sweep_session *session, struct making *m)
{
	const long long *noisy = &session->tally[session->stage].noisy;
	long long before = *noisy;
	enum race_end end = run_problems(session, m);
	for (int k = 0; k < NOISY_RETRIES && end == RACE_ENDED && *noisy > before; k++) {
		if (!session_wait_quiet(session))
			break;
		before = *noisy;
		end = run_problems(session, m);
	}
	return end;
}

static int has_stage(const struct sweep_session *session, enum stage s)
{
	return session->survey ? s == STAGE_COMPLETE
			       : s == STAGE_RACE || (until[s] > 0 && !races_everyone(session));
}

enum race_end stages_run(struct sweep_session *session, enum stage from, enum stage to, int all)
{
	enum race_end end = RACE_ENDED;
	all |= session->survey || races_everyone(session);
	for (enum stage s = from; end == RACE_ENDED && s <= to; s++) {
		struct making m = { 0 };
		if (!has_stage(session, s))
			continue;
		session->stage = s;
		session->limit_s = session->o->budget_s * (all ? 1 : until[s]);
		end = making_begin(&m, session) ? run_stage(session, &m) : RACE_STOPPED;
		making_end(&m);
	}
	progress_end();
	return end;
}

int stages_left(struct sweep_session *session)
{
	double work[2];
	const enum stage stage = session->stage;
	struct making m = { 0 };
	int n = 0;
	if (making_begin(&m, session))
		for (session->stage = STAGE_RACE; session->stage < STAGE_B; session->stage++)
			if (has_stage(session, session->stage))
				n += left_in_stage(session, &m, work);
	session->stage = stage;
	making_end(&m);
	return n;
}
