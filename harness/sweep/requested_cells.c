/* requested_cells.c - measures exactly the requested cells, e.g. a second, independent pass over
 * what heuristics pick, or new points near thresholds. They are a run of their own, without
 * elimination: all requests of a problem get the same rounds. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdlib.h>
#include <string.h>

enum { WISH_ROUNDS = 9 };

/* Where a request runs: in one place or, for a plan, in two. */
struct grant {
	const struct wish *wish;
	int problem[2], place[2]; /* problem[1]: -1 unless a plan */
	int is_mixed;             /* races with plans, in one launch of the whole batch */
	int repeats;              /* an earlier grant is the same contender */
};

struct list {
	struct sweep_session session;
	struct grant *grant;
	int n;
};

/* ---- from requests to problems -------------------------------------------------------- */

static int problem_for(struct sweep_session *session, int scenario, enum phase phase)
{
	struct problem *problem = problems_find(&session->problems, scenario, phase);
	if (!problem)
		problem =
		    problems_add_empty(&session->problems, scenario, phase, &session->hello.info);
	return problem ? (int)(problem - session->problems.v) : -1;
}

/* Why the choice cannot run there; NULL: it can. */
static const char *enter(struct sweep_session *session, const struct wish *w,
			 const struct choice *choice, enum phase phase, int *problem, int *place)
{
	const struct candidate candidate = { .choice = *choice, .origin = FROM_ALL };
	const attune_shape *shape = &session->problems.scenarios[w->scenario].shape;
	*problem = problem_for(session, w->scenario, phase);
	if (*problem < 0)
		return "no sequence of the batch is in this phase";
	struct problem *h = &session->problems.v[*problem];
	const char *why = config_is_formula(&choice->config, choice->kernel->space)
			      ? "a formula stands for another choice in each batch"
			      : choice->kernel->space->why_illegal(&choice->config, shape, &h->part,
								   &session->hello.info);
	if (!why)
		why = scales_refused(choice->kernel,
				     scenario_scales(&session->problems.scenarios[w->scenario]));
	if (why)
		return why;
	const int built_choice =
	    problems_add_choice(&session->problems, &session->binaries, &candidate, shape);
	*place = built_choice < 0 ? -1 : problem_add_candidate(h, built_choice);
	return *place < 0 ? "out of memory" : NULL;
}

/* The library races where plans of the batch do. */
static const char *enter_library(struct sweep_session *session, struct grant *g)
{
	const int prefill = problem_for(session, g->wish->scenario, PHASE_PREFILL);
	const int decode = problem_for(session, g->wish->scenario, PHASE_DECODE);
	g->problem[0] = prefill >= 0 ? prefill : decode;
	g->is_mixed = prefill >= 0 && decode >= 0;
	return g->problem[0] < 0 ? "it cannot run here" : NULL;
}

static const char *enter_choices(struct sweep_session *session, struct grant *g)
{
	const struct wish *w = g->wish;
	const char *why = enter(session, w, &w->choice, w->is_plan ? PHASE_PREFILL : w->phase,
				&g->problem[0], &g->place[0]);
	if (!why && w->is_plan)
		why = enter(session, w, &w->decode, PHASE_DECODE, &g->problem[1], &g->place[1]);
	g->is_mixed = w->is_plan;
	return why;
}

static struct contender contender_of(const struct grant *g)
{
	return (struct contender){ .problem = { g->problem[0], g->problem[1] },
				   .place = { g->place[0], g->place[1] },
				   .passed = 1,
				   .how = g->problem[1] >= 0 ? g->wish->how : ATTUNE_SERIAL,
				   .is_library = (char)g->wish->is_library,
				   .bounds = g->wish->bounds };
}

static int same_grant(const struct grant *a, const struct grant *b)
{
	const struct contender x = contender_of(a), y = contender_of(b);
	return contender_same(&x, &y);
}

static int grant(struct list *l, const struct wish *w)
{
	struct grant *g = &l->grant[l->n];
	*g = (struct grant){ .wish = w, .problem = { -1, -1 } };
	const char *why =
	    w->is_library ? enter_library(&l->session, g) : enter_choices(&l->session, g);
	if (why) {
		const struct scenario *s = &l->session.problems.scenarios[w->scenario];
		char text[MAX_CHOICE_TEXT] = "the library";
		if (!w->is_library)
			choice_text(text, sizeof text, &w->choice);
		complain("%s %s: %s: %s", s->model, s->batch_text, text, why);
		return 0;
	}
	for (int i = 0; i < l->n; i++)
		g->repeats |= same_grant(&l->grant[i], g);
	l->n += !g->repeats || w->policy;
	return 1;
}

/* ---- stored results ------------------------------------------------------------------ */

static int is_there(struct sweep_session *session, const struct grant *g)
{
	const struct problem *problem = &session->problems.v[g->problem[0]];
	const struct scenario *s = &session->problems.scenarios[g->wish->scenario];
	const struct contender contender = contender_of(g);
	char text[MAX_PLAN_TEXT];
	if (session->o->again || g->wish->again || g->wish->policy)
		return 0;
	if (g->problem[1] >= 0) {
		plan_text(text, &session->problems, &contender);
		return store_has_plan(session->store, session->hello.info.gpu, s, text);
	}
	choice_text(text, sizeof text,
		    &session->problems.built_choice[problem->built_choice[g->place[0]]].choice);
	return store_has(session->store, session->hello.info.gpu, s, problem->phase, text);
}

static int drop_known(struct list *l)
{
	int kept = 0;
	for (int i = 0; i < l->n; i++)
		if (!is_there(&l->session, &l->grant[i]))
			l->grant[kept++] = l->grant[i];
	l->n = kept;
	return kept;
}

/* Stores a row for each policy that asked for the contender. */
static int take(void *arg, const struct contender *contender, const char *plan,
		const struct measurement *m)
{
	const struct list *l = arg;
	int ok = 1;
	for (int i = 0; i < l->n && ok; i++) {
		const struct wish *w = l->grant[i].wish;
		const struct scenario *sc = &l->session.problems.scenarios[w->scenario];
		const struct contender mine = contender_of(&l->grant[i]);
		if (!contender_same(&mine, contender))
			continue;
		if (!m->samples)
			complain("%s %.80s: %s: not measured: %s", sc->model, sc->batch_text,
				 w->policy, m->detail);
		ok = store_bench(l->session.store, l->session.run, sc, w->policy, plan,
				 l->session.hello.info.backend, m);
	}
	return ok;
}

/* ---- races -------------------------------------------------------------------------- */

/* The problem in which a plan races: the whole batch's, whose choices compete with the plan. If
 * no choice of that is requested, the prefill part's, where plans race alone. */
static int host_of(struct list *l, const struct grant *g)
{
	const struct problem *whole =
	    problems_find(&l->session.problems, g->wish->scenario, PHASE_ALL);
	return whole ? (int)(whole - l->session.problems.v) : g->problem[0];
}

/* One race of a problem's requests, or of the plans that it hosts. */
static enum race_end race(struct list *l, int problem, int plans, double seconds)
{
	struct sweep_session *session = &l->session;
	struct problem *h = &session->problems.v[problem];
	const int with_plans = plans || h->phase == PHASE_ALL;
	int *place = calloc((size_t)l->n + 1, sizeof *place), n = 0, num_plans = 0;
	struct contender *plan = calloc((size_t)l->n + 1, sizeof *plan);
	enum race_end end = place && plan ? RACE_ENDED : RACE_STOPPED;
	for (int i = 0; end == RACE_ENDED && i < l->n; i++) {
		const struct grant *g = &l->grant[i];
		if (g->repeats || (g->is_mixed ? !with_plans || host_of(l, g) != problem
					       : plans || g->problem[0] != problem))
			continue;
		if (g->is_mixed || g->wish->is_library)
			plan[num_plans++] = contender_of(g);
		else
			place[n++] = g->place[0];
	}
	const struct entries e = { .place = place,
				   .n = n,
				   .again = 1,
				   .only_these = 1,
				   .fixed_rounds = WISH_ROUNDS,
				   .with_plans = num_plans > 0,
				   .plan = plan,
				   .num_plans = num_plans };
	h->noisy_plans = num_plans ? 0 : h->noisy_plans;
	if (n || num_plans)
		end = session_skip(session, h, session_race(session, h, &e, seconds));
	free(place);
	free(plan);
	return end;
}

/* Lets builders begin with all code, in the order of the races. */
static void ask_all(struct list *l)
{
	for (int i = 0; i < l->n; i++)
		for (int part = 0;
		     !l->grant[i].wish->is_library && part < 2 && l->grant[i].problem[part] >= 0;
		     part++) {
			const struct entries e = { .place = &l->grant[i].place[part],
						   .n = 1,
						   .again = 1 };
			session_ask(&l->session, &l->session.problems.v[l->grant[i].problem[part]],
				    &e);
		}
}

static int is_noisy(const struct list *l, const struct grant *g)
{
	const struct contender contender = contender_of(g);
	return g->problem[1] < 0 && !g->wish->is_library
		   ? l->session.problems.v[g->problem[0]].noisy[g->place[0]]
		   : session_is_noisy(&l->session, &contender);
}

/* Policies are compared with one another, so they race again together. */
static int races_again(const struct list *l, const struct grant *g)
{
	int again = is_noisy(l, g);
	for (int i = 0; g->wish->policy && !again && i < l->n; i++)
		again =
		    l->grant[i].wish->scenario == g->wish->scenario && is_noisy(l, &l->grant[i]);
	return again;
}

/* Keeps only requests whose time is too noisy. How many. */
static int keep_noisy(struct list *l)
{
	int kept = 0;
	char *again = calloc((size_t)l->n + 1, 1);
	for (int i = 0; again && i < l->n; i++)
		again[i] = (char)races_again(l, &l->grant[i]);
	for (int i = 0; again && i < l->n; i++)
		if (again[i])
			l->grant[kept++] = l->grant[i];
	free(again);
	l->n = kept;
	return kept;
}

static enum race_end race_all(struct list *l)
{
	struct sweep_session *session = &l->session;
	enum race_end end = RACE_ENDED;
	ask_all(l);
	session->stage_done = 0;
	session->stage_problems = session->problems.n;
	for (int i = 0; i < session->problems.n && end == RACE_ENDED; i++, session->stage_done++) {
		const double seconds = session_share(session, 1.0 / (session->problems.n - i));
		if (seconds <= 0)
			break;
		end = race(l, i, 0, seconds);
		if (end == RACE_ENDED && session->problems.v[i].phase == PHASE_PREFILL)
			end = race(l, i, 1, seconds);
	}
	progress_end();
	return end;
}

static enum stage stage_named(const char *name)
{
	enum stage s = NUM_STAGES - 1;
	while (s > STAGE_NONE && strcmp(stage_names[s], name))
		s--;
	return s;
}

/* Choices that pass A found right skip the corner batches. Nothing else of pass A counts here. */
static int load_results(struct sweep_session *session)
{
	store_stage(session->store, stage_names[STAGE_RACE]);
	const int ok = problems_recall(&session->problems, session->store, session->hello.info.gpu,
				       session->protocol.name);
	session_trust(session);
	for (int i = 0; i < session->problems.n; i++) {
		struct problem *problem = &session->problems.v[i];
		memset(problem->stored, 0, (size_t)problem->n);
		memset(problem->noisy, 0, (size_t)problem->n);
		problem->noisy_plans = 0;
	}
	store_stage(session->store, stage_names[session->stage]);
	return ok;
}

static int fulfil(struct list *l)
{
	struct sweep_session *session = &l->session;
	const int wished = l->n;
	if (!drop_known(l)) {
		if (!session->o->sum)
			complain("nothing to do: all %d are in %s", wished, session->db);
		return EXIT_DONE;
	}
	if (!session_alloc(session))
		return EXIT_CHECK;
	if (!load_results(session))
		return EXIT_USAGE;
	if (!session_begin_run(session))
		return EXIT_CHECK;
	if (!session_worker(session))
		return EXIT_CHECK;
	session->began = budget_now();
	session->binaries.until = session->o->wall ? session->began + session->o->budget_s : 0;
	const int asked = l->n;
	enum race_end end = race_all(l);
	for (int k = 0; k < NOISY_RETRIES && end == RACE_ENDED && keep_noisy(l); k++) {
		if (!session_wait_quiet(session))
			break;
		end = race_all(l);
	}
	if (session->o->sum) {
		session_sum(session, session->o->sum);
		return session_exit_code(session, end);
	}
	const long long missing = asked - session->failed[OUTCOME_OK];
	const int noisy = session_noisy(session);
	complain("%lld of %d measured (%d were stored), %lld A/A pairs, in %.0f s: %s",
		 session->failed[OUTCOME_OK], asked, wished - asked,
		 session->tally[session->stage].controls, session_seconds(session), session->db);
	if (noisy)
		complain(
		    "too noisy to compare, and left out: %d; the same command races them again",
		    noisy);
	if (missing > 0 && end == RACE_ENDED && session_seconds(session) >= session->limit_s)
		complain("the budget of %.0f s is spent; the same command goes on",
			 session->o->budget_s);
	return session_exit_code(session, end);
}

int sweep_wishes(const struct sweep_options *o, const struct hello *hello,
		 const struct scenario_list *scenarios, const struct wish *wish, int n,
		 const char *stage)
{
	struct list l = { .session = { .o = o, .hello = *hello } };
	int code = EXIT_USAGE, ok = 1;
	const enum spent before = spent_on(SPENT_PREPARING);
	session_make(&l.session, scenarios);
	l.session.stage = stage_named(stage);
	l.session.limit_s = o->budget_s;
	if (n && wish->policy) {
		l.session.take = take;
		l.session.take_arg = &l;
	}
	l.grant = calloc((size_t)n + 1, sizeof *l.grant);
	for (int i = 0; l.grant && i < n; i++)
		if (wish[i].scenario % o->shards == o->shard)
			ok &= grant(&l, &wish[i]) || wish[i].policy;
	if (ok && l.grant)
		l.session.store = store_open(l.session.db, 0);
	if (l.session.store)
		store_stage(l.session.store, stage);
	if (l.session.store && store_check(l.session.store) &&
	    (provenance_same(l.session.store, &hello->info, &l.session.protocol) ||
	     session_begin_run(&l.session)))
		code = fulfil(&l);
	free(l.grant);
	session_free(&l.session);
	spent_on(before);
	return interrupted ? EXIT_INTERRUPTED : l.session.refused ? l.session.refused : code;
}
