/* SPDX-License-Identifier: Apache-2.0 */
/* tune_check.c - `attune tune --check`: checks that the rules still fit, such as after an update of the
 * driver, the toolkit or the firmware. It times some picks again, each in one race with its two
 * fastest rivals. What counts is whether the picks still beat their rivals, not how fast all of
 * them are. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/remeasure/requests.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RIVALS = 2, CONTENDERS = 1 + RIVALS, USUAL_PARTS = 20, USUAL_SECONDS = 60 };
/* A new tune pays if the picks have lost more than this against their rivals. */
static const double worth = 0.01;
static const double heavy_us = 20000; /* parts that take longer are left out */

/* A part of a scenario, its pick and rivals (the pick first), and their old and new times. */
struct part_again {
	int scenario;
	enum phase phase;
	int choice[CONTENDERS], n;
	double then_us[CONTENDERS], now_us[CONTENDERS];
	unsigned long long turn;
};

/* ---- the parts to time -------------------------------------------------------------------- */

static void add(struct part_again *p, const struct data *d, int choice)
{
	p->then_us[p->n] = data_part_time(d, p->scenario, p->phase, choice);
	p->choice[p->n++] = choice;
}

/* 0: the part does not exist, takes too long, or has no rival. */
static int fill_part(struct part_again *p, const struct data *d, const struct pick *pick, int s,
		     enum phase phase)
{
	const int choice = phase == PHASE_PREFILL ? pick->prefill : pick->decode;
	int best[CONTENDERS];
	if (!d->v[s].has[phase] || choice < 0)
		return 0;
	*p = (struct part_again){ .scenario = s, .phase = phase };
	add(p, d, choice);
	if (!(p->then_us[0] < heavy_us))
		return 0;
	const int n = fastest_choices(d, s, phase, PHASE_ALL, best, CONTENDERS);
	for (int i = 0; i < n && p->n < CONTENDERS; i++)
		if (best[i] != choice)
			add(p, d, best[i]);
	p->turn = scramble((unsigned)(2 * s + (phase == PHASE_DECODE)) * 0x9e3779b9ull);
	return p->n > 1;
}

static int by_turn(const void *a, const void *b)
{
	const struct part_again *x = a, *y = b;
	return (x->turn > y->turn) - (x->turn < y->turn);
}

/* Draws up to `limit` parts at random. NULL without memory. */
static struct part_again *draw(const struct data *d, const struct forest *f, int limit, int *n)
{
	struct part_again *v = calloc(2 * (size_t)d->n + 1, sizeof *v);
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	const int done = v && picks && policy_picks(d, POLICY_TREE, f, picks);
	*n = 0;
	for (int s = 0; done && s < d->n; s++)
		for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
			*n += fill_part(&v[*n], d, &picks[s], s, p);
	free(picks);
	if (!done) {
		free(v);
		return NULL;
	}
	qsort(v, (size_t)*n, sizeof *v, by_turn);
	*n = *n > limit ? limit : *n;
	return v;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* Without new times neither "the rules fit" nor "a new tune pays" is known. */
static int say_nothing(const struct sweep_sum *sum, double budget_s)
{
	if (sum && sum->failed[OUTCOME_NOISY])
		complain("nothing is known: all new times are too noisy; run the command again");
	else
		complain("nothing is known: the budget of %.0f s ended before a pick and a rival "
			 "were measured; --budget %.0fs gives more",
			 budget_s, fmax(USUAL_SECONDS, 4 * budget_s));
	return EXIT_NOTHING;
}

/* An exit code; EXIT_NOTHING + complain: no time was measured. */
static int time_again(const struct data *d, const struct part_again *v, int n,
		      const struct sweep_options *o)
{
	struct wishes w = { 0 };
	for (int i = 0; i < n; i++) {
		wish_scenario(&w, d, v[i].scenario);
		for (int k = 0; k < v[i].n; k++)
			wish(&w, part_wish(v[i].phase, &d->choice[v[i].choice[k]]));
	}
	progress_until(o->budget_s);
	const int code = w.failed ? EXIT_CHECK : wishes_measure(&w, o, "b");
	wishes_free(&w);
	return code || o->sum->measured ? code : say_nothing(o->sum, o->budget_s);
}

/* Drops parts without a new time; returns how many are left. */
static int read_times(struct part_again *v, int n, const struct data *then, const struct data *now)
{
	int kept = 0;
	for (int i = 0; i < n; i++) {
		int s = 0, known = 0;
		while (s < now->n && strcmp(now->v[s].key, then->v[v[i].scenario].key))
			s++;
		for (int k = 0; s < now->n && k < v[i].n; k++) {
			const int c = data_find(now, &then->choice[v[i].choice[k]]);
			v[i].now_us[k] = c < 0 ? INFINITY : data_part_time(now, s, v[i].phase, c);
			known += isfinite(v[i].now_us[k]);
		}
		if (known == v[i].n)
			v[kept++] = v[i];
	}
	return kept;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static double lost(const double us[CONTENDERS], int n)
{
	double best = us[0];
	for (int k = 1; k < n; k++)
		best = fmin(best, us[k]);
	return us[0] / best;
}

static void print_parts(const struct part_again *v, int n, const struct data *d, enum format format)
{
	static const char *const columns[] = { "model",          "batch",  "phase",
					       "then_us",        "now_us", "then_lost_ratio",
					       "now_lost_ratio", "pick" };
	struct table *t = table_new(format, columns, COUNT(columns));
	char text[MAX_CHOICE_TEXT];
	for (int i = 0; t && i < n; i++) {
		const struct measured *m = &d->v[v[i].scenario];
		table_text(t, m->model);
		batch_cell(t, m->batch_text, format);
		table_text(t, phase_name((int)v[i].phase));
		table_number(t, v[i].then_us[0], 2);
		table_number(t, v[i].now_us[0], 2);
		table_number(t, lost(v[i].then_us, v[i].n), 4);
		table_number(t, lost(v[i].now_us, v[i].n), 4);
		choice_text(text, sizeof text, &d->choice[v[i].choice[0]]);
		table_text(t, text);
		table_end_row(t);
	}
	if (t)
		table_print(t, stdout);
}

/* elsewhere: the old times are another CPU's, so its rules fit by chance at best. */
static int answer(const struct part_again *v, int n, const char *gpu, int elsewhere)
{
	static const char *const verdicts[2][2] = {
		{ "the rules still fit", "a new tune pays: make tune" },
		{ "another CPU's rules fit so far; make tune makes this machine's own",
		  "another CPU's rules do not fit: make tune" },
	};
	double speed = 0, then = 0, now = 0;
	for (int i = 0; i < n; i++) {
		speed += log(v[i].now_us[0] / v[i].then_us[0]) / n;
		then += log(lost(v[i].then_us, v[i].n)) / n;
		now += log(lost(v[i].now_us, v[i].n)) / n;
	}
	const int pays = now - then > worth;
	complain("%s: %d picks take %.3f x their %s; they lose %.1f %% to their fastest rivals "
		 "(%s: %.1f %%); %s",
		 gpu, n, exp(speed), elsewhere ? "times there" : "old times", 100 * (exp(now) - 1),
		 elsewhere ? "there" : "before", 100 * (exp(then) - 1), verdicts[elsewhere][pays]);
	return pays ? EXIT_CHECK : EXIT_DONE;
}

/* db: of the old times. */
static int check_with(struct data *d, const struct forest *f, const struct tune_options *o,
		      const struct sweep_options *sweep, const char *db)
{
	int n = 0;
	struct part_again *v = draw(d, f, o->limit ? o->limit : USUAL_PARTS, &n);
	int code = v && n ? time_again(d, v, n, sweep) : EXIT_CHECK;
	if (!v || !n)
		complain(v ? "%s has no pick of these rules with a time and a rival"
			   : "%s: out of memory",
			 db);
	struct data *now = code ? NULL : data_load(sweep->db, d->gpu);
	if (!code) {
		n = now ? read_times(v, n, d, now) : 0;
		print_parts(v, n, d, o->format);
		code = !now ? EXIT_CHECK
		       : n  ? answer(v, n, d->gpu, data_is_elsewhere(d))
			    : say_nothing(NULL, sweep->budget_s);
	}
	data_free(now);
	free(v);
	return code;
}

/* The new times are in a folder that only this process's user can open. */
static int check(struct data *d, const struct forest *f, const struct tune_options *o,
		 const char *device, const char *db)
{
	const char *given = getenv("TMPDIR");
	char folder[PATH_TEXT - 16], path[PATH_TEXT];
	struct sweep_sum sum = { 0 };
	const struct sweep_options sweep = { .gpu = device,
					     .device = o->device,
					     .db = path,
					     .command = "tune --check",
					     .preset = PRESET_FULL,
					     .budget_s =
						 o->budget_s > 0 ? o->budget_s : USUAL_SECONDS,
					     .shards = 1,
					     .seed = 1,
					     .anyway = o->anyway,
					     .wall = 1,
					     .sum = &sum };
	snprintf(folder, sizeof folder, "%s/attune_check.XXXXXX", given && *given ? given : "/tmp");
	if (!mkdtemp(folder)) {
		complain("%s: a folder for the new times cannot be created: %s", folder,
			 strerror(errno));
		return EXIT_CHECK;
	}
	snprintf(path, sizeof path, "%s/times.sqlite", folder);
	const int code = check_with(d, f, o, &sweep, db);
	store_remove(path);
	rmdir(folder);
	return code;
}

int tune_check(const struct tune_options *o)
{
	char gpu[GPU_NAME], device[GPU_NAME], db[PATH_TEXT], header[PATH_TEXT];
	struct forest f;
	struct hello hello;
	if (!gpu_or_own(o->gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path(db, o->db, gpu);
	rules_path(header, o->header, gpu);
	snprintf(device, sizeof device, "%.*s", gpu_length(gpu), gpu);
	int code =
	    sweep_device(&(struct sweep_options){ .gpu = device, .device = o->device }, &hello);
	if (code)
		return code;
	if (refuse_emulated(&hello.info))
		return EXIT_USAGE;
	struct data *d = data_load_as(db, gpu, (struct which_rows){ .units = hello.info.units });
	code = EXIT_USAGE;
	if (d && !data_has_times(d, db)) {
		code = EXIT_CHECK;
	} else if (d && forest_load(&f, header)) {
		data_say_machine(d, db);
		code = check(d, &f, o, device, db);
		forest_free(&f);
	}
	data_free(d);
	return code;
}
