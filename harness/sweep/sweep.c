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
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- problems and stored results ------------------------------------------------- */

static int is_newest_device(const struct sweep_session *c)
{
	return provenance_same(c->store, &c->hello.info, &c->protocol);
}

/* If the newest results are of this device, they are loaded before a run row is inserted, so that a
 * sweep with nothing to do leaves the database untouched. */
static int load_results(struct sweep_session *c)
{
	if (c->o->again)
		return 1;
	c->problems.retry = c->o->retry;
	if ((!is_newest_device(c) && !session_begin_run(c)) ||
	    !problems_recall(&c->problems, c->store, c->hello.info.gpu, c->protocol.name))
		return 0;
	problems_stale_first(&c->problems);
	session_trust(c);
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

/* A smoke sweep takes the 6 lightest scenarios of each training split and the 2 lightest of each
 * held-out split: few enough for its time, and enough to generate a header. Drops the others from
 * `take`, which has a flag for each scenario. Those that the user named stay. */
static int keep_lightest(const struct scenario_list *list, char *take)
{
	struct weighed *v = malloc(((size_t)list->n + 1) * sizeof *v);
	if (!v)
		return 0;
	for (int i = 0; i < list->n; i++) {
		struct facts f;
		scenario_facts(&f, &list->v[i].shape, &list->v[i].batch->view);
		v[i] = (struct weighed){ list->v[i].split, f.kv_bytes * 20 + f.flops, i };
	}
	qsort(v, (size_t)list->n, sizeof *v, by_work);
	for (int i = 0, begin = 0; i < list->n; i++) {
		if (strcmp(v[i].split, v[begin].split) != 0)
			begin = i;
		take[v[i].index] = list->v[v[i].index].asked ||
				   i - begin < (split_is_held_out(v[i].split) ? 2 : 6);
	}
	free(v);
	return 1;
}

static int add_problems(struct sweep_session *c, const struct scenario_list *list)
{
	const struct candidate_options options = { .device = &c->hello.info,
						   .preset = c->survey ? PRESET_FULL : c->o->preset,
						   .kernels = c->o->kernels,
						   .phases = c->o->phases,
						   .seed = c->o->seed,
						   .keep = c->survey ? survey_keeps : NULL,
						   .keep_arg = c->survey };
	char *take = malloc((size_t)list->n + 1);
	int ok = take != NULL;
	if (ok)
		memset(take, 1, (size_t)list->n + 1);
	if (ok && c->o->preset == PRESET_SMOKE)
		ok = keep_lightest(list, take);
	if (!ok)
		complain("out of memory");
	for (int i = c->o->shard; ok && i < list->n; i += c->o->shards)
		ok = !take[i] || problems_add(&c->problems, &c->binaries, i, &options);
	free(take);
	if (!ok)
		return 0;
	problems_spread(&c->problems);
	return session_alloc(c) && (!c->survey || survey_trust(c->survey, c));
}

static int label_scenarios(struct sweep_session *c)
{
	for (int i = 0; i < c->problems.n; i++)
		if (!store_scenario(c->store, &c->problems.scenarios[c->problems.v[i].scenario]))
			return 0;
	return 1;
}

/* ---- a dry run -------------------------------------------------------------------- */

static void print_plan(struct sweep_session *c)
{
	static const char *const columns[] = { "model", "batch", "phase", "candidates", "stored" };
	struct table *t = table_new(c->o->format, columns, COUNT(columns));
	for (int i = 0; i < c->problems.n; i++) {
		const struct problem *h = &c->problems.v[i];
		const struct scenario *s = &c->problems.scenarios[h->scenario];
		int stored = 0;
		for (int k = 0; k < h->n; k++)
			stored += h->stored[k];
		table_text(t, s->model);
		table_text(t, s->batch_text);
		table_text(t, store_phase(h->phase));
		table_number(t, h->n, 0);
		table_number(t, stored, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	complain("%d scenario parts, %d races to run, %d binaries", c->problems.n, stages_left(c),
		 c->binaries.n);
}

/* Loads stored results read-only. A missing database is not created. */
static int load_readonly(struct sweep_session *c)
{
	if (access(c->db, F_OK))
		return 1;
	c->store = store_open(c->db, 1);
	return c->store && store_check(c->store) && (!is_newest_device(c) || load_results(c));
}

static int dry_run(struct sweep_session *c)
{
	const int ok = load_readonly(c);
	if (ok)
		print_plan(c);
	return ok ? EXIT_DONE : EXIT_USAGE;
}

static void fill_forecast(struct sweep_session *c, struct sweep_forecast *f)
{
	f->parts = c->problems.n;
	f->races = stages_left(c);
	for (int i = 0; i < c->binaries.n; i++) {
		const struct built *b = &c->binaries.v[i];
		f->binaries += !jit_has(b->kernel, b->flags, c->binaries.arch);
	}
	for (int i = 0; i < c->problems.n; i++)
		for (int k = 0; k < c->problems.v[i].n; k++)
			f->cells += !c->problems.v[i].stored[k];
}

/* ---- the sweep ---------------------------------------------------------------------- */

static void summary(struct sweep_session *c, enum race_end end)
{
	char failures[200] = "";
	long long failed = 0;
	size_t n = 0;
	for (int i = OUTCOME_OK + 1; i < OUTCOME_NOISY; i++) {
		failed += c->failed[i];
		if (c->failed[i] && n < sizeof failures)
			n += (size_t)snprintf(failures + n, sizeof failures - n, "%s%lld %s",
					      n ? ", " : " (", c->failed[i],
					      outcome_name((enum outcome)i));
	}
	const int noisy = session_noisy(c);
	complain("%lld measured, %lld failed%s%s, in %.0f s, of which %.0f s waiting for %d new "
		 "binaries: %s",
		 c->failed[OUTCOME_OK], failed, failures, n ? ")" : "", session_seconds(c),
		 c->binaries.seconds, c->binaries.compiled, c->db);
	if (c->failed[OUTCOME_NOISY])
		complain("%lld times were too noisy to learn from, %d still are and are left out%s",
			 c->failed[OUTCOME_NOISY], noisy,
			 noisy ? "; the same command races them again" : "");
	const int left = end == RACE_ENDED ? stages_left(c) - c->skipped : 0;
	if (left > 0 && c->ran_out)
		complain("the budget of %.0f s left %d races undone; the same command goes on "
			 "with them",
			 c->o->budget_s, left);
	else if (left > 0 && !noisy)
		complain("%d races were added by the last results; the same command does them",
			 left);
}

static int measure_all(struct sweep_session *c)
{
	if (!session_begin_run(c))
		return EXIT_CHECK;
	if (!session_worker(c))
		return EXIT_CHECK;
	c->began = budget_now();
	c->binaries.until = c->o->wall ? c->began + c->o->budget_s : 0;
	enum race_end end = stages_run(c, STAGE_RACE, STAGE_AUDIT, 0);
	/* An earlier stage may have lacked time that the later ones left. */
	if (end == RACE_ENDED && c->ran_out && session_seconds(c) < c->o->budget_s) {
		c->ran_out = 0;
		end = stages_run(c, STAGE_RACE, STAGE_AUDIT, 1);
	}
	int believed = 1;
	if (c->o->sum) {
		session_sum(c, c->o->sum);
	} else {
		believed = sweep_report(c);
		summary(c, end);
	}
	if (end == RACE_ENDED && session_noisy(c) && !c->failed[OUTCOME_OK]) {
		complain("all times are too noisy to learn from: the machine is not quiet");
		return EXIT_BUSY;
	}
	return end == RACE_ENDED && !believed ? EXIT_CHECK : session_exit_code(c, end);
}

static int run(struct sweep_session *c, struct survey *survey, const struct scenario_list *list)
{
	session_make(c, list);
	if (c->o->survey && !survey_learn(survey, c))
		return EXIT_USAGE;
	if (c->o->survey)
		c->survey = survey;
	if (!add_problems(c, list))
		return EXIT_CHECK;
	if (!c->problems.n) {
		complain("no kernel%s runs %s of the %d scenarios on %s",
			 c->o->kernels ? " of --kernels" : "",
			 c->o->phases ? "a part in --phases" : "any", list->n, c->hello.info.gpu);
		return EXIT_USAGE;
	}
	if (c->o->dry_run)
		return dry_run(c);
	c->store = store_open(c->db, 0);
	if (!c->store || !store_check(c->store) ||
	    !provenance_fits(c->store, c->db, &c->hello.info, &c->protocol))
		return EXIT_USAGE;
	if (!load_results(c))
		return EXIT_USAGE;
	if (!label_scenarios(c))
		return EXIT_CHECK;
	if (!stages_left(c)) {
		complain("nothing to do: all %d scenario parts are in %s", c->problems.n, c->db);
		return EXIT_DONE;
	}
	return measure_all(c);
}

int sweep_foresee(const struct sweep_options *o, const struct hello *hello,
		  const struct scenario_list *list, struct sweep_forecast *f)
{
	struct sweep_session c = { .o = o, .hello = *hello };
	struct survey survey = { 0 };
	int code = EXIT_USAGE;
	session_make(&c, list);
	if (o->survey && survey_learn(&survey, &c))
		c.survey = &survey;
	if ((!o->survey || c.survey) && add_problems(&c, list) && load_readonly(&c)) {
		fill_forecast(&c, f);
		code = EXIT_DONE;
	}
	session_free(&c);
	survey_free(&survey);
	return code;
}

int sweep(const struct sweep_options *o, const struct hello *hello,
	  const struct scenario_list *list)
{
	struct sweep_session c = { .o = o, .hello = *hello };
	struct survey survey = { 0 };
	const enum spent before = spent_on(SPENT_PREPARING);
	const int code = run(&c, &survey, list);
	session_free(&c);
	survey_free(&survey);
	spent_on(before);
	return interrupted ? EXIT_INTERRUPTED : c.refused ? c.refused : code;
}
