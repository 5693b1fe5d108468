/* stages.c - what is raced when. Each stage takes what the database does not have yet, so
 * that one that was cut short goes on where it was:
 *
 *   race      every scenario and phase: who promises something runs, in rounds, and the
 *             slower ones drop out
 *   complete  the portfolio of each phase on all its scenarios, fixed rounds: a tree may
 *             come to name any of it anywhere
 *   cold      the first scenarios, which had no neighbours to learn from, and those whose
 *             neighbours disagree, against what is known in the end
 *   audit     all legal choices on a few scenarios: what did racing miss there?
 *
 * A survey runs the stage complete alone, on problems that were never raced.
 *
 * A stage may use the budget up to its share and what those before it have left. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/builders.h"
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
	COLD_SHARE = 10 /* one in so many scenarios, the first ones */,
	AUDIT_ODDS = 25,
	AUDIT_LEAST = 10 /* scenarios; of fewer none is audited */,
	AHEAD = 128 /* binaries that wait for builders, at least, while there are as many */
};
static const double until[NUM_STAGES] = {
	[STAGE_RACE] = 0.7, [STAGE_COMPLETE] = 0.88, [STAGE_COLD] = 0.94, [STAGE_AUDIT] = 1
};
static const double in_question = 1.03 /* of the best: raced again when it matters */;

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

/* ---- who runs in which stage ---------------------------------------------------- */

static int wants_plans(const struct sweep_session *c, const struct problem *h)
{
	return h->phase == PHASE_ALL && !h->planned && !c->runner.is_simulated;
}

/* The few rounds of a survey are no race: that is run as if they were not there. */
static int was_surveyed(const struct problem *h)
{
	return h->n && h->stored[0] && h->stage[0] == STAGE_COMPLETE;
}

static int due_in_race(const struct sweep_session *c, const struct problem *h)
{
	int unknown = 0;
	for (int i = 0; i < h->n; i++)
		unknown += h->noisy[i] || (c->o->exhaustive && !h->stored[i]);
	return !h->finished || unknown || wants_plans(c, h);
}

static int holes(const struct problem *h, const int *place, int n)
{
	int missing = 0;
	for (int i = 0; i < n; i++)
		missing += !h->stored[place[i]];
	return missing;
}

/* The default choices and baselines of a part are measured with its portfolio. */
static int pick_survey(const struct sweep_session *c, const struct problem *h, const char *family,
		       int *place)
{
	int n = problems_meant(&c->problems, h, family, place);
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
		e->n = h->finished ? problems_meant(&c->problems, h, family, place) : 0;
	if (!holes(h, place, e->n))
		e->n = 0;
}

/* Scenarios are in the order of the race. */
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

/* Against what is known in the end: the portfolio, what neighbours promise now, and who
 * came close; not who was clearly behind. */
static int pick_cold(const struct sweep_session *c, const struct problem *h, const char *family,
		     int *place)
{
	char *in = calloc((size_t)h->n + 1, 1);
	int n = in ? problems_meant(&c->problems, h, family, place) : 0, kept = 0;
	for (int i = 0; i < n; i++)
		in[place[i]] = 1;
	n = in ? problems_select(&c->problems, h, 0, place) : 0;
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

/* A race that is over, but for cells or plans whose time is not data. */
static int is_over_but_noisy(const struct sweep_session *c, const struct problem *h)
{
	int noisy = h->noisy_plans;
	for (int i = 0; i < h->n; i++)
		noisy += h->noisy[i];
	return noisy && h->finished && !c->o->exhaustive;
}

/* Of a race that is over, the cells whose time is not data. */
static void pick_noisy(const struct problem *h, int *place, struct entries *e)
{
	for (int i = 0; i < h->n; i++)
		if (h->noisy[i]) {
			place[e->n++] = i;
			e->again |= h->stored[i];
		}
}

/* Entries of a problem in the stage under way; e->n 0: none. */
static void pick(const struct sweep_session *c, const struct problem *h, const struct marks *m,
		 int *place, struct entries *e)
{
	*e = (struct entries){ .place = place };
	switch (c->stage) {
	case STAGE_RACE:
		if (!due_in_race(c, h))
			break;
		e->with_plans = wants_plans(c, h);
		if (is_over_but_noisy(c, h)) {
			pick_noisy(h, place, e);
			break;
		}
		e->n = problems_select(&c->problems, h, races_everyone(c), place);
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

/* What a race may take, in no unit. Samples are as long as the protocol asks, or as a call
 * that is not much above the roofline. The root: heavy races get more than light ones, but
 * where time is short more light ones come to their end. */
static double work_of(const struct sweep_session *c, const struct problem *h,
		      const struct entries *e)
{
	const double us = fmax(c->protocol.sample_us, 2 * problems_roofline(&c->problems, h));
	const int contenders = e->n + (e->with_plans ? MAX_PLANS : 0);
	return sqrt(us * (10 + (e->fixed_rounds ? e->fixed_rounds : 3) * contenders));
}

/* Races that are due, and their work. */
static int left_in_stage(const struct sweep_session *c, const struct marks *m, int *place,
			 double *work)
{
	struct entries e;
	int n = 0;
	*work = 0;
	for (int i = 0; i < c->problems.n; i++) {
		pick(c, &c->problems.v[i], m, place, &e);
		if (e.n > 0 || e.with_plans)
			*work += work_of(c, &c->problems.v[i], &e), n++;
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

/* Builders begin with what the next races need, as far as is known now. `next`: the first problem
 * that was not looked at yet. */
static void ask_ahead(struct sweep_session *c, const struct marks *m, int after, int *next)
{
	int *place = binaries_waiting(&c->binaries) < AHEAD && !c->runner.is_simulated
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

/* All that is due, once. */
static enum race_end run_problems(struct sweep_session *c, const struct marks *m, int *place)
{
	enum race_end end = RACE_ENDED;
	struct entries e;
	double left;
	int last = -1, next = 0;
	c->stage_done = 0;
	c->stage_problems = left_in_stage(c, m, place, &left);
	for (int i = 0; i < c->problems.n && end == RACE_ENDED; i++) {
		struct problem *h = &c->problems.v[i];
		pick(c, h, m, place, &e);
		if (e.n <= 0 && !e.with_plans)
			continue;
		const double work = work_of(c, h, &e);
		const double seconds = session_share(c, fmin(1, work / fmax(left, work)));
		if (seconds <= 0) {
			c->ran_out = 1;
			break;
		}
		left -= work;
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

/* Noisy cells once more in the end, as long as there is time. */
static enum race_end run_stage(struct sweep_session *c, const struct marks *m, int *place)
{
	const long long *noisy = &c->tally[c->stage].noisy;
	long long before = *noisy;
	enum race_end end = run_problems(c, m, place);
	for (int k = 0; k < NOISY_RETRIES && end == RACE_ENDED && *noisy > before; k++) {
		if (!session_quiet_again(c))
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

enum race_end stages_run(struct sweep_session *c, enum stage from, enum stage to)
{
	int *place = calloc((size_t)most_places(c), sizeof *place);
	enum race_end end = place ? RACE_ENDED : RACE_STOPPED;
	for (enum stage s = from; end == RACE_ENDED && s <= to; s++) {
		struct marks marks = { 0 };
		if (!has_stage(c, s))
			continue;
		c->stage = s;
		c->limit_s = c->o->budget_s * (c->survey || races_everyone(c) ? 1 : until[s]);
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
	double work;
	const enum stage stage = c->stage;
	struct marks marks = { 0 };
	if (place && marks_make(&marks, c))
		for (c->stage = STAGE_RACE; c->stage < STAGE_B; c->stage++)
			if (has_stage(c, c->stage))
				n += left_in_stage(c, &marks, place, &work);
	c->stage = stage;
	marks_free(&marks);
	free(place);
	return n;
}
