/* SPDX-License-Identifier: Apache-2.0 */
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

struct list {
	struct sweep_session session;
	const struct contender *asked; /* maybe several times the same */
	int num_asked;
	struct contender *v; /* each once; sorted by race */
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

/* Why a part cannot run there; NULL: it can. */
static const char *enter(struct sweep_session *session, struct contender *c, int part)
{
	const struct candidate candidate = { .choice = *contender_choice(c, part),
					     .origin = FROM_ALL };
	const struct choice *choice = &candidate.choice;
	const struct scenario *s = &session->problems.scenarios[c->scenario];
	c->problem[part] = problem_for(session, c->scenario, contender_phase(c, part));
	if (c->problem[part] < 0)
		return "no sequence of the batch is in this phase";
	struct problem *h = &session->problems.v[c->problem[part]];
	const char *why = config_is_formula(&choice->config, choice->kernel->space)
			      ? "a formula stands for another choice in each batch"
			      : choice->kernel->space->why_illegal(&choice->config, &s->shape,
								   &h->part, &session->hello.info);
	if (!why)
		why = scales_refused(choice->kernel, scenario_scales(s));
	if (why)
		return why;
	const int built_choice =
	    problems_add_choice(&session->problems, &session->binaries, &candidate, &s->shape);
	c->place[part] = built_choice < 0 ? -1 : problem_add_candidate(h, built_choice);
	return c->place[part] < 0 ? "out of memory" : NULL;
}

/* The library races where plans of the batch do, or with the only phase. */
static const char *enter_library(struct sweep_session *session, struct contender *c)
{
	const int prefill = problem_for(session, c->scenario, PHASE_PREFILL);
	const int decode = problem_for(session, c->scenario, PHASE_DECODE);
	c->problem[0] = prefill >= 0 ? prefill : decode;
	c->phase = prefill < 0 ? PHASE_DECODE : decode < 0 ? PHASE_PREFILL : PHASE_ALL;
	return c->problem[0] < 0 ? "it cannot run here" : NULL;
}

static int add(struct list *l, const struct contender *asked)
{
	struct contender *c = &l->v[l->n];
	*c = *asked;
	c->problem[0] = c->problem[1] = -1;
	c->index = l->n;
	c->wanted = 1;
	c->passed = contender_parts(c) != 1;
	c->phase = c->passed ? PHASE_ALL : c->phase;
	const char *why = c->is_library ? enter_library(&l->session, c) : NULL;
	for (int part = 0; !why && part < contender_parts(c); part++)
		why = enter(&l->session, c, part);
	if (why) {
		const struct scenario *s = &l->session.problems.scenarios[c->scenario];
		char text[MAX_CHOICE_TEXT] = "the library";
		if (!c->is_library)
			choice_text(text, sizeof text, &c->choice);
		complain("%s %s: %s: %s", s->model, s->batch_text, text, why);
		return 0;
	}
	int repeats = 0;
	for (int i = 0; i < l->n; i++)
		repeats |= contender_same(&l->v[i], c);
	l->n += !repeats;
	return 1;
}

/* Sorts by race. A race has the requests of one scenario and phase. Plans race with the choices that
 * run the whole batch in one launch, and come behind these. */
static int by_race(const void *a, const void *b)
{
	static const int rank[] = { [PHASE_PREFILL] = 0, [PHASE_DECODE] = 1, [PHASE_ALL] = 2 };
	const struct contender *x = a, *y = b;
	const int parts = (contender_parts(x) != 1) - (contender_parts(y) != 1);
	return x->scenario != y->scenario ? x->scenario - y->scenario
	       : x->phase != y->phase     ? rank[x->phase] - rank[y->phase]
	       : parts                    ? parts
					  : x->index - y->index;
}

/* ---- stored results ------------------------------------------------------------------ */

static int is_there(struct sweep_session *session, const struct contender *c)
{
	const struct scenario *s = &session->problems.scenarios[c->scenario];
	const char *gpu = session->hello.info.gpu;
	char text[MAX_PLAN_TEXT];
	if (session->o->again || c->again || c->policy)
		return 0;
	contender_text(text, c);
	return c->is_plan ? store_has_plan(session->store, gpu, s, text)
			  : store_has(session->store, gpu, s, c->phase, text);
}

static int drop_known(struct list *l)
{
	int kept = 0;
	for (int i = 0; i < l->n; i++)
		if (!is_there(&l->session, &l->v[i]))
			l->v[kept++] = l->v[i];
	l->n = kept;
	return kept;
}

/* Stores a row for each policy that asked for the contender. */
static int take(void *arg, const struct contender *contender, const char *plan,
		const struct measurement *m)
{
	const struct list *l = arg;
	int ok = 1;
	for (int i = 0; i < l->num_asked && ok; i++) {
		const struct contender *asked = &l->asked[i];
		const struct scenario *s = &l->session.problems.scenarios[asked->scenario];
		if (!contender_same(asked, contender))
			continue;
		if (!m->samples)
			complain("%s %.80s: %s: not measured: %s", s->model, s->batch_text,
				 asked->policy, m->detail);
		ok = store_bench(l->session.store, l->session.run, s, asked->policy, plan,
				 l->session.hello.info.backend, m);
	}
	return ok;
}

/* ---- races -------------------------------------------------------------------------- */

/* Policies are compared with one another, so they race again together. */
static int races_again(const struct list *l, const struct contender *c)
{
	int again = c->noisy;
	for (int i = 0; c->policy && !again && i < l->n; i++)
		again = l->v[i].scenario == c->scenario && l->v[i].noisy;
	return again;
}

/* Keeps only requests whose time is too noisy. How many. */
static int keep_noisy(struct list *l)
{
	int kept = 0;
	for (int i = 0; i < l->n; i++)
		l->v[i].wanted = (char)races_again(l, &l->v[i]);
	for (int i = 0; i < l->n; i++)
		if (l->v[i].wanted)
			l->v[kept++] = l->v[i];
	l->n = kept;
	return kept;
}

static int end_of_race(const struct list *l, int begin)
{
	int end = begin;
	while (end < l->n && l->v[end].scenario == l->v[begin].scenario &&
	       l->v[end].phase == l->v[begin].phase)
		end++;
	return end;
}

static enum race_end race_all(struct list *l)
{
	struct sweep_session *session = &l->session;
	enum race_end end = RACE_ENDED;
	session_ask(session, &(struct order){ .v = l->v, .n = l->n });
	session->stage_done = session->stage_problems = 0;
	for (int i = 0; i < l->n; i = end_of_race(l, i))
		session->stage_problems++;
	for (int i = 0, next; i < l->n && end == RACE_ENDED; i = next, session->stage_done++) {
		const int left = session->stage_problems - session->stage_done;
		struct order order = { .v = l->v + i,
				       .fixed_rounds = WISH_ROUNDS,
				       .seconds = session_share(session, 1.0 / left) };
		next = end_of_race(l, i);
		order.n = next - i;
		if (order.seconds <= 0) {
			session->ran_out = 1;
			break;
		}
		end = session_skip(session, order.v->scenario, session_race(session, &order));
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
	if (!session_start(session))
		return EXIT_CHECK;
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
	int noisy = 0;
	for (int i = 0; i < l->n; i++)
		noisy += l->v[i].noisy;
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
		 const struct scenario_list *scenarios, const struct contender *asked, int n,
		 const char *stage)
{
	struct list l = { .session = { .o = o, .hello = *hello }, .asked = asked, .num_asked = n };
	int code = EXIT_USAGE, ok = 1;
	const enum spent before = spent_on(SPENT_PREPARING);
	session_make(&l.session, scenarios);
	l.session.stage = stage_named(stage);
	l.session.limit_s = o->budget_s;
	if (n && asked->policy) {
		l.session.take = take;
		l.session.take_arg = &l;
	}
	l.v = calloc((size_t)n + 1, sizeof *l.v);
	for (int i = 0; l.v && i < n; i++)
		if (asked[i].scenario % o->shards == o->shard)
			ok &= add(&l, &asked[i]) || asked[i].policy;
	if (ok && l.v) {
		qsort(l.v, (size_t)l.n, sizeof *l.v, by_race);
		l.session.store = store_open(l.session.db, 0);
	}
	if (l.session.store)
		store_stage(l.session.store, stage);
	if (l.session.store && store_check(l.session.store) &&
	    (provenance_same(l.session.store, &hello->info, &l.session.protocol) ||
	     session_begin_run(&l.session)))
		code = fulfil(&l);
	free(l.v);
	session_free(&l.session);
	spent_on(before);
	return interrupted ? EXIT_INTERRUPTED : l.session.refused ? l.session.refused : code;
}
