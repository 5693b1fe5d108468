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

static int marks_make(struct marks *m, const struct sweep_session *c)
{
	int ok = 1;
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		m->of[p] = calloc((size_t)c->problems.num_families + 1, 1);
		ok &= m->of[p] && (c->survey || stages_portfolio(&c->problems, p, m->of[p]));
		for (int f = 0; m->of[p] && c->survey && f < c->problems.num_families; f++)
			m->of[p][f] = (char)survey_wants(c->survey, p, &c->problems.family[f]);
	}
	return ok;
}

static void marks_free(struct marks *m)
{
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		free(m->of[p]);
}

static int races_everyone(const struct sweep_session *c)
{
	return c->o->exhaustive || c->o->preset == PRESET_SMOKE;
}

/* ---- what runs in which stage --------------------------------------------------- */

static int wants_plans(const struct problem *h)
{
	return h->phase == PHASE_ALL && !h->planned;
}

/* The few rounds of a survey are no race: the problem is still raced. */
static int was_surveyed(const struct problem *h)
{
	return h->n && h->stored[0] && h->stage[0] == STAGE_COMPLETE;
}

static int due_in_race(const struct sweep_session *c, const struct problem *h)
{
	int unknown = 0;
	for (int i = 0; i < h->n; i++)
		unknown += h->noisy[i] || (c->o->exhaustive && !h->stored[i]);
	return !h->finished || unknown || wants_plans(h);
}

static int holes(const struct problem *h, const int *place, int n)
{
	int missing = 0;
	for (int i = 0; i < n; i++)
		missing += !h->stored[place[i]];
	return missing;
}

/* A survey also measures the default choices and baselines. */
static int pick_survey(const struct sweep_session *c, const struct problem *h, const char *family,
		       int *place)
{
	int n = problems_resolve(&c->problems, h, family, place);
	for (int i = 0; h->phase != PHASE_ALL && i < h->n; i++) {
		int in = c->problems.built_choice[h->built_choice[i]].origin > FROM_BASELINE;
		for (int k = 0; k < n && !in; k++)
			in = place[k] == i;
		if (!in)
			place[n++] = i;
	}
	return n;
}

static void pick_complete(const struct sweep_session *c, const struct problem *h,
			  const char *family, int *place, struct entries *e)
{
	e->fixed_rounds = c->survey ? SURVEY_ROUNDS : COMPLETE_ROUNDS;
	if (c->survey)
		e->n = h->finished ? 0 : pick_survey(c, h, family, place);
	else
		e->n = h->finished ? problems_resolve(&c->problems, h, family, place) : 0;
	if (!holes(h, place, e->n))
		e->n = 0;
}

/* Scenarios are sorted in the order in which they race. */
static int is_early(const struct sweep_session *c, const struct problem *h)
{
	return (h - c->problems.v) * COLD_SHARE < c->problems.n;
}

static int due_in_cold(const struct sweep_session *c, const struct problem *h)
{
	return h->phase != PHASE_ALL && h->finished && h->best >= 0 &&
	       h->stage[h->best] < STAGE_COLD &&
	       (is_early(c, h) || problems_disputed(&c->problems, h) ||
		problems_overlooked(&c->problems, h));
}

/* The portfolio, what neighbours now promise, and the choices that came close. */
static int pick_cold(const struct sweep_session *c, const struct problem *h, const char *family,
		     int *place)
{
	char *in = calloc((size_t)h->n + 1, 1);
	int n = in ? problems_resolve(&c->problems, h, family, place) : 0, kept = 0;
	for (int i = 0; i < n; i++)
		in[place[i]] = 1;
	n = in ? problems_shortlist(&c->problems, h, 0, place) : 0;
	for (int i = 0; i < n; i++)
		in[place[i]] = 1;
	for (int i = 0; in && i < h->n; i++)
		if (h->us[i] <= in_question * h->us[h->best] || (in[i] && isnan(h->us[i])))
			place[kept++] = i;
	free(in);
	return kept;
}

static int num_scenarios(const struct sweep_session *c)
{
	int n = 0;
	for (int i = 0; i < c->problems.n; i++)
		n += !i || c->problems.v[i].scenario != c->problems.v[i - 1].scenario;
	return n;
}

int stages_audits(const struct sweep_session *c, const struct problem *h)
{
	const struct scenario *s = &c->problems.scenarios[h->scenario];
	unsigned long long z = c->o->seed;
	for (const char *t = s->batch_text; *t; t++)
		z = scramble(z * 31 + (unsigned char)*t);
	for (const char *t = s->model; *t; t++)
		z = scramble(z * 31 + (unsigned char)*t);
	return h->phase != PHASE_ALL && num_scenarios(c) >= AUDIT_LEAST &&
	       scramble(z) % AUDIT_ODDS == 0;
}

static int pick_audit(const struct problem *h, int *place)
{
	int n = 0;
	for (int i = 0; i < h->n; i++)
		if (!h->stored[i] ||
		    (h->stage[i] != STAGE_AUDIT && h->us[i] <= in_question * h->us[h->best]))
			place[n++] = i;
	return n;
}

/* Whether a race is over except for cells or plans with noisy times. */
static int is_over_but_noisy(const struct sweep_session *c, const struct problem *h)
{
	int noisy = h->noisy_plans;
	for (int i = 0; i < h->n; i++)
		noisy += h->noisy[i];
	return noisy && h->finished && !c->o->exhaustive;
}

/* The cells with noisy times of a finished race. */
static void pick_noisy(const struct problem *h, int *place, struct entries *e)
{
	for (int i = 0; i < h->n; i++)
		if (h->noisy[i]) {
			place[e->n++] = i;
			e->again |= h->stored[i];
		}
}

/* The entries of a problem in the current stage; e->n is 0 if none. */
static void pick(const struct sweep_session *c, const struct problem *h, const struct marks *m,
		 int *place, struct entries *e)
{
	*e = (struct entries){ .place = place };
	switch (c->stage) {
	case STAGE_RACE:
		if (!due_in_race(c, h))
			break;
		e->with_plans = wants_plans(h);
		if (is_over_but_noisy(c, h)) {
			pick_noisy(h, place, e);
			break;
		}
		e->n = problems_shortlist(&c->problems, h, races_everyone(c), place);
		e->again = was_surveyed(h);
		break;
	case STAGE_COMPLETE: pick_complete(c, h, m->of[h->phase], place, e); break;
	case STAGE_COLD:
		e->n = due_in_cold(c, h) ? pick_cold(c, h, m->of[h->phase], place) : 0;
		e->again = 1;
		break;
	case STAGE_AUDIT:
		e->n =
		    stages_audits(c, h) && h->finished && h->best >= 0 ? pick_audit(h, place) : 0;
		e->again = 1;
		break;
	default: break;
	}
}

/* ---- running ------------------------------------------------------------------------ */

/* A race's weight in sharing out the time. A sample is assumed as long as the protocol asks, or as
 * a call slightly above the roofline. The square root gives heavy races more time than light ones,
 * but lets more light ones finish when time is short. */
static double work_of(const struct sweep_session *c, const struct problem *h,
		      const struct entries *e)
{
	const double us = fmax(c->protocol.sample_us, 2 * problems_roofline(&c->problems, h));
	const int contenders = e->n + (e->with_plans ? MAX_PLANS : 0);
	return sqrt(us * (10 + (e->fixed_rounds ? e->fixed_rounds : 3) * contenders));
}

static int is_asked(const struct sweep_session *c, const struct problem *h)
{
	return c->problems.scenarios[h->scenario].asked;
}

/* The number of races that are due, and the sums of their work: [1] for the scenarios that the user
 * named, [0] for the others. The first share all the time; the others share what they leave. */
static int left_in_stage(const struct sweep_session *c, const struct marks *m, int *place,
			 double work[2])
{
	struct entries e;
	int n = 0;
	work[0] = work[1] = 0;
	for (int i = 0; i < c->problems.n; i++) {
		const struct problem *h = &c->problems.v[i];
		pick(c, h, m, place, &e);
		if (e.n > 0 || e.with_plans)
			work[is_asked(c, h)] += work_of(c, h, &e), n++;
	}
	return n;
}

static int most_places(const struct sweep_session *c)
{
	int n = 0;
	for (int i = 0; i < c->problems.n; i++)
		n = c->problems.v[i].n > n ? c->problems.v[i].n : n;
	return n + 1;
}

/* Asks builders for the code of the next races, as known now. `next`: the first problem that was
 * not asked for yet. */
static void ask_ahead(struct sweep_session *c, const struct marks *m, int after, int *next)
{
	int *place = binaries_waiting(&c->binaries) < AHEAD
			 ? calloc((size_t)most_places(c), sizeof *place)
			 : NULL;
	struct entries e;
	for (*next = *next > after ? *next : after + 1;
	     place && *next < c->problems.n && binaries_waiting(&c->binaries) < AHEAD; ++*next) {
		pick(c, &c->problems.v[*next], m, place, &e);
		session_ask(c, &c->problems.v[*next], &e);
	}
	free(place);
}

/* Runs each race that is due, once. */
static enum race_end run_problems(struct sweep_session *c, const struct marks *m, int *place)
{
	enum race_end end = RACE_ENDED;
	struct entries e;
	double left_of[2];
	int last = -1, next = 0;
	c->stage_done = 0;
	c->stage_problems = left_in_stage(c, m, place, left_of);
	for (int i = 0; i < c->problems.n && end == RACE_ENDED; i++) {
		struct problem *h = &c->problems.v[i];
		pick(c, h, m, place, &e);
		if (e.n <= 0 && !e.with_plans)
			continue;
		const double work = work_of(c, h, &e);
		double *left = &left_of[is_asked(c, h)];
		const double seconds = session_share(c, fmin(1, work / fmax(*left, work)));
		if (seconds <= 0) {
			c->ran_out = 1;
			break;
		}
		*left -= work;
		h->noisy_plans = e.with_plans ? 0 : h->noisy_plans;
		session_ask(c, h, &e);
		ask_ahead(c, m, i, &next);
		end = session_race(c, h, &e, seconds);
		c->tally[c->stage].scenarios += h->scenario != last;
		last = h->scenario;
		if (end == RACE_ENDED && c->stage == STAGE_RACE) {
			h->finished = 1;
			h->planned = !h->noisy_plans;
		}
		end = session_skip(c, h, end);
		c->stage_done++;
	}
	return end;
}

/* Runs the stage, then races noisy cells again while time is left. */
static enum race_end run_stage(struct sweep_session *c, const struct marks *m, int *place)
{
	const long long *noisy = &c->tally[c->stage].noisy;
	long long before = *noisy;
	enum race_end end = run_problems(c, m, place);
	for (int k = 0; k < NOISY_RETRIES && end == RACE_ENDED && *noisy > before; k++) {
		if (!session_wait_quiet(c))
			break;
		before = *noisy;
		end = run_problems(c, m, place);
	}
	return end;
}

static int has_stage(const struct sweep_session *c, enum stage s)
{
	return c->survey ? s == STAGE_COMPLETE
			 : s == STAGE_RACE || (until[s] > 0 && !races_everyone(c));
}

enum race_end stages_run(struct sweep_session *c, enum stage from, enum stage to, int all)
{
	int *place = calloc((size_t)most_places(c), sizeof *place);
	enum race_end end = place ? RACE_ENDED : RACE_STOPPED;
	all |= c->survey || races_everyone(c);
	for (enum stage s = from; end == RACE_ENDED && s <= to; s++) {
		struct marks marks = { 0 };
		if (!has_stage(c, s))
			continue;
		c->stage = s;
		c->limit_s = c->o->budget_s * (all ? 1 : until[s]);
		end = marks_make(&marks, c) ? run_stage(c, &marks, place) : RACE_STOPPED;
		marks_free(&marks);
	}
	progress_end();
	free(place);
	return end;
}

int stages_left(struct sweep_session *c)
{
	int *place = calloc((size_t)most_places(c), sizeof *place), n = 0;
	double work[2];
	const enum stage stage = c->stage;
	struct marks marks = { 0 };
	if (place && marks_make(&marks, c))
		for (c->stage = STAGE_RACE; c->stage < STAGE_B; c->stage++)
			if (has_stage(c, c->stage))
				n += left_in_stage(c, &marks, place, work);
	c->stage = stage;
	marks_free(&marks);
	free(place);
	return n;
}
