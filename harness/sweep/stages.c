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
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Portfolios, by phase. */
struct marks {
	char *of[3];
};

static int marks_make(struct marks *m, const struct sweep_session *session)
{
	int ok = 1;
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		m->of[p] = calloc((size_t)session->problems.num_families + 1, 1);
		ok &= m->of[p] &&
		      (session->survey || stages_portfolio(&session->problems, p, m->of[p]));
		for (int f = 0; m->of[p] && session->survey && f < session->problems.num_families;
		     f++)
			m->of[p][f] =
			    (char)survey_wants(session->survey, p, &session->problems.family[f]);
	}
	return ok;
}

static void marks_free(struct marks *m)
{
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		free(m->of[p]);
}

static int races_everyone(const struct sweep_session *session)
{
	return session->o->exhaustive || session->o->preset == PRESET_SMOKE;
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

static int due_in_race(const struct sweep_session *session, const struct problem *problem)
{
	int unknown = 0;
	for (int i = 0; i < problem->n; i++)
		unknown += problem->noisy[i] || (session->o->exhaustive && !problem->stored[i]);
	return !problem->finished || unknown || wants_plans(problem);
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

static void pick_complete(const struct sweep_session *session, const struct problem *problem,
			  const char *family, int *place, struct entries *e)
{
	e->fixed_rounds = session->survey ? SURVEY_ROUNDS : COMPLETE_ROUNDS;
	if (session->survey)
		e->n = problem->finished ? 0 : pick_survey(session, problem, family, place);
	else
		e->n = problem->finished
			   ? problems_resolve(&session->problems, problem, family, place)
			   : 0;
	if (!holes(problem, place, e->n))
		e->n = 0;
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

int stages_audits(const struct sweep_session *session, const struct problem *problem)
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
static int is_over_but_noisy(const struct sweep_session *session, const struct problem *problem)
{
	int noisy = problem->noisy_plans;
	for (int i = 0; i < problem->n; i++)
		noisy += problem->noisy[i];
	return noisy && problem->finished && !session->o->exhaustive;
}

/* The cells with noisy times of a finished race. */
static void pick_noisy(const struct problem *problem, int *place, struct entries *e)
{
	for (int i = 0; i < problem->n; i++)
		if (problem->noisy[i]) {
			place[e->n++] = i;
			e->again |= problem->stored[i];
		}
}

/* The entries of a problem in the current stage; e->n is 0 if none. */
static void pick(const struct sweep_session *session, const struct problem *problem,
		 const struct marks *m, int *place, struct entries *e)
{
	*e = (struct entries){ .place = place };
	switch (session->stage) {
	case STAGE_RACE:
		if (!due_in_race(session, problem))
			break;
		e->with_plans = wants_plans(problem);
		if (is_over_but_noisy(session, problem)) {
			pick_noisy(problem, place, e);
			break;
		}
		e->n =
		    problems_shortlist(&session->problems, problem, races_everyone(session), place);
		e->again = was_surveyed(problem);
		break;
	case STAGE_COMPLETE:
		pick_complete(session, problem, m->of[problem->phase], place, e);
		break;
	case STAGE_COLD:
		e->n = due_in_cold(session, problem)
			   ? pick_cold(session, problem, m->of[problem->phase], place)
			   : 0;
		e->again = 1;
		break;
	case STAGE_AUDIT:
		e->n = stages_audits(session, problem) && problem->finished && problem->best >= 0
			   ? pick_audit(problem, place)
			   : 0;
		e->again = 1;
		break;
	default: break;
	}
}

/* ---- running ------------------------------------------------------------------------ */

/* A race's weight in sharing out the time. A sample is assumed as long as the protocol asks, or as
 * a call slightly above the roofline. The square root gives heavy races more time than light ones,
 * but lets more light ones finish when time is short. */
static double work_of(const struct sweep_session *session, const struct problem *problem,
		      const struct entries *e)
{
	const double us =
	    fmax(session->protocol.sample_us, 2 * problems_roofline(&session->problems, problem));
	const int contenders = e->n + (e->with_plans ? MAX_PLANS : 0);
	return sqrt(us * (10 + (e->fixed_rounds ? e->fixed_rounds : 3) * contenders));
}

static int is_asked(const struct sweep_session *session, const struct problem *problem)
{
	return session->problems.scenarios[problem->scenario].asked;
}

/* The number of races that are due, and the sums of their work: [1] for the scenarios that the user
 * named, [0] for the others. The first share all the time; the others share what they leave. */
static int left_in_stage(const struct sweep_session *session, const struct marks *m, int *place,
			 double work[2])
{
	struct entries e;
	int n = 0;
	work[0] = work[1] = 0;
	for (int i = 0; i < session->problems.n; i++) {
		const struct problem *problem = &session->problems.v[i];
		pick(session, problem, m, place, &e);
		if (e.n > 0 || e.with_plans)
			work[is_asked(session, problem)] += work_of(session, problem, &e), n++;
	}
	return n;
}

static int most_places(const struct sweep_session *session)
{
	int n = 0;
	for (int i = 0; i < session->problems.n; i++)
		n = session->problems.v[i].n > n ? session->problems.v[i].n : n;
	return n + 1;
}

/* Asks builders for the code of the next races, as known now. `next`: the first problem that was
 * not asked for yet. */
static void ask_ahead(struct sweep_session *session, const struct marks *m, int after, int *next)
{
	int *place = binaries_waiting(&session->binaries) < AHEAD
			 ? calloc((size_t)most_places(session), sizeof *place)
			 : NULL;
	struct entries e;
	for (*next = *next > after ? *next : after + 1;
	     place && *next < session->problems.n && binaries_waiting(&session->binaries) < AHEAD;
	     ++*next) {
		pick(session, &session->problems.v[*next], m, place, &e);
		session_ask(session, &session->problems.v[*next], &e);
	}
	free(place);
}

/* Runs each race that is due, once. */
static enum race_end run_problems(struct sweep_session *session, const struct marks *m, int *place)
{
	enum race_end end = RACE_ENDED;
	struct entries e;
	double left_of[2];
	int last = -1, next = 0;
	session->stage_done = 0;
	session->stage_problems = left_in_stage(session, m, place, left_of);
	for (int i = 0; i < session->problems.n && end == RACE_ENDED; i++) {
		struct problem *problem = &session->problems.v[i];
		pick(session, problem, m, place, &e);
		if (e.n <= 0 && !e.with_plans)
			continue;
		const double work = work_of(session, problem, &e);
		double *left = &left_of[is_asked(session, problem)];
		const double seconds = session_share(session, fmin(1, work / fmax(*left, work)));
		if (seconds <= 0) {
			session->ran_out = 1;
			break;
		}
		*left -= work;
		problem->noisy_plans = e.with_plans ? 0 : problem->noisy_plans;
		session_ask(session, problem, &e);
		ask_ahead(session, m, i, &next);
		end = session_race(session, problem, &e, seconds);
		session->tally[session->stage].scenarios += problem->scenario != last;
		last = problem->scenario;
		if (end == RACE_ENDED && session->stage == STAGE_RACE) {
			problem->finished = 1;
			problem->planned = !problem->noisy_plans;
		}
		end = session_skip(session, problem, end);
		session->stage_done++;
	}
	return end;
}

/* Runs the stage, then races noisy cells again while time is left. */
static enum race_end run_stage(struct sweep_session *session, const struct marks *m, int *place)
{
	const long long *noisy = &session->tally[session->stage].noisy;
	long long before = *noisy;
	enum race_end end = run_problems(session, m, place);
	for (int k = 0; k < NOISY_RETRIES && end == RACE_ENDED && *noisy > before; k++) {
		if (!session_wait_quiet(session))
			break;
		before = *noisy;
		end = run_problems(session, m, place);
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
	int *place = calloc((size_t)most_places(session), sizeof *place);
	enum race_end end = place ? RACE_ENDED : RACE_STOPPED;
	all |= session->survey || races_everyone(session);
	for (enum stage s = from; end == RACE_ENDED && s <= to; s++) {
		struct marks marks = { 0 };
		if (!has_stage(session, s))
			continue;
		session->stage = s;
		session->limit_s = session->o->budget_s * (all ? 1 : until[s]);
		end =
		    marks_make(&marks, session) ? run_stage(session, &marks, place) : RACE_STOPPED;
		marks_free(&marks);
	}
	progress_end();
	free(place);
	return end;
}

int stages_left(struct sweep_session *session)
{
	int *place = calloc((size_t)most_places(session), sizeof *place), n = 0;
	double work[2];
	const enum stage stage = session->stage;
	struct marks marks = { 0 };
	if (place && marks_make(&marks, session))
		for (session->stage = STAGE_RACE; session->stage < STAGE_B; session->stage++)
			if (has_stage(session, session->stage))
				n += left_in_stage(session, &marks, place, work);
	session->stage = stage;
	marks_free(&marks);
	free(place);
	return n;
}
