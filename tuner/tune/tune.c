/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - `attune tune`: measures this machine, learns rules, and installs those that beat the
 * rules in force. Its steps, in order:
 *
 *   rows     what may come first in the rows in force, on scenarios that cover all rows soonest
 *   races    all candidates, on the scenarios that differ most from each other
 *   fill     picks of the rules learned so far that have no time yet
 *   gate     the new rules against those in force, on scenarios that neither learned from
 *   judge    the installed rules, the previous ones and the defaults, on held-out scenarios
 *
 * One deadline ends the tune: each step gets its share of the remaining time. All times are kept,
 * so the same command resumes after an interrupt. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/remeasure/requests.h"
#include "tuner/transfer/basis.h"
#include "tuner/transfer/gate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- measuring -------------------------------------------------------------------------- */

static int has_prior(const struct tune *t)
{
	return *t->here.prior_gpu != '\0';
}

static struct sweep_options sweep_of(struct tune *t, double seconds)
{
	return (struct sweep_options){ .gpu = t->hello.info.gpu,
				       .device = *t->devices ? t->devices : NULL,
				       .db = t->here.db,
				       .command = t->o->command,
				       .preset = t->o->preset,
				       .budget_s = seconds,
				       .shards = 1,
				       .seed = 1,
				       .anyway = t->o->anyway,
				       .wall = 1,
				       .sum = &t->sum };
}

static int measure_part(const struct sweep_options *o, const struct hello *hello, void *list)
{
	return sweep(o, hello, list);
}

/* All scenarios are the gate's. New rules can be learned if this machine has times from before. */
static int measure_nothing(const struct tune *t)
{
	if (!access(t->here.db, F_OK))
		return EXIT_DONE;
	complain(
	    "these sets have only scenarios of split 'gate', and there is no %s to learn from: "
	    "name another set, too (--scenarios)",
	    t->here.db);
	return EXIT_USAGE;
}

/* Measures all scenarios but the gate's, of which only the two rules' plans are wanted. */
static int measure(struct tune *t, const struct sweep_options *o)
{
	struct scenario_list list = { 0 };
	list.v = calloc((size_t)t->list.n + 1, sizeof *list.v);
	for (int i = 0; list.v && i < t->list.n; i++)
		if (!split_is_gate(t->list.v[i].split))
			list.v[list.n++] = t->list.v[i];
	const int code = !list.v   ? EXIT_CHECK
			 : !list.n ? measure_nothing(t)
				   : on_each_device(o, &t->hello, measure_part, &list);
	free(list.v); /* texts and batches are those of t->list */
	return code;
}

/* ---- learning ----------------------------------------------------------------------------- */

/* Whether the newest times of the database are of this device: a CPU has other choices with other
 * threads. -1 + complain: it cannot be read. */
static int has_own_times(const struct tune *t)
{
	struct protocol protocol;
	if (access(t->here.db, F_OK))
		return 0;
	struct store *store = store_open(t->here.db, 1);
	if (!store || !store_check(store)) {
		store_close(store);
		return -1;
	}
	protocol_for(&protocol, &t->hello.info, preset_names[t->o->preset]);
	const int same = provenance_same(store, &t->hello.info, &protocol);
	store_close(store);
	return same;
}

/* Before the first time of this device the data are empty. */
static struct data *no_times(const struct tune *t)
{
	const struct run_info run = { .device = t->hello.info };
	struct data *d = data_new(t->here.gpu, &run);
	if (d && data_finish(d))
		return d;
	data_free(d);
	return NULL;
}

static int load_own(struct tune *t)
{
	data_free(t->own);
	t->own = data_load(t->here.db, t->here.gpu);
	return t->own && data_has_times(t->own, t->here.db);
}

/* Loads what is known of this machine. 0 + complain. */
static int look(struct tune *t)
{
	const int has = has_own_times(t);
	data_free(t->own);
	t->own = has < 0 ? NULL : has ? data_load(t->here.db, t->here.gpu) : no_times(t);
	return t->own != NULL;
}

/* The rows of another machine's rules, by what is known of this one. */
static int rows(struct tune *t, const struct sweep_options *asked)
{
	const double began = budget_now();
	struct sweep_options o = *asked;
	if (!has_prior(t))
		return EXIT_DONE;
	const int done = look(t);
	o.budget_s -= budget_now() - began;
	return done ? tune_rows(t, &o) : EXIT_CHECK;
}

static void forget(struct tune *t)
{
	fresh_rules_free(&t->fresh);
}

/* Learns rules from all times so far. */
static int learn(struct tune *t)
{
	if (t->fresh.n && t->learned_from == t->sum.races)
		return EXIT_DONE; /* nothing is new */
	const enum spent before = spent_on(SPENT_LEARNING);
	forget(t);
	t->learned_from = t->sum.races;
	progress("learning", 0, 1);
	const int done =
	    load_own(t) && inheritance_learn(&t->from, t->own, &default_limits, &t->fresh);
	spent_on(before);
	return done ? EXIT_DONE : EXIT_CHECK;
}

/* Measures what the rules learned so far pick in training scenarios and has no time yet. */
static int fill(struct tune *t, const struct sweep_options *o)
{
	const struct confirm_asked asked = { .fill = 1 };
	if (t->fresh.trees < 0) /* all picks are of the rows */
		return EXIT_DONE;
	return confirm_run(t->own, &t->fresh.f[t->fresh.trees], &asked, o);
}

/* ---- the judge --------------------------------------------------------------------------------- */

static int keep_basis(const struct tune *t)
{
	struct store *store = store_open(t->here.db, 0);
	const int done = store && store_set_basis(store, &t->from.basis);
	store_close(store);
	return done;
}

/* Applies the gate and installs the resulting rules. The database stores their basis, so `attune
 * induce` makes the same header. What an earlier round took stays, unless the gate replaces it. */
static int install(struct tune *t)
{
	const enum spent before = spent_on(SPENT_LEARNING);
	char *text = NULL;
	struct gate_report report = { 0 };
	forest_free(&t->installed);
	int done = load_own(t) && keep_basis(t) && data_hash(t->own, t->here.db);
	done = done && inheritance_judge(&t->from, t->own, &t->fresh, &t->installed, &report);
	t->takes = done ? gate_taken(&report) : 0;
	if (done && (t->takes || !t->rounds))
		t->gate = report;
	if (done && (t->takes || t->rounds)) {
		text = forest_emit(&t->installed, t->own);
		done = text && here_install(&t->here, text);
	} else if (done && t->here.has_installed) { /* by fewer times */
		done = here_undo(&t->here);
	}
	free(text);
	spent_on(before);
	return done ? EXIT_DONE : EXIT_CHECK;
}

/* A round compares its rules with those that the one before installed. */
static int advance(struct tune *t)
{
	struct forest former;
	if (!t->takes)
		return EXIT_DONE;
	char *text = file_text(t->here.header);
	const int done = text && inheritance_advance(&t->from, text, &former);
	if (!text)
		complain("%s: cannot be read", t->here.header);
	free(text);
	if (!done)
		return EXIT_CHECK;
	if (t->rounds++)
		forest_free(&former);
	else
		t->before = former;
	t->takes = 0;
	forget(t); /* compared with the former ones */
	return EXIT_DONE;
}

static int judge(struct tune *t, const struct sweep_options *asked)
{
	const double began = budget_now();
	struct sweep_options o = *asked;
	int code = install(t);
	o.budget_s -= budget_now() - began;
	code = code ? code : tune_held_out(t, &o);
	return code ? code : install(t); /* again: the header has the hash of the database */
}

/* ---- the steps ------------------------------------------------------------------------------ */

/* Shares of the time. Time that a step leaves goes to the later steps. The gate has a large one:
 * new rules count only where it has raced them. */
static const struct step {
	const char *name;
	int (*run)(struct tune *, const struct sweep_options *);
	int learns; /* from all times so far, before its share is computed */
	/* smoke, quick, full; without and with another GPU's times to begin from */
	double share[2][NUM_PRESETS];
} steps[] = {
	{ "rows", rows, 0, { { 0, 0, 0 }, { 0.40, 0.40, 0.30 } } },
	{ "races", measure, 0, { { 0.40, 0.45, 0.45 }, { 0.22, 0.12, 0.20 } } },
	{ "fill", fill, 1, { { 0, 0.12, 0.12 }, { 0, 0.10, 0.10 } } },
	{ "gate", tune_gate, 1, { { 0.36, 0.25, 0.25 }, { 0.24, 0.22, 0.25 } } },
	{ "judge", judge, 0, { { 0.24, 0.18, 0.18 }, { 0.14, 0.16, 0.15 } } },
};
static const double whole_s[NUM_PRESETS] = { 50, 240, 1080 };

static double share_of(const struct tune *t, size_t i)
{
	return steps[i].share[has_prior(t)][t->o->preset];
}

enum { LATE = 2 /* the first step after the races */, JUDGE = COUNT(steps) - 1 };

/* What the other steps of another round need: as long as the last time, and least_late of the whole,
 * since new rules are raced anew; but never more than most_late of what is left. */
static double late_seconds(const struct tune *t)
{
	static const double least_late = 0.2, most_late = 0.6;
	return fmin(fmax(t->late_s, least_late * (t->deadline - t->began)),
		    most_late * (t->deadline - budget_now()));
}

/* Once all steps have run, the next rows and races may take what the others do not need. The judge,
 * which has what is left, leaves what is beyond its share to another round where races are left. */
static double seconds_for(const struct tune *t, size_t step)
{
	const int again = t->late_s > 0 && step < LATE;
	double sum = 0;
	for (size_t i = step; i < (again ? LATE : COUNT(steps)); i++)
		sum += share_of(t, i);
	const double rest = t->deadline - budget_now() - (again ? late_seconds(t) : 0);
	const double whole = step == JUDGE && t->sum.ran_out ? t->deadline - t->began : INFINITY;
	return fmin(rest / sum, whole) * share_of(t, step);
}

/* Whether the time that is left is worth another round: some races were left undone, and
 * the other steps leave at least the share `least` of the whole time. */
static int is_time_left(const struct tune *t)
{
	static const double least = 0.03;
	return t->sum.ran_out &&
	       t->deadline - budget_now() - late_seconds(t) > least * (t->deadline - t->began);
}

static int run_step(struct tune *t, size_t i)
{
	if (share_of(t, i) <= 0 || interrupted)
		return EXIT_DONE;
	progress_part(steps[i].name);
	const int code = steps[i].learns ? learn(t) : EXIT_DONE;
	const struct sweep_options o = sweep_of(t, seconds_for(t, i));
	return code ? code : steps[i].run(t, &o);
}

static int has_times(const struct tune *t)
{
	return t->has_older || t->sum.measured;
}

static int say_nothing(const struct tune *t)
{
	if (interrupted)
		return EXIT_INTERRUPTED;
	if (t->sum.failed[OUTCOME_NOISY])
		complain("nothing is known: all times are too noisy; run the command again");
	else
		complain("nothing was measured%s",
			 t->early_ran_out ? ": the time ended first; --budget gives more, and what "
					    "was compiled stays"
					  : "");
	return EXIT_NOTHING;
}

static int run_each_step(struct tune *t)
{
	int code = EXIT_DONE;
	t->sum.ran_out = 0;
	for (size_t i = 0; i < LATE && !code; i++)
		code = run_step(t, i);
	t->early_ran_out = t->sum.ran_out;
	const double late = budget_now();
	if (!code && !has_times(t))
		return is_time_left(t) ? EXIT_DONE : say_nothing(t);
	for (size_t i = LATE; i < COUNT(steps) && !code; i++)
		code = run_step(t, i);
	t->late_s = budget_now() - late;
	return code;
}

/* Repeats the steps while they leave time: what the later ones need is known only afterwards. */
static int run_steps(struct tune *t)
{
	int code = run_each_step(t);
	for (long long races = -1;
	     !code && !interrupted && is_time_left(t) && t->sum.races > races;) {
		races = has_times(t) ? t->sum.races : -1;
		code = advance(t);
		code = code ? code : run_each_step(t);
	}
	progress_end();
	return interrupted ? EXIT_INTERRUPTED : code;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

/* Loads the rules in force as the basis of the new ones. */
static int load_incumbent(struct tune *t)
{
	char *text = t->here.rules ? file_text(t->here.rules_path) : strdup("");
	const struct store_basis basis = { .header = t->here.gpu,
					   .incumbent = t->here.rules ? t->here.rules_gpu : "",
					   .rules = text,
					   .prior = t->here.prior_gpu };
	if (!text)
		complain("%s cannot be read", t->here.rules_path);
	const int done = text && inheritance_of(&t->from, &basis, t->here.db);
	free(text);
	return done;
}

static void find_devices(struct tune *t)
{
	char device[MOST_DEVICES][DEVICE_NAME];
	const int n = t->o->device ? 0 : devices_find(t->hello.info.gpu, device);
	size_t at = 0;
	t->devices[0] = '\0';
	if (t->o->device)
		snprintf(t->devices, sizeof t->devices, "%s", t->o->device);
	for (int i = 0; i < n && at < sizeof t->devices; i++)
		at += (size_t)snprintf(t->devices + at, sizeof t->devices - at, "%s%s",
				       i ? "," : "", device[i]);
}

static int begin(struct tune *t)
{
	const struct sweep_options o = { .gpu = t->o->gpu, .device = t->o->device };
	const int code = sweep_device(&o, &t->hello);
	if (code)
		return code;
	if (!here_find(&t->here, &t->hello.info, t->o->results, t->o->generated))
		return EXIT_CHECK;
	if (t->o->undo)
		return EXIT_DONE;
	if (refuse_emulated(&t->hello.info))
		return EXIT_USAGE;
	find_devices(t);
	t->has_older = !access(t->here.db, F_OK);
	return load_incumbent(t) && tune_scenarios(t) ? EXIT_DONE : EXIT_USAGE;
}

static void end(struct tune *t)
{
	scenarios_free(&t->list);
	forget(t);
	forest_free(&t->installed);
	forest_free(&t->before);
	inheritance_close(&t->from);
	data_free(t->own);
}

/* Prints the work of the rows, and of the races of all candidates: the most that a tune can do. */
static int forecast(struct tune *t, double seconds)
{
	struct sweep_forecast f = { 0 }, of_rows = { 0 };
	struct sweep_options o = sweep_of(t, 0);
	o.device = NULL;
	if (has_prior(t) && !(look(t) && tune_rows_foresee(t, &of_rows)))
		return EXIT_CHECK;
	const int code = sweep_foresee(&o, &t->hello, &t->list, &f);
	if (!code)
		tune_print_forecast(t, &of_rows, &f, seconds);
	return code;
}

int tune(const struct tune_options *o)
{
	struct tune t = { .o = o, .began = budget_now() };
	const double seconds = o->budget_s > 0 ? o->budget_s : whole_s[o->preset];
	const double began = seconds_now();
	spent_begin(SPENT_READING);
	progress_part("reading");
	int code = begin(&t);
	t.deadline = t.began + seconds;
	if (!code && o->undo)
		code = here_undo(&t.here) ? EXIT_DONE : EXIT_CHECK;
	if (!code && o->dry_run)
		code = forecast(&t, seconds);
	if (!code && !o->undo && !o->dry_run) {
		progress_until(seconds);
		tune_print_plan(&t, seconds);
		spent_on(SPENT_PREPARING);
		code = run_steps(&t);
		spent_on(SPENT_LEARNING);
		if (!code)
			code = tune_judge(&t);
		t.took_s = seconds_now() - began;
		spent_read(t.spent_s);
		progress_part(NULL);
		if (!code)
			tune_print_summary(&t);
	}
	end(&t);
	return code;
}
