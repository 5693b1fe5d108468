/* session_race.c - one race of a sweep session: which of the requested candidates run, and with
 * which reference, plans and A/A control. */
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

/* Stores the outcome of a candidate that cannot run. 1: stored; 0: it can run; -1: the database
 * failed. */
static int refuse(struct sweep_session *session, struct problem *problem, int i)
{
	const int built_choice = problem->built_choice[i];
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
	return m.outcome == OUTCOME_OK ? 0 : session_keep(session, problem, i, &m) ? 1 : -1;
}

/* Adds the candidate of place i if its time is asked for: `wanted`. The reference comes without that,
 * too, unless it failed: the others are compared with it. 0: the database failed. */
static int add_candidate(struct sweep_session *session, struct problem *problem,
			 const struct entries *e, int i, struct contender *contender, char *wanted,
			 int *n)
{
	const int is_wanted = e->again || !problem->stored[i];
	const int refused = is_wanted ? refuse(session, problem, i) : i || isinf(problem->us[i]);
	if (refused)
		return refused > 0;
	wanted[*n] = (char)is_wanted;
	contender[(*n)++] =
	    (struct contender){ .problem = { (int)(problem - session->problems.v), -1 },
				.place = { i },
				.passed = *session_passed(session, problem->built_choice[i],
							  problem->phase) };
	return 1;
}

/* Lists the contenders: the reference, then the requested candidates that have to run. How many;
 * 0: nothing to run; -1: the database failed. */
static int list_contenders(struct sweep_session *session, struct problem *problem,
			   const struct entries *e, struct contender *contender, char *wanted)
{
	const int with_reference = !e->only_these;
	int n = 0;
	if (with_reference && !add_candidate(session, problem, e, 0, contender, wanted, &n))
		return -1;
	for (int k = 0; k < e->n; k++) {
		const int is_listed = with_reference && !e->place[k];
		if (!is_listed &&
		    !add_candidate(session, problem, e, e->place[k], contender, wanted, &n))
			return -1;
	}
	return memchr(wanted, 1, (size_t)n) ? n : 0;
}

static int add_plans(struct sweep_session *session, const struct problem *problem,
		     const struct entries *e, struct contender *contender, char *wanted, int n)
{
	int more = 0;
	if (!n && !e->only_these && problem->n &&
	    isfinite(problem->us[0])) { /* plans are compared with the reference */
		contender[n] =
		    (struct contender){ .problem = { (int)(problem - session->problems.v), -1 },
					.passed = 1 };
		wanted[n++] = 0;
	}
	if (e->plan) {
		more = e->num_plans;
		memcpy(contender + n, e->plan, (size_t)more * sizeof *contender);
	} else {
		more = plans_pick(&session->problems, problem->scenario, contender + n);
	}
	memset(wanted + n, 1, (size_t)more);
	return more ? n + more : 0;
}

/* The first race of a sweep has a control, so that even a short sweep knows its noise. */
static int has_control(const struct sweep_session *session, const struct problem *problem)
{
	return problem == session->problems.v || session->stage == STAGE_B ||
	       session->bad_controls ||
	       scramble((unsigned)(problem - session->problems.v) * 0x9e3779b9ull +
			(unsigned)session->stage) %
		       CONTROL_ODDS ==
		   0;
}

enum race_end session_race(struct sweep_session *session, struct problem *problem,
			   const struct entries *e, double seconds)
{
	const size_t room = (size_t)(e->n + e->num_plans + 1 + MAX_PLANS + 1);
	struct contender *contender = calloc(room, sizeof *contender);
	char *wanted = calloc(room, 1);
	enum race_end end = session_wait_for_code(session, problem, e);
	int n = end != RACE_ENDED     ? 0
		: contender && wanted ? list_contenders(session, problem, e, contender, wanted)
				      : -1;
	if (n >= 0 && end == RACE_ENDED && e->with_plans) {
		const int with = add_plans(session, problem, e, contender, wanted, n);
		n = with ? with : n;
	}
	if (n > 0)
		end = session_run(session, wanted,
				  &(struct order){ .contender = contender,
						   .n = n,
						   .fixed_rounds = e->fixed_rounds,
						   .with_control = has_control(session, problem),
						   .seconds = seconds,
						   .seed = session->o->seed +
							   (unsigned)contender[0].problem[0] });
	else if (n < 0)
		end = RACE_STOPPED;
	free(contender);
	free(wanted);
	return end;
}

enum race_end session_skip(struct sweep_session *session, const struct problem *problem,
			   enum race_end end)
{
	session->ran_out |= end == RACE_TOO_LATE;
	if (end != RACE_IMPOSSIBLE)
		return end;
	if (session->stage == STAGE_RACE || session->stage == STAGE_B ||
	    session->survey) { /* else already reported */
		complain("%s %s is left out: %s", session_scenario(session, problem)->model,
			 session_scenario(session, problem)->batch_text,
			 worker_text(session->worker));
		session->skipped++;
	}
	return RACE_ENDED;
}
