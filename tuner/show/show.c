/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - `attune show`: parses the options, finds the scenario, and calls the file that prints
 * it: ranking.c, explain.c, kernels.c, stale.c or tables.c. */
#include "show.h"
#include "planned.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/peers/peers.h"
#include "harness/scenario/scenario.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/part.h"
#include "tuner/base/base.h"
#include "tuner/bench/bench.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/plot/plot.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_PAGE = SHOW_TABLE + 1, OPT_ALL };

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE", 0, "Header with the rules (generated/attune_NAME.h)", 0 },
	{ "model", 'm', "NAME@TP", 0, "Model shape, as in llama3.1-8b@1", 0 },
	{ "batch", 'b', "BATCH", 0, "Batch, as in 2q2k_32q1s1k", 0 },
	{ "page-size", OPT_PAGE, "N", 0, "Tokens of a page, if several were measured", 0 },
	{ "why", SHOW_WHY, NULL, 0, "Only explain the header's pick, in any format", 0 },
	{ "best", SHOW_BEST, NULL, 0, "Each scenario's fastest plan and the header's", 0 },
	{ "peers", SHOW_PEERS, NULL, 0, "Times of other projects' kernels, which raced as plug-ins, and ours (results/NAME_peers.sqlite)", 0 },
	{ "kernels", SHOW_KERNELS, NULL, 0, "Kernels with their tunables and rules", 0 },
	{ "ceilings", SHOW_CEILINGS, NULL, 0, "Measured limits of the device", 0 },
	{ "stale", SHOW_STALE, NULL, 0, "Times of older kernel sources, and the picks that depend on them", 0 },
	{ "table", SHOW_TABLE, "NAMES", 0, "Tables of the committed results that the pages publish: heldout, decode, ... (any other name lists them)", 0 },
	{ "all", OPT_ALL, NULL, 0, "All rows of a table; with --stale each cell", 0 },
	{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct show *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case 'm': o->model = arg; return 0;
	case 'b': o->batch = arg; return 0;
	case OPT_PAGE:
		o->page_size = atoi(arg);
		if (o->page_size < 1)
			argp_error(state, "--page-size '%s' should be 1 or more", arg);
		return 0;
	case SHOW_WHY:
	case SHOW_BEST:
	case SHOW_PEERS:
	case SHOW_KERNELS:
	case SHOW_CEILINGS:
	case SHOW_STALE: o->what = (enum show_what)key; return 0;
	case SHOW_TABLE:
		o->what = SHOW_TABLE;
		o->table = arg;
		return 0;
	case OPT_ALL: o->all = 1; return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_END:
		if (o->what == SHOW_SCENARIO || o->what == SHOW_WHY)
			if (!o->model || !o->batch)
				argp_error(state, "name the scenario by --model and --batch");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Shows the measurements of a batch and explains the header's pick."
    "\vTables and markdown explain the pick first: the comparisons on the path through the "
    "trees, the leaf's row of choices, measured rivals, features outside the training range, "
    "and the expected slowdown. For a batch that was never measured, times are estimates. Of "
    "a row the first choice runs that can: \"not run\" says why those before it cannot, "
    "\"behind it\" what comes next. The rules are those of --header, else of "
    "ATTUNE_HEURISTICS, as in the library. For a GPU that was never measured, --why shows the "
    "plan alone.\n\n"
    "Then come the measured plans, fastest first (20 rows; --all: all), by pass:\n"
    "  A  first pass: all candidates of the sweep\n"
    "  B  second pass: the fastest of A, measured again in another session\n"
    "  E  launches that begin early\n"
    "A mixed batch is listed as one launch, as whole plans, and as sums of parts measured "
    "separately (each prefill variant with the best decode variant, and vice versa).\n\n"
    "ratio is to the pick's time of the same pass, for E to the same choice in turn. vs_pick "
    "says how far to trust it:\n"
    "  tie         the difference is within noise\n"
    "  other race  first-pass times of different races\n"
    "mj is power_w x median_us. power_of: alone, the choice's own reading; race, shared by "
    "a steady race, so energy ranks as time does; around, read around a burst, so not the "
    "power of one kernel.\n\n"
    "tsv, csv and json have one row for each plan, of the second pass if there is one, and no "
    "explanation unless --why is given.\n\n"
    "--peers has the fastest time of other projects' kernels on each batch, in one race with "
    "ours, and for people how each kernel stands to ours. --stale counts times of older "
    "kernel sources by kernel, set and split; those that are the fastest of their part come "
    "first.\n\n"
    "attune show --diff compares two headers or databases; --diff --help has its options.\n\n"
    "Examples:\n  attune show --gpu h200 --model llama3.1-8b@1 --batch 32q1s16k\n"
    "  attune show --gpu h200 --model llama3.1-8b@1 --batch 2q2k_32q1s1k --why\n"
    "  attune show --gpu cpu --best\n  attune show --gpu h200 --peers\n"
    "  attune show --gpu h200 --stale\n  attune show --kernels\n"
    "  attune show --gpu h200 --table heldout,worst\n"
    "  attune show --gpu h200 --ceilings";
static const struct argp help = {
	.options = rows, .parser = parse_option, .doc = about, .children = peers_options
};

/* ---- which scenario ------------------------------------------------------------------------ */
static int has_times(const struct data *d, int s)
{
	return d->row[NUM_PHASES * s] < d->row[NUM_PHASES * (s + 1)] ||
	       d->plan_at[s] < d->plan_at[s + 1];
}

static int rank(const struct measured *m)
{
	return 2 * (m->shape.kv_layout == ATTUNE_KV_STRIDED) + (m->shape.page_size == 16);
}

/* text: in canonical form. */
static int is_asked(const struct measured *m, const struct show *o, const char *text)
{
	char *its = strcmp(m->model, o->model) ? NULL : batch_format(&m->batch->view);
	const int same = its && !strcmp(its, text);
	free(its);
	return same;
}

/* Finds the scenario of a batch (text: in canonical form). If several differ in page size, dtype or
 * layout it prefers a strided cache, then page size 16, then the first, and mentions the others. */
static int find_scenario(const struct data *d, const struct show *o, const char *text)
{
	int found = -1, others = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (!has_times(d, s) || (o->page_size && o->page_size != m->shape.page_size))
			continue;
		const int same = is_asked(m, o, text);
		others += same && found >= 0;
		if (same && (found < 0 || rank(m) > rank(&d->v[found])))
			found = s;
	}
	if (others)
		complain("page size %d, %s, %s is shown; %d more scenarios have this batch",
			 d->v[found].shape.page_size, dtype_name(d->v[found].shape.dtype),
			 d->v[found].layout, others);
	return found;
}

/* ---- one batch ----------------------------------------------------------------------------- */
/* The header that is explained: --header, else the one that the library plans by; NULL: the
 * build's. */
static const char *rules_asked(const struct show *o)
{
	const char *named = getenv("ATTUNE_HEURISTICS");
	return o->header ? o->header : named && *named ? named : NULL;
}

/* Explains the plan of the library's planner, if the rules are those that it plans by: of the build
 * or of ATTUNE_HEURISTICS. Else, and if the planner refuses the batch, explains what the forest
 * says. */
static int why(const struct data *d, const struct forest *f, const struct measured *m, int scenario,
	       const struct show *o)
{
	const struct selector *h = selector_for(&d->run.device, m->shape.kv_dtype);
	const int is_own =
	    !o->header && !o->db && (rules_asked(o) || (h && !strcmp(h->gpu, f->gpu)));
	struct planned p = { .ctx = NULL };
	const int planned = is_own && planned_make(&p, &d->run.device, &m->shape, &m->batch->view);
	if (is_own && !planned)
		complain("the library makes no plan: %s; what the rules name is shown",
			 attune_last_error());
	const int done = show_why(d, f, m, scenario, planned ? &p : NULL, o->format);
	planned_free(&p);
	return done;
}

static int complain_nearest(const struct data *d, const struct show *o, const struct measured *m)
{
	char words[BATCH_WORDS] = "";
	double far;
	struct around *a = around_new(d, m);
	const int s =
	    a ? around_nearest(a, m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL, &far) : -1;
	if (s >= 0)
		batch_words(words, d->v[s].batch_text);
	complain("no measurement of %s with batch %s on %s%s; nearest: %s%s%s", o->model, o->batch,
		 d->gpu, d->stale ? " by the current sources (see --stale)" : "",
		 s < 0 ? "none" : d->v[s].model, s < 0 ? "" : " ", words);
	around_free(a);
	return 0;
}

/* Formats for people get estimates, others only where they ask why. */
static int show_unmeasured(const struct data *d, const struct forest *f, const struct show *o)
{
	struct measured m;
	attune_shape shape;
	if (!shape_of_model(&shape, d, o->model, o->page_size) ||
	    !measured_make(&m, d, o->model, &shape, o->batch))
		return EXIT_USAGE;
	if (format_for_people(o->format))
		show_note(o->format, "this batch was never measured: times are estimates");
	const int done = o->what == SHOW_WHY || format_for_people(o->format)
			     ? why(d, f, &m, -1, o)
			     : complain_nearest(d, o, &m);
	measured_free(&m);
	return done ? EXIT_DONE : EXIT_CHECK;
}

/* Formats for people get the plan, the reasons and the ranking; others only what was asked for. */
static int show_measured(const struct data *d, const struct forest *f, const struct show *o, int s)
{
	if (o->what == SHOW_WHY)
		return why(d, f, &d->v[s], s, o);
	if (!format_for_people(o->format))
		return show_ways(d, f, s, o->format);
	show_summary(d, f, o, s);
	return why(d, f, &d->v[s], s, o) && show_passes(d, f, o, s);
}

/* f NULL: no header was found, and none is needed. */
static int show_scenario(const struct data *d, const struct forest *f, const struct show *o,
			 const struct batch *batch)
{
	char *text = batch_format(&batch->view);
	const int s = text ? find_scenario(d, o, text) : -1;
	free(text);
	if (s >= 0)
		return show_measured(d, f, o, s) ? EXIT_DONE : EXIT_CHECK;
	return show_unmeasured(d, f, o);
}

/* Whether a known GPU has no times of its own, so that there is only the library's plan. */
static int is_unmeasured(const char *gpu, const char *db)
{
	return gpu_whole(gpu) && access(db, R_OK);
}

/* The rows that are read: those of the batch; where it has none, those of the batches that estimates
 * are made from. */
struct asked {
	const struct show *o;
	const struct batch *batch;
	int readings, is_unknown; /* the model's name */
};

static int ask(void *arg, const struct data *d, char *wanted)
{
	struct asked *a = arg;
	if (a->readings++) {
		if (a->readings > 2 || d->num_cells || d->num_plans)
			return 0;
		const int near =
		    mark_near(d, a->o->model, a->o->page_size, &a->batch->view, wanted);
		a->is_unknown = near < 0;
		return near > 0;
	}
	char *text = batch_format(&a->batch->view);
	for (int s = 0; text && s < d->n; s++)
		wanted[s] = (char)is_asked(&d->v[s], a->o, text);
	free(text);
	return text != NULL;
}

/* A ranking in tsv, csv or json works without a header, but then has no pick. */
static int show_batch(const struct show *o, const char *db, const char *gpu)
{
	char header[PATH_TEXT], error[200];
	struct forest f, *rules = NULL;
	struct batch *batch = batch_parse(o->batch, error, sizeof error);
	struct asked asked = { .o = o, .batch = batch };
	struct data *d = NULL;
	const int needed = o->what == SHOW_WHY || format_for_people(o->format) || rules_asked(o);
	if (!batch || !scenario_batch_is_run(&batch->view, error, sizeof error)) {
		complain("--batch \"%s\": %s", o->batch, error);
		batch_free(batch);
		return EXIT_USAGE;
	}
	if (o->what == SHOW_WHY && !o->db && is_unmeasured(gpu, db)) {
		const int code = show_planned(gpu, o, &batch->view);
		batch_free(batch);
		return code;
	}
	rules_path(header, rules_asked(o), gpu);
	if (needed || !access(header, R_OK))
		rules = forest_load(&f, header) ? &f : NULL;
	if (rules || !needed)
		d = data_load_as(db, gpu,
				 (struct which_rows){ .all = 1, .ask = ask, .arg = &asked });
	const int known = d && !asked.is_unknown, some = known && data_has_times(d, db);
	if (some)
		data_say_noisy(d, db);
	const int code = !known ? EXIT_USAGE
			 : some ? show_scenario(d, rules, o, batch)
				: EXIT_CHECK;
	if (code == EXIT_DONE)
		data_say_machine(d, db);
	data_free(d);
	if (rules)
		forest_free(&f);
	batch_free(batch);
	return code;
}

int cmd_show(int argc, char **argv)
{
	struct show o = { .format = FORMAT_TABLE };
	char gpu[GPU_NAME], db[PATH_TEXT];
	options_parse(&help, argc, argv, &o);
	if (o.what == SHOW_KERNELS)
		return show_kernels(o.gpu, o.format) ? EXIT_DONE : EXIT_USAGE;
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	if (o.what == SHOW_PEERS)
		peers_path(db, o.db, gpu);
	else
		db_path_to_read(db, o.db, gpu);
	switch (o.what) {
	case SHOW_TABLE: return show_tables(gpu, &o);
	case SHOW_CEILINGS: return show_ceilings(db, gpu, o.format);
	case SHOW_STALE: return show_stale(db, gpu, &o);
	case SHOW_BEST:
	case SHOW_PEERS: return show_lists(gpu, db, &o);
	default: return show_batch(&o, db, gpu);
	}
}
