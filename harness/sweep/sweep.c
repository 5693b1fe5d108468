/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - the command that fills a database: builds the problems, loads stored results, runs the
 * stages and prints a summary. Only a worker process opens the device. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- problems and stored results ------------------------------------------------- */

static int is_newest_device(const struct sweep_session *session)
{
	return provenance_same(session->store, &session->hello.info, &session->protocol);
}

/* If the newest results are of this device, they are loaded before a run row is inserted, so that a
 * sweep with nothing to do leaves the database untouched. */
static int load_results(struct sweep_session *session)
{
	if (session->o->again)
		return 1;
	session->problems.retry = session->o->retry;
	if ((!is_newest_device(session) && !session_begin_run(session)) ||
	    !problems_recall(&session->problems, session->store, session->hello.info.gpu,
			     session->protocol.name))
		return 0;
	problems_stale_first(&session->problems);
	session_trust(session);
	return 1;
}

struct weighed {
	const char *split;
	double work;
	int index;
};

static int by_work(const void *a, const void *b)
{
	const struct weighed *x = a, *y = b;
	const int splits = strcmp(x->split, y->split);
	if (splits || x->work != y->work)
		return splits ? splits : x->work < y->work ? -1 : 1;
	return x->index - y->index;
}

/* Few enough for the time of a smoke sweep, and enough to generate a header. */
enum { SMOKE_TRAINING = 6, SMOKE_HELD_OUT = 2 /* scenarios of a split */ };

int sweep_takes(const struct scenario_list *list, enum preset preset, char *take)
{
	struct weighed *v = malloc(((size_t)list->n + 1) * sizeof *v);
	if (!v) {
		complain("out of memory");
		return 0;
	}
	for (int i = 0; i < list->n; i++) {
		struct facts f;
		scenario_facts(&f, &list->v[i].shape, &list->v[i].batch->view);
		v[i] = (struct weighed){ list->v[i].split, f.kv_bytes * 20 + f.flops, i };
	}
	qsort(v, (size_t)list->n, sizeof *v, by_work);
	for (int i = 0, begin = 0; i < list->n; i++) {
		if (strcmp(v[i].split, v[begin].split) != 0)
			begin = i;
		const int most = split_is_held_out(v[i].split) ? SMOKE_HELD_OUT : SMOKE_TRAINING;
		take[v[i].index] =
		    preset != PRESET_SMOKE || list->v[v[i].index].asked || i - begin < most;
	}
	free(v);
	return 1;
}

static int add_problems(struct sweep_session *session, const struct scenario_list *list)
{
	const struct candidate_options options = { .device = &session->hello.info,
						   .preset = session->survey ? PRESET_FULL
									     : session->o->preset,
						   .kernels = session->o->kernels,
						   .phases = session->o->phases,
						   .seed = session->o->seed,
						   .keep = session->survey ? survey_keeps : NULL,
						   .keep_arg = session->survey };
	char *take = malloc((size_t)list->n + 1);
	int ok = take && sweep_takes(list, session->o->preset, take);
	if (!take)
		complain("out of memory");
	for (int i = session->o->shard; ok && i < list->n; i += session->o->shards)
		ok = !take[i] || problems_add(&session->problems, &session->binaries, i, &options);
	free(take);
	if (!ok)
		return 0;
	problems_spread(&session->problems);
	return session_alloc(session) &&
	       (!session->survey || survey_trust(session->survey, session));
}

static int label_scenarios(struct sweep_session *session)
{
	for (int i = 0; i < session->problems.n; i++)
		if (!store_scenario(session->store,
				    &session->problems.scenarios[session->problems.v[i].scenario]))
			return 0;
	return 1;
}

/* ---- a dry run -------------------------------------------------------------------- */

static void print_plan(struct sweep_session *session)
{
	static const char *const columns[] = { "model", "batch", "phase", "candidates", "stored" };
	struct table *t = table_new(session->o->format, columns, COUNT(columns));
	for (int i = 0; i < session->problems.n; i++) {
		const struct problem *problem = &session->problems.v[i];
		const struct scenario *s = &session->problems.scenarios[problem->scenario];
		int stored = 0;
		for (int k = 0; k < problem->n; k++)
			stored += problem->stored[k];
		table_text(t, s->model);
		table_text(t, s->batch_text);
		table_text(t, store_phase(problem->phase));
		table_number(t, problem->n, 0);
		table_number(t, stored, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	complain("%d scenario parts, %d races to run, %d binaries", session->problems.n,
		 stages_left(session), session->binaries.n);
}

/* Loads stored results read-only. A missing database is not created. */
static int load_readonly(struct sweep_session *session)
{
	if (access(session->db, F_OK))
		return 1;
	session->store = store_open(session->db, 1);
	return session->store && store_check(session->store) &&
	       (!is_newest_device(session) || load_results(session));
}

static int dry_run(struct sweep_session *session)
{
	const int ok = load_readonly(session);
	if (ok)
		print_plan(session);
	return ok ? EXIT_DONE : EXIT_USAGE;
}

static void fill_forecast(struct sweep_session *session, struct sweep_forecast *f)
{
	f->parts = session->problems.n;
	f->races = stages_left(session);
	for (int i = 0; i < session->binaries.n; i++) {
		const struct built *b = &session->binaries.v[i];
		f->binaries += !jit_has(b->kernel, b->flags, session->binaries.arch);
	}
	for (int i = 0; i < session->problems.n; i++)
		for (int k = 0; k < session->problems.v[i].n; k++)
			f->cells += !session->problems.v[i].stored[k];
}

/* ---- the sweep ---------------------------------------------------------------------- */

static void summary(struct sweep_session *session, enum race_end end)
{
	char failures[200] = "";
	long long failed = 0;
	size_t n = 0;
	for (int i = OUTCOME_OK + 1; i < OUTCOME_NOISY; i++) {
		failed += session->failed[i];
		if (session->failed[i] && n < sizeof failures)
			n += (size_t)snprintf(failures + n, sizeof failures - n, "%s%lld %s",
					      n ? ", " : " (", session->failed[i],
					      outcome_name((enum outcome)i));
	}
	const int noisy = session_noisy(session);
	complain("%lld measured, %lld failed%s%s, in %.0f s, of which %.0f s waiting for %d new "
		 "binaries: %s",
		 session->failed[OUTCOME_OK], failed, failures, n ? ")" : "",
		 session_seconds(session), session->binaries.seconds, session->binaries.compiled,
		 session->db);
	if (session->failed[OUTCOME_NOISY])
		complain("%lld times were too noisy to learn from, %d still are and are left out%s",
			 session->failed[OUTCOME_NOISY], noisy,
			 noisy ? "; the same command races them again" : "");
	const int left = end == RACE_ENDED ? stages_left(session) - session->skipped : 0;
	if (left > 0 && session->ran_out)
		complain("the budget of %.0f s left %d races undone; the same command goes on "
			 "with them",
			 session->o->budget_s, left);
	else if (left > 0 && !noisy)
		complain("%d races were added by the last results; the same command does them",
			 left);
}

static int measure_all(struct sweep_session *session)
{
	if (!session_start(session))
		return EXIT_CHECK;
	enum race_end end = stages_run(session, STAGE_RACE, STAGE_AUDIT, 0);
	/* An earlier stage may have lacked time that the later ones left. */
	if (end == RACE_ENDED && session->ran_out &&
	    session_seconds(session) < session->o->budget_s) {
		session->ran_out = 0;
		end = stages_run(session, STAGE_RACE, STAGE_AUDIT, 1);
	}
	int believed = 1;
	if (session->o->sum) {
		session_sum(session, session->o->sum);
	} else {
		believed = sweep_report(session);
		summary(session, end);
	}
	if (end == RACE_ENDED && session_noisy(session) && !session->failed[OUTCOME_OK]) {
		complain("all times are too noisy to learn from: the machine is not quiet");
		return EXIT_BUSY;
	}
	return end == RACE_ENDED && !believed ? EXIT_CHECK : session_exit_code(session, end);
}

static int run(struct sweep_session *session, struct survey *survey,
	       const struct scenario_list *list)
{
	session_make(session, list);
	if (session->o->survey && !survey_learn(survey, session))
		return EXIT_USAGE;
	if (session->o->survey)
		session->survey = survey;
	if (!add_problems(session, list))
		return EXIT_CHECK;
	if (!session->problems.n) {
		complain("no kernel%s runs %s of the %d scenarios on %s",
			 session->o->kernels ? " of --kernels" : "",
			 session->o->phases ? "a part in --phases" : "any", list->n,
			 session->hello.info.gpu);
		return EXIT_USAGE;
	}
	if (session->o->dry_run)
		return dry_run(session);
	session->store = store_open(session->db, 0);
	if (!session->store || !store_check(session->store) ||
	    !provenance_fits(session->store, session->db, &session->hello.info, &session->protocol))
		return EXIT_USAGE;
	if (!load_results(session))
		return EXIT_USAGE;
	if (!label_scenarios(session))
		return EXIT_CHECK;
	if (!stages_left(session)) {
		complain("nothing to do: all %d scenario parts are in %s", session->problems.n,
			 session->db);
		return EXIT_DONE;
	}
	return measure_all(session);
}

int sweep_foresee(const struct sweep_options *o, const struct hello *hello,
		  const struct scenario_list *list, struct sweep_forecast *f)
{
	struct sweep_session session = { .o = o, .hello = *hello };
	struct survey survey = { 0 };
	int code = EXIT_USAGE;
	session_make(&session, list);
	if (o->survey && survey_learn(&survey, &session))
		session.survey = &survey;
	if ((!o->survey || session.survey) && add_problems(&session, list) &&
	    load_readonly(&session)) {
		fill_forecast(&session, f);
		code = EXIT_DONE;
	}
	session_free(&session);
	survey_free(&survey);
	return code;
}

int sweep(const struct sweep_options *o, const struct hello *hello,
	  const struct scenario_list *list)
{
	struct sweep_session session = { .o = o, .hello = *hello };
	struct survey survey = { 0 };
	const enum spent before = spent_on(SPENT_PREPARING);
	const int code = run(&session, &survey, list);
	session_free(&session);
	survey_free(&survey);
	spent_on(before);
	return interrupted ? EXIT_INTERRUPTED : session.refused ? session.refused : code;
}
