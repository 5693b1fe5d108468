/* ladder_cmd.c - `attune ladder`: prints the gain of each step from the first kernel to the tuned
 * choice, and measures the rungs. */
#include "hybrid.h"
#include "ladder.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/remeasure/requests.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_MEASURE = 256, OPT_ALL, OPT_HYBRID, OPT_BUDGET, OPT_ANYWAY, OPT_FORMAT, MAX_SETS = 8 };
enum { SHARES = 3 };
static const int shares[SHARES] = { 0, 50, 100 };

struct options {
	const char *gpu, *db, *header, *model;
	char *sets; /* NULL: the GPU's own */
	int measure, all, hybrid, anyway;
	double budget_s;
	enum format format;
};

/* ---- the tables ----------------------------------------------------------------------- */
static void plan_words(const struct measured *m, const struct decided *made, char *text,
		       size_t size)
{
	char part[2][MAX_CHOICE_TEXT] = { "", "" };
	if (made->prefill.kernel)
		choice_text(part[0], sizeof part[0], &made->prefill);
	if (made->decode.kernel)
		choice_text(part[1], sizeof part[1], &made->decode);
	if (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE] && made->join)
		parts_text(text, size, part[0], part[1], made->how);
	else
		snprintf(text, size, "%s", m->has[PHASE_PREFILL] ? part[0] : part[1]);
}

/* Prints a row for each measured batch and rung. */
static int print_all(const struct ladder *l, const struct options *o)
{
	static const char *const columns[] = { "decode_share", "seqs",  "length", "batch", "rung",
					       "median_us",    "ratio", "paired", "plan" };
	struct table *t = table_new(o->format, columns, (int)COUNT(columns));
	struct uniform u;
	int n = 0;
	for (int s = 0; t && s < l->d->n; s++) {
		const struct measured *m = &l->d->v[s];
		struct climb c;
		if (!ladder_has(l->d, s, o->model, &u))
			continue;
		ladder_climb(l, s, &c);
		for (int i = 0; i < num_rungs; i++) {
			char text[2 * MAX_CHOICE_TEXT + 32];
			if (isnan(c.us[i]))
				continue;
			plan_words(m, &c.made[i], text, sizeof text);
			table_number(t, u.share, 0);
			table_number(t, u.seqs, 0);
			table_number(t, u.length, 0);
			table_text(t, m->batch_text);
			table_text(t, rung_name(i));
			table_number(t, c.us[i], 2);
			table_number(t, c.ratio[i], 3);
			table_text(t, c.paired[i] ? "yes" : "no");
			table_text(t, text);
			table_end_row(t);
			n++;
		}
	}
	if (t)
		table_print(t, stdout);
	return n;
}

struct sums { /* over the batches of one share with times of the base and the rung */
	int n;
	double log_sum, most, least;
};

static void add_climb(struct sums sum[MAX_RUNGS][SHARES], int share, const struct climb *c)
{
	for (int i = 0; i < num_rungs; i++) {
		struct sums *s = &sum[i][share];
		if (isnan(c->ratio[i]))
			continue;
		s->most = s->n ? fmax(s->most, c->ratio[i]) : c->ratio[i];
		s->least = s->n ? fmin(s->least, c->ratio[i]) : c->ratio[i];
		s->log_sum += log(c->ratio[i]);
		s->n++;
	}
}

/* Prints a row for each share and rung: its speedup over the Q block. */
static int print_sums(const struct ladder *l, const struct options *o)
{
	static const char *const columns[] = { "decode_share", "rung",       "batches", "ratio",
					       "least_ratio",  "most_ratio", "about" };
	struct sums sum[MAX_RUNGS][SHARES] = { 0 };
	struct table *t = table_new(o->format, columns, (int)COUNT(columns));
	struct uniform u;
	int n = 0;
	for (int s = 0; t && s < l->d->n; s++) {
		struct climb c;
		if (!ladder_has(l->d, s, o->model, &u))
			continue;
		ladder_climb(l, s, &c);
		add_climb(sum, u.share / 50, &c);
	}
	for (int k = 0; t && k < SHARES; k++)
		for (int i = 0; i < num_rungs; i++) {
			const struct sums *s = &sum[i][k];
			if (!s->n)
				continue;
			table_number(t, shares[k], 0);
			table_text(t, rung_name(i));
			table_number(t, s->n, 0);
			table_number(t, exp(s->log_sum / s->n), 3);
			table_number(t, s->least, 3);
			table_number(t, s->most, 3);
			table_text(t, rung_about(i));
			table_end_row(t);
			n++;
		}
	if (t)
		table_print(t, stdout);
	return n;
}

/* Prints a row for each way to run batches of one chunk and many decodes. */
static int print_hybrid(const struct data *d, const struct forest *f, const struct options *o)
{
	static const char *const columns[] = { "way",       "batches",   "faster_%",
					       "ratio",     "p10_ratio", "median_ratio",
					       "p90_ratio", "most_ratio" };
	struct table *t = table_new(o->format, columns, (int)COUNT(columns));
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	double *v = malloc(sizeof *v * ((size_t)d->n + 1));
	int n = 0, printed = 0;
	const int picked = picks && policy_picks(d, POLICY_TREE, f, picks);
	struct hybrid *h = hybrids_find(d, picked ? picks : NULL, &n);
	for (int k = 0; t && v && h && k < NUM_WAYS; k++) {
		const int has = hybrids_gains(h, n, (enum way)k, v);
		int faster = 0;
		if (!has)
			continue;
		for (int i = 0; i < has; i++)
			faster += v[i] > 1;
		table_text(t, way_names[k]);
		table_number(t, has, 0);
		table_number(t, 100.0 * faster / has, 0);
		table_number(t, gains_mean(v, has), 3);
		table_number(t, quantile(v, has, 0.1), 3);
		table_number(t, quantile(v, has, 0.5), 3);
		table_number(t, quantile(v, has, 0.9), 3);
		table_number(t, v[has - 1], 3);
		table_end_row(t);
		printed++;
	}
	if (t)
		table_print(t, stdout);
	free(h);
	free(v);
	free(picks);
	return printed;
}

/* ---- measuring --------------------------------------------------------------------------- */
static int load_sets(struct scenario_list *list, const struct options *o)
{
	char path[PATH_TEXT], file[PATH_TEXT + 300], *save = NULL;
	struct models *models = models_load(data_path(path, "scenarios/models.json"));
	char *names = strdup(o->sets ? o->sets : "ladder_h200,peers_h200,h200");
	int ok = models && names;
	if (!names)
		complain("out of memory");
	data_path(path, "scenarios");
	for (char *name = ok ? strtok_r(names, ",", &save) : NULL; ok && name;
	     name = strtok_r(NULL, ",", &save)) {
		snprintf(file, sizeof file, "%s/%s.json", path, name);
		ok = scenarios_load(list, strchr(name, '/') ? name : file, models);
	}
	free(names);
	models_free(models);
	return ok;
}

static int is_asked(const struct scenario *s, const struct options *o, struct uniform *u)
{
	return !strcmp(s->model, o->model) && s->shape.page_size == 16 &&
	       s->shape.dtype == ATTUNE_BF16 && s->layout != LAYOUT_HND &&
	       batch_uniform(&s->batch->view, u) && in_figures(u);
}

/* Puts all rungs of a batch in one race, so their ratios come from the same minutes. */
static int collect(struct wishes *w, const struct ladder *l, const struct scenario_list *list,
		   const struct options *o)
{
	struct uniform u;
	int n = 0;
	for (int s = 0; s < list->n; s++) {
		struct measured m;
		struct decided made;
		if (!is_asked(&list->v[s], o, &u) ||
		    !measured_make_view(&m, l->d, &list->v[s].shape, &list->v[s].batch->view))
			continue;
		for (int i = 0; i < num_rungs; i++)
			if (rung_made(l, i, &m, &made))
				wish_made(w, s, &m, &made);
		n++;
	}
	return n;
}

static int measure(const struct ladder *l, const struct options *o, const char *db)
{
	const struct sweep_options sweep = { .gpu = o->gpu,
					     .db = db,
					     .command = o->anyway ? "ladder --anyway" : "ladder",
					     .preset = PRESET_FULL,
					     .budget_s = o->budget_s,
					     .shards = 1,
					     .again = 1,
					     .anyway = o->anyway,
					     .seed = 1 };
	struct scenario_list list = { 0 };
	struct wishes w = { 0 };
	int code = EXIT_USAGE;
	if (load_sets(&list, o)) {
		const int n = collect(&w, l, &list, o);
		complain("%d cells and plans of %d batches", w.n, n);
		code = w.failed ? EXIT_CHECK
				: wishes_measure(&w, &sweep, &list, stage_names[STAGE_COMPLETE]);
	}
	free(w.v);
	scenarios_free(&list);
	return code;
}

/* ---- the command --------------------------------------------------------------------------- */
// clang-format off
static const struct argp_option argp_options[] = {
	{ "gpu",       'g',         "NAME",   0, "Device: h200, ... (this machine's)", 0 },
	{ "db",        'd',         "FILE",   0, "Database (results/NAME.sqlite)", 0 },
	{ "header",    'H',         "FILE",   0, "Header for the tuned rung (generated/attune_NAME.h)", 0 },
	{ "model",     'm',         "NAME@N", 0, "Model of the batches (llama3.1-8b@1)", 0 },
	{ "all",       OPT_ALL,     0,        0, "A row for each batch and rung, not for each rung", 0 },
	{ "hybrid",    OPT_HYBRID,  0,        0, "Instead print the speedup of each overlap over the best serial plan, on batches of one prompt chunk and many decodes", 0 },
	{ "measure",   OPT_MEASURE, 0,        0, "First measure all rungs, one race for each batch", 0 },
	{ "scenarios", 's',         "SETS",   0, "Measure: sets with the batches, names in the scenarios folder or paths (ladder_h200,peers_h200,h200)", 0 },
	{ "budget",    OPT_BUDGET,  "TIME",   0, "Measure: stop after this time, with compilation: 90s, 10m, 1h (10m)", 0 },
	{ "anyway",    OPT_ANYWAY,  0,        0, "Measure even if other programs use the machine", 0 },
	{ "format",    OPT_FORMAT,  "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); break;
	case 'd': o->db = arg; break;
	case 'H': o->header = arg; break;
	case 'm': o->model = arg; break;
	case 's': o->sets = arg; break;
	case OPT_ALL: o->all = 1; break;
	case OPT_HYBRID: o->hybrid = 1; break;
	case OPT_MEASURE: o->measure = 1; break;
	case OPT_ANYWAY: o->anyway = 1; break;
	case OPT_BUDGET:
		o->budget_s = budget_seconds(arg);
		if (isnan(o->budget_s))
			argp_error(state, "--budget '%s' should be as in 90s, 10m or 1h", arg);
		break;
	case OPT_FORMAT: format_option(&o->format, arg, state); break;
	case ARGP_KEY_ARG: argp_error(state, "\"%s\" is not an option; see --help", arg); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp help = {
	argp_options,
	parse,
	NULL,
	"Prints the gain of each step (rung) from the first kernel to the tuned choice: its "
	"speedup over the Q block on batches of equal sequences, by the share of decodes."
	"\vratio: the Q block's time / the rung's time, geometric mean over the batches with both. "
	"paired: the ratio is from one race, by rounds.\n\n"
	"Examples:\n  attune ladder --gpu h200\n  attune ladder --gpu h200 --all --format tsv\n"
	"  attune ladder --gpu h200 --measure --budget 5m\n  attune ladder --gpu h200 --hybrid",
	NULL,
	NULL,
	NULL
};

static int ladder(const struct data *d, const struct forest *f, const struct options *o,
		  const char *db)
{
	struct ladder l;
	if (o->hybrid) {
		if (print_hybrid(d, f, o))
			return EXIT_DONE;
		complain("%s has no plans for batches of one prompt chunk and many decodes", db);
		return EXIT_CHECK;
	}
	ladder_make(&l, d, f, o->model);
	if (!(o->all ? print_all : print_sums)(&l, o)) {
		complain("%s has no batches of the ladder of %s; attune ladder --measure "
			 "measures them",
			 db, o->model);
		return EXIT_CHECK;
	}
	return EXIT_DONE;
}

int cmd_ladder(int argc, char **argv)
{
	struct options o = { .model = "llama3.1-8b@1", .budget_s = 600 };
	char gpu[GPU_NAME], db[PATH_TEXT], header[PATH_TEXT];
	struct forest f;
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path(db, o.db, gpu);
	rules_path(header, o.header, gpu);
	o.gpu = gpu;
	struct data *d = data_load_all(db, gpu);
	if (d && forest_load(&f, header)) {
		code = EXIT_DONE;
		if (o.measure) {
			struct ladder l;
			ladder_make(&l, d, &f, o.model);
			code = measure(&l, &o, db);
			data_free(d);
			d = code ? NULL : data_load_all(db, gpu);
		}
		if (!code)
			code = d ? ladder(d, &f, &o, db) : EXIT_USAGE;
		forest_free(&f);
	}
	data_free(d);
	return code;
}
