/* SPDX-License-Identifier: Apache-2.0 */
/* confirm.c - `attune sweep --confirm`: measures pass B. Times that were learned from must not evaluate:
 * the best of many noisy times is too good (the winner's curse), for the oracle and for the picks.
 * So a session of its own measures again, in one race for each scenario with A/A controls
 * (harness/sweep/sweep.h: sweep_wishes). Times of two sessions are not compared, so a scenario is
 * measured as a whole if its session lacks any of these, and is skipped if it has all:
 *
 *   the picks of the header and of each baseline
 *   the best three choices of each part, and of one launch over the batch
 *   the best whole plans: the best two measured ones, and those of the best two of each part
 *
 * Held-out scenarios come first, then peers, then training scenarios by weight.
 *
 * With --fill it instead completes pass A: for training scenarios it measures the header's choice
 * of each part where it has no time, and all overlaps of these parts if one of them has none. The
 * next rules then learn from a time of everything that these rules pick. */
#include "requests.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEST = 3, BEST_PLANS = 2, FUSED = 3 };
enum { OPT_BUDGET = 256, OPT_AGAIN, OPT_ANYWAY, OPT_DRY, OPT_FILL, OPT_ALSO, OPT_MEMBERS };

struct options {
	const char *gpu, *db, *header, *also;
	struct confirm_asked asked;
	int again, anyway;
	double budget_s;
};

/* ---- the fastest of pass A ---------------------------------------------------------------- */
/* Wishes for the fastest plans that pass A measured whole. */
static void wish_best_plans(struct wishes *w, const struct data *d, int s)
{
	double last = 0;
	for (int k = 0; k < BEST_PLANS; k++) {
		int best = -1;
		for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
			const struct composed *p = &d->plan[i];
			if (p->pass == PASS_A && p->cell.outcome == OUTCOME_OK &&
			    p->cell.median_us > last &&
			    data_legal(d, s, PHASE_PREFILL, p->prefill) &&
			    data_legal(d, s, PHASE_DECODE, p->decode) &&
			    (best < 0 || p->cell.median_us < d->plan[best].cell.median_us))
				best = i;
		}
		if (best < 0)
			return;
		last = d->plan[best].cell.median_us;
		wish(w, plan_wish(&d->choice[d->plan[best].prefill],
				  &d->choice[d->plan[best].decode], d->plan[best].how));
	}
}

static void wish_best(struct wishes *w, const struct data *d, int s)
{
	int best[NUM_PHASES][BEST], n[NUM_PHASES];
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		n[p] = fastest_choices(d, s, p, p, best[p], BEST);
		for (int i = 0; i < n[p]; i++)
			wish(w, part_wish(p, &d->choice[best[p][i]]));
	}
	wish_best_plans(w, d, s);
	for (int i = 0; i < n[PHASE_PREFILL] && i < BEST_PLANS; i++)
		for (int k = 0; k < n[PHASE_DECODE] && k < BEST_PLANS; k++)
			wish(w, plan_wish(&d->choice[best[PHASE_PREFILL][i]],
					  &d->choice[best[PHASE_DECODE][k]], ATTUNE_SERIAL));
}

/* ---- the scenarios and their order --------------------------------------------------------- */
static int rank(const struct measured *m)
{
	return in_split(m, "heldout") ? 0 : !strcmp(m->split, "peers") ? 1 : 2;
}

/* Mixed batches last, since they have many ways; those with the shortest decodes before others: the
 * ways differ the most there. */
static int by_ways(const struct measured *a, const struct measured *b)
{
	const long long x = a->part[PHASE_ALL].f.decode_kv, y = b->part[PHASE_ALL].f.decode_kv;
	if (measured_is_mixed(a) != measured_is_mixed(b))
		return measured_is_mixed(a) - measured_is_mixed(b);
	return !measured_is_mixed(a) || x == y ? 0 : x < y ? -1 : 1;
}

static int by_need(const void *pa, const void *pb, void *arg)
{
	const struct data *d = arg;
	const struct measured *a = &d->v[*(const int *)pa], *b = &d->v[*(const int *)pb];
	if (rank(a) != rank(b))
		return rank(a) - rank(b);
	if (data_is_training(a) && by_ways(a, b))
		return by_ways(a, b);
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return *(const int *)pa - *(const int *)pb;
}

/* `attune tune` races what it compares on the gate's scenarios, and the newest session counts there. */
static int is_asked(const struct measured *m, const struct confirm_asked *o)
{
	return in_split(m, o->split) && (o->split || !split_is_gate(m->split)) &&
	       (!o->fill || (o->members && o->split) || data_is_training(m));
}

/* Scenario indices in measuring order; NULL without memory. */
static int *order_scenarios(struct data *d, const struct confirm_asked *o, int *n)
{
	int *order = malloc(sizeof *order * (size_t)(d->n + 1));
	*n = 0;
	for (int s = 0; order && s < d->n; s++)
		if (is_asked(&d->v[s], o))
			order[(*n)++] = s;
	if (order)
		qsort_r(order, (size_t)*n, sizeof *order, by_need, d);
	return order;
}

/* Wishes for a header's plan, and for the serial plan that an overlap must beat. */
static void wish_forest(struct wishes *w, const struct data *d, const struct forest *f,
			const struct measured *m)
{
	struct decided made;
	forest_make(d, f, m, &made);
	wish(w, made_wish(m, &made));
	forest_make_serial(d, f, m, &made);
	wish(w, made_wish(m, &made));
}

static int collect(struct wishes *w, const struct data *d, const struct forest *f,
		   const struct confirm_asked *o, const int *order, int n)
{
	struct chooser *baseline[NUM_POLICIES];
	for (int p = 0; p < NUM_POLICIES; p++)
		baseline[p] = p == POLICY_TREE ? NULL : chooser_new(d, (enum policy)p, f);
	for (int i = 0; i < n; i++) {
		const struct measured *m = &d->v[order[i]];
		wish_scenario(w, d, order[i]);
		for (int p = 0; p < NUM_POLICIES; p++) {
			struct decided made;
			if (!baseline[p])
				continue;
			/* -1: rules take the nearest legal choice, measured here or not. */
			chooser_make(baseline[p], m, -1, &made);
			wish(w, made_wish(m, &made));
		}
		wish_forest(w, d, f, m);
		if (o->also)
			wish_forest(w, d, o->also, m);
		if (o->members)
			wish_members(w, d, f, order[i]);
		wish_best(w, d, order[i]);
	}
	for (int p = 0; p < NUM_POLICIES; p++)
		chooser_free(baseline[p]);
	return !w->failed;
}

/* Whether pass A has a time of the plan. */
static int has_plan(const struct data *d, int s, const struct decided *made)
{
	struct pick p;
	decided_pick(d, made, &p);
	return made->join ? data_plan_cell(d, PASS_A, s, &p) != NULL
			  : p.prefill >= 0 && data_cell_in(d, PASS_A, s, PHASE_ALL, p.prefill);
}

/* Fused choices that divide a batch by estimate, and the rates that the next header would have. */
struct fused {
	int choice[FUSED], n;
	struct mixed_rates rates; /* unit_flops 0: none */
};

/* Wishes for one launch by fused choices. How many have no time. */
static int wish_fused(struct wishes *w, const struct data *d, const struct fused *fused, int s)
{
	const struct measured *m = &d->v[s];
	int missing = 0;
	for (int i = 0; i < fused->n; i++) {
		struct choice c = d->choice[fused->choice[i]];
		if (!data_legal(d, s, PHASE_ALL, fused->choice[i]))
			continue;
		wish(w, part_wish(PHASE_ALL, &c));
		missing += !data_cell(d, s, PHASE_ALL, fused->choice[i]);
		config_divide(&c.config, c.kernel, &fused->rates, &m->shape, &m->part[PHASE_ALL],
			      &d->run.device);
		wish(w, part_wish(PHASE_ALL, &c));
		missing += !data_cell(d, s, PHASE_ALL, data_find(d, &c));
	}
	return missing;
}

/* Wishes for the overlaps, if one has no time, all in one race with the header's serial plan: a
 * leaf cannot choose an overlap, such as one of these fused kernels, without a time in all of its
 * scenarios. */
static void wish_ways(struct wishes *w, const struct data *d, const struct forest *f,
		      const struct fused *fused, int s)
{
	const struct measured *m = &d->v[s];
	const int first = w->n;
	int missing = 0;
	for (int way = SAYS_SERIAL; way >= SAYS_SPARING112; way--) {
		struct decided made;
		forest_make_serial(d, f, m, &made);
		overlap_made(d, f, way, m, &made);
		wish(w, made_wish(m, &made));
		missing += !has_plan(d, s, &made);
	}
	missing += wish_fused(w, d, fused, s);
	for (int i = first; i < w->n; i++)
		w->v[i].again = 1;
	w->n = missing ? w->n : first;
}

/* A wish for the choice that runs a part, if it has no time there. */
static void wish_hole(struct wishes *w, const struct data *d, int s, enum phase phase,
		      const struct choice *c)
{
	const int at = c->kernel ? data_find(d, c) : -1;
	if (c->kernel &&
	    (at < 0 || (!data_cell(d, s, phase, at) && !isfinite(data_part_time(d, s, phase, at)))))
		wish(w, part_wish(phase, c));
}

static int collect_holes(struct wishes *w, const struct data *d, const struct forest *f,
			 int members, const int *order, int n)
{
	struct fused fused;
	fused.n = overlap_portfolio(d, fused.choice, FUSED);
	if (!mixed_fit(d, &fused.rates))
		return 0;
	for (int i = 0; i < n; i++) {
		const struct measured *m = &d->v[order[i]];
		struct decided made;
		wish_scenario(w, d, order[i]);
		if (members) {
			wish_unraced_members(w, d, f, order[i]);
			continue;
		}
		forest_make_serial(d, f, m, &made);
		wish_hole(w, d, order[i], PHASE_PREFILL, &made.prefill);
		wish_hole(w, d, order[i], PHASE_DECODE, &made.decode);
		if (measured_is_mixed(m) && d->run.device.backend != BACKEND_CPU)
			wish_ways(w, d, f, &fused, order[i]);
	}
	return !w->failed;
}

/* ---- the command ---------------------------------------------------------------------------- */
// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE", 0, "Header with the rules (generated/attune_NAME.h)", 0 },
	{ "also", OPT_ALSO, "FILE", 0, "Also the picks of this header, in the same races", 0 },
	{ "split", 'S', "NAME", 0, "Only this split: heldout (all of them), train, peers ...", 0 },
	{ "budget", OPT_BUDGET, "TIME", 0, "Stop after this time, with compilation: 90s, 10m, 1h (10m)", 0 },
	{ "again", OPT_AGAIN, NULL, 0, "Measure again also scenarios that are complete", 0 },
	{ "anyway", OPT_ANYWAY, NULL, 0, "Measure even if other programs use the machine", 0 },
	{ "fill", OPT_FILL, NULL, 0,
	  "Complete the first pass instead: the header's picks in training scenarios, and all "
	  "ways to run mixed ones",
	  0 },
	{ "members", OPT_MEMBERS, NULL, 0,
	  "Also the members of the header's rows, and all ways to run mixed batches; with --fill "
	  "these alone, and in any split that is named",
	  0 },
	{ "dry-run", OPT_DRY, NULL, 0, "Print how much would be measured; measure nothing", 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case 'S': o->asked.split = arg; return 0;
	case OPT_AGAIN: o->again = 1; return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_ALSO: o->also = arg; return 0;
	case OPT_DRY: o->asked.dry_run = 1; return 0;
	case OPT_FILL: o->asked.fill = 1; return 0;
	case OPT_MEMBERS: o->asked.members = 1; return 0;
	case OPT_BUDGET: o->budget_s = budget_option(arg, state); return 0;
	case ARGP_KEY_END:
		if (o->also && o->asked.fill)
			argp_error(state, "--also does not go with --fill");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Measures the picks and their rivals again, in a session of its own, for evaluation."
    "\vFor each scenario it measures the picks of the header and of the baselines, and the "
    "fastest plans of the sweep. `attune eval` counts only these times if a scenario has them. "
    "A scenario is measured as a whole, in one session, so that its times can be compared: "
    "again if its last session lacks a time of these, also where an interrupt ended it. A "
    "scenario whose session has all of them is skipped, so the same command resumes. --fill "
    "skips each time that exists; the ways to run a mixed batch race together, mixed batches "
    "last, those with the shortest decodes before the others. `attune eval` judges rows that "
    "are settled by a time of each pass: --fill --members and --members measure these.\n\n"
    "Examples:\n  attune sweep --confirm --gpu h200 --budget 10m\n"
    "  attune sweep --confirm --gpu h200 --split heldout --dry-run";
static const struct argp help = { .options = rows, .parser = parse_option, .doc = about };

/* Prints what would be measured; of pass B only what is missing, or, with again, all. */
static int foresee(int asked, int scenarios)
{
	return printf("%d cells and plans of %d scenarios\n", asked, scenarios) > 0 ? EXIT_DONE
										    : EXIT_CHECK;
}

int confirm_run(struct data *d, const struct forest *f, const struct confirm_asked *o,
		const struct sweep_options *sweep)
{
	struct wishes w = { 0 };
	d->pass = PASS_A; /* the fastest of pass A are measured again */
	int n, code = EXIT_CHECK, *order = order_scenarios(d, o, &n);
	const int done = order && n &&
			 (o->fill ? collect_holes(&w, d, f, o->members, order, n)
				  : collect(&w, d, f, o, order, n));
	int asked = w.n, scenarios = n;
	if (done && !o->fill && !sweep->again)
		asked = wishes_renew(&w, d, &scenarios);
	if (!done)
		complain(n ? "out of memory" : "%s has no scenario of split '%s' to confirm",
			 d->gpu, o->split ? o->split : "any");
	else if (o->fill && !w.n && !o->dry_run) {
		complain("nothing to fill: all picks of the header have times");
		code = EXIT_DONE;
	} else if (o->dry_run)
		code = foresee(asked, scenarios);
	else
		code = wishes_measure(&w, sweep, o->fill ? stage_names[STAGE_COMPLETE] : "b");
	wishes_free(&w);
	free(order);
	return code;
}

int cmd_confirm(int argc, char **argv)
{
	struct options o = { .budget_s = 600 };
	char gpu[GPU_NAME], device[GPU_NAME], db[PATH_TEXT], header[PATH_TEXT];
	struct forest f, also = { 0 };
	int code = EXIT_USAGE;
	options_parse(&help, argc, argv, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path(db, o.db, gpu);
	rules_path(header, o.header, gpu);
	snprintf(device, sizeof device, "%.*s", gpu_length(gpu), gpu);
	const struct sweep_options sweep = { .gpu = device,
					     .db = db,
					     .command = o.anyway ? "sweep --confirm --anyway"
								 : "sweep --confirm",
					     .preset = PRESET_FULL,
					     .budget_s = o.budget_s,
					     .shards = 1,
					     .again = o.again,
					     .anyway = o.anyway,
					     .seed = 1 };
	struct data *d = data_load(sweep.db, gpu);
	const int asks_right = d && split_known(d, o.asked.split);
	const int some = asks_right && data_has_times(d, sweep.db);
	if (some)
		data_say_noisy(d, sweep.db);
	if (asks_right && !some)
		code = EXIT_CHECK;
	else if (some && forest_load(&f, header)) {
		const int is_loaded = !o.also || forest_load(&also, o.also);
		o.asked.also = o.also ? &also : NULL;
		code = is_loaded ? confirm_run(d, &f, &o.asked, &sweep) : EXIT_USAGE;
		forest_free(&f);
		forest_free(&also);
	}
	data_free(d);
	return code;
}
