/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - `attune eval`: the slowdown of a header's picks and of the baselines against the
 * fastest measured plan, by split. */
#include "eval.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/policy/policy.h"
#include "tuner/policy/settled.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *gpu, *db, *header, *split, *by, *against, *settled_rows;
	double above; /* 0: not asked */
	enum format format;
	struct trace_options trace;
};

enum { OPT_BY = 256, OPT_AGAINST, OPT_ABOVE, OPT_SETTLED_ROWS };

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "WHICH", 0,
	  "committed (generated/attune_NAME.h), induced (learned now, not written) or a file (committed)", 0 },
	{ "split", 'S', "NAME", 0, "Only this split, or several between commas: train, heldout (all of them) ...", 0 },
	{ "by", OPT_BY, "WHAT", 0, "Only the header, by kind, head, group, page, gpu or set", 0 },
	{ "against", OPT_AGAINST, "FILE", 0, "With --by: another header beside it, on the same scenarios", 0 },
	{ "above", OPT_ABOVE, "X", 0, "List the scenarios that take over X times the fastest, and why", 0 },
	{ "settled-rows", OPT_SETTLED_ROWS, "FILE", 0, "Judge rows of attune bench --settle and --settled in FILE", 0 },
	{ "trace", OPT_TRACE, "FILE", 0, "Estimate the attention time of a simulated trace (CSV) by policy", 0 },
	{ "model", 'm', "NAME@TP", 0, "Trace: the model, as in llama3.1-8b@1", 0 },
	{ "load", OPT_LOAD, "X", 0, "Trace: share of the engine's capacity (0.95)", 0 },
	{ "steps", OPT_STEPS, "N", 0, "Trace: at most N steps, evenly spaced (2000)", 0 },
	{ "requests", OPT_REQUESTS, "N", 0, "Trace: the first N requests (2000)", 0 },
	{ "max-batched-tokens", OPT_BATCHED, "N", 0, "Trace: token limit of the engine's steps (8192)", 0 },
	{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static double above_of(const char *arg, struct argp_state *state)
{
	char *end;
	const double above = strtod(arg, &end);
	if (*end || !(above >= 1 && above <= 1000))
		argp_error(state, "--above '%s' should be a slowdown as in 1.05", arg);
	return above;
}

/* Options that would be ignored are refused. */
static void check_options(const struct options *o, struct argp_state *state)
{
	if (o->by && !is_group(o->by))
		argp_error(state, "--by '%s' should be " GROUP_WORDS, o->by);
	if (o->against && !o->by)
		argp_error(state, "--against is of --by, which is not given");
	if ((o->by != NULL) + (o->above > 0 && !o->settled_rows) + (o->trace.path != NULL) +
		(o->settled_rows != NULL) >
	    1)
		argp_error(state, "--by, --above, --settled-rows and --trace are different "
				  "questions: give one, or --settled-rows with --above");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case 'S': o->split = arg; return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	case OPT_BY: o->by = arg; return 0;
	case OPT_AGAINST: o->against = arg; return 0;
	case OPT_SETTLED_ROWS: o->settled_rows = arg; return 0;
	case OPT_ABOVE: o->above = above_of(arg, state); return 0;
	case ARGP_KEY_END: check_options(o, state); return trace_option(&o->trace, key, arg, state);
	default: return trace_option(&o->trace, key, arg, state);
	}
}

static const char about[] =
    "Prints the slowdown of a header's picks against the fastest measured plan, by split, and "
    "that of the baselines."
    "\vColumns:\n"
    "  invalid        picks without a time: not measured, or failed. The header's\n"
    "                 count as infinitely slow; geomean, p95 and worst are then\n"
    "                 infinite (null in JSON). A baseline's are left out\n"
    "  low, high      95 % interval of the geomean, by resampling blocks of one\n"
    "                 model and batch size\n"
    "  within2        share of the picks within 2 % of the fastest; within5: 5 %\n"
    "  time_weighted  weighted time of all picks / that of the fastest plans\n"
    "  unconfirmed    picks without a time of the second pass although their\n"
    "                 scenario has such times\n"
    "  second_pass    scenarios that are judged by times of the second pass; the\n"
    "                 others by the first\n"
    "  tree_there     geomean of the header where the baseline has a time\n"
    "  beyond20       picks with a time over 20 % slower than the fastest\n"
    "  left_out       of row_settled: legal members of rows, and ways to run mixed\n"
    "                 batches, without the times that settling needs\n"
    "  paired         with --against: the header's time / the other header's,\n"
    "                 geomean; paired_se: standard error of its logarithm\n\n"
    "row_settled is the fastest of the members of the header's row by times of\n"
    "the first pass, judged by times of the second. In a mixed batch both parts\n"
    "settle first, and then the ways to run them. Without a second pass one time\n"
    "does both. Where the header's own plan lacks a time, it stays. --above 1.2\n"
    "explains each batch beyond 20 %.\n\n"
    "--settled-rows: what remembering settled batches is worth, by policy of\n"
    "attune bench --settle and --settled, and by kind of batch. A slowdown is that\n"
    "of the race's plan without memory, by the database, times the policy's time\n"
    "over that plan's in the race. fastest: the fastest of the race. slower1: share\n"
    "more than 1 % slower than without memory; paired: time / time without memory.\n"
    "by_race: batches without a time in the database, judged by the race alone. ms:\n"
    "what settling took. With --above: the batches that settled take over X times\n"
    "the fastest.\n\n"
    "A header of portable rules is judged among the choices that it may name: the\n"
    "fastest is the fastest of these.\n\n"
    "Examples:\n  attune eval --gpu h200\n  attune eval --gpu cpu --header induced --format "
    "json\n  attune eval --gpu h200 "
    "--trace mine.csv --model llama3.1-8b@1 --load 0.9\n"
    "  attune eval --gpu h200 --split heldout --by kind --against old.h\n"
    "  attune eval --gpu h200 --split heldout --above 1.05";
static const struct argp help = { .options = rows, .parser = parse_option, .doc = about };

/* ---- every policy on every split ----------------------------------------------------------- */
/* The oracle's own row: 1 everywhere, over the scenarios with a time. */
static struct score score_of_oracle(const struct data *d, const char *split)
{
	struct score s = { .geomean = 1,
			   .p95 = 1,
			   .worst = 1,
			   .low = 1,
			   .high = 1,
			   .within2 = 1,
			   .within5 = 1,
			   .time_weighted = 1 };
	for (int m = 0; m < d->n; m++) {
		const int is_right = in_split(&d->v[m], split) && isfinite(data_oracle(d, m));
		s.n += is_right;
		s.second_pass += is_right && data_has_second_pass(d, m);
	}
	return s;
}

/* tree: the geomean of the header's own picks where the policy has a time. */
static void add_row(struct table *t, const char *policy, const char *split, const struct score *s,
		    double tree, double left_out)
{
	if (!s->n)
		return;
	table_text(t, policy);
	table_text(t, split);
	table_number(t, s->n, 0);
	table_number(t, s->geomean, 4);
	table_number(t, s->low, 4);
	table_number(t, s->high, 4);
	table_number(t, s->p95, 3);
	table_number(t, s->worst, 3);
	table_number(t, s->within2, 3);
	table_number(t, s->within5, 3);
	table_number(t, s->time_weighted, 4);
	table_number(t, s->unconfirmed, 0);
	table_number(t, s->invalid, 0);
	table_number(t, s->second_pass, 0);
	table_number(t, tree, 4);
	table_number(t, s->beyond20, 0);
	table_number(t, left_out, 0);
	table_end_row(t);
}

/* A baseline is judged where it has a time, with the header's own picks beside it. */
static int add_baseline(struct table *t, const struct data *d, enum policy p,
			const struct pick *picks, const struct pick *tree, const char *split)
{
	struct score s, of_tree;
	if (!score_where(d, picks, picks, split, &s) ||
	    !score_where(d, tree, picks, split, &of_tree))
		return 0;
	add_row(t, policy_names[p], split, &s, of_tree.geomean, NAN);
	return 1;
}

/* The header's rows, settled. */
static int add_settled(struct table *t, const struct data *d, const struct settled *settled,
		       const struct pick *tree, const char *const *split, int splits)
{
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	int done = picks != NULL;
	for (int s = 0; done && s < d->n; s++)
		picks[s] = settled[s].pick;
	for (int i = 0; done && i < splits; i++) {
		struct score s, of_tree;
		double left_out = 0;
		for (int k = 0; k < d->n; k++)
			left_out += in_split(&d->v[k], split[i]) ? settled[k].left_out : 0;
		done = score_where(d, picks, picks, split[i], &s) &&
		       score_where(d, tree, picks, split[i], &of_tree);
		add_row(t, "row_settled", split[i], &s, of_tree.geomean, left_out);
	}
	free(picks);
	return done;
}

static int add_rows(struct table *t, const struct data *d, const struct forest *f,
		    const struct settled *settled, const char *const *split, int splits)
{
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	struct pick *tree = calloc((size_t)d->n + 1, sizeof *tree);
	int done = picks && tree && policy_picks(d, POLICY_TREE, f, tree);
	for (int p = 0; done && p < NUM_POLICIES; p++) {
		if (p != POLICY_ORACLE && !policy_picks(d, (enum policy)p, f, picks))
			continue;
		for (int i = 0; done && i < splits; i++) {
			struct score s = score_of_oracle(d, split[i]);
			if (p != POLICY_ORACLE && p != POLICY_TREE) {
				done = add_baseline(t, d, (enum policy)p, picks, tree, split[i]);
				continue;
			}
			done = p == POLICY_ORACLE || score_picks(d, picks, split[i], &s);
			add_row(t, policy_names[p], split[i], &s, NAN, NAN);
		}
		if (done && p == POLICY_TREE)
			done = add_settled(t, d, settled, tree, split, splits);
	}
	free(picks);
	free(tree);
	return done;
}

/* ---- output ------------------------------------------------------------------------------ */
static int print_json(struct table *scores, struct table *lost, const struct data *d,
		      const struct forest *f)
{
	struct json_out *o = out_new();
	out_object(o, NULL);
	table_json(scores, o, "rows");
	table_json(lost, o, "beyond20");
	out_integer(o, "leaves", forest_leaves(f));
	out_integer(o, "kernels", forest_kernels(f));
	out_integer(o, "variants", f->num_choices);
	noise_json(o, &d->noise);
	out_end(o);
	return out_print(o, 0, stdout);
}

static void print_heading(const struct data *d, const struct forest *f)
{
	const struct noise *n = &d->noise;
	printf("# %s: %d scenarios, %d leaves, %d choices of %d kernels\n", f->gpu, d->n,
	       forest_leaves(f), f->num_choices, forest_kernels(f));
	printf("# noise floor %.1f %% below 20 us, %.1f %% below 200 us, %.1f %% above (%d, %d, %d "
	       "A/A pairs)\n",
	       100 * n->floor[0], 100 * n->floor[1], 100 * n->floor[2], n->pairs[0], n->pairs[1],
	       n->pairs[2]);
}

/* Whether there is something to evaluate. */
static int has_scenarios(const struct data *d, const char *asked)
{
	int n = 0, right = 0;
	for (int s = 0; s < d->n; s++)
		if (in_split(&d->v[s], asked))
			n++, right += isfinite(data_oracle(d, s));
	if (!n)
		complain("%s has no scenario of split '%s'; nothing was evaluated", d->gpu,
			 asked ? asked : "any");
	else if (!right)
		complain("no scenario of %s has a correct result; nothing was evaluated", d->gpu);
	return right;
}

static int evaluate(const struct data *d, const struct forest *f, const struct options *o)
{
	static const char *const columns[] = {
		"policy",  "split",       "n",          "geomean",  "low",           "high",
		"p95",     "worst",       "within2",    "within5",  "time_weighted", "unconfirmed",
		"invalid", "second_pass", "tree_there", "beyond20", "left_out"
	};
	const char *split[MAX_SPLITS] = { o->split };
	const int splits = o->split ? 1 : data_splits(d, split);
	struct settled *settled = settle_all(d, f);
	policies_say_unlearned(d);
	struct table *t = settled ? table_new(o->format, columns, (int)COUNT(columns)) : NULL;
	if (!t || !add_rows(t, d, f, settled, split, splits))
		return 0;
	int done = 1;
	if (o->format == FORMAT_JSON) {
		const struct lost_asked beyond = { .split = o->split ? o->split : "heldout",
						   .above = 1.2,
						   .is_settled = 1 };
		struct table *lost = lost_table(d, f, settled, &beyond, o->format);
		done = lost && print_json(t, lost, d, f);
	} else {
		if (format_has_notes(o->format))
			print_heading(d, f);
		table_print(t, stdout);
	}
	free(settled);
	return done;
}

/* The scenarios above a slowdown. */
static int list_above(const struct data *d, const struct forest *f, const struct options *o)
{
	const struct lost_asked asked = { .split = o->split, .above = o->above };
	struct settled *settled = settle_all(d, f);
	struct table *t = settled ? lost_table(d, f, settled, &asked, o->format) : NULL;
	if (t)
		table_print(t, stdout);
	free(settled);
	return t != NULL;
}

/* against: of --against, or NULL. */
static int answer(const struct data *d, const struct forest *f, const struct forest *against,
		  const struct options *o)
{
	if (o->trace.path)
		return trace_print(d, f, &o->trace, o->format);
	if (!has_scenarios(d, o->split))
		return 0;
	if (o->settled_rows)
		return settled_rows_print(d, f, o->settled_rows, o->split, o->above, o->format);
	if (o->by)
		return groups_print(d, f, against, o->by, o->split, o->format);
	return o->above > 0 ? list_above(d, f, o) : evaluate(d, f, o);
}

/* The rules that are judged: of a header, or learned now. 0 + complain. */
static int rules_find(struct forest *f, const struct data *d, const char *header)
{
	char path[PATH_TEXT];
	if (header && !strcmp(header, "induced"))
		return forest_induce(f, d, &default_limits);
	rules_path(path, header && strcmp(header, "committed") ? header : NULL, d->gpu);
	return forest_load(f, path);
}

/* Portable rules are judged among the choices that they may name: the fastest is the fastest of
 * these. NULL + complain. */
static struct data *mask_for(const struct forest *f, struct data *d, const char *db)
{
	if (strcmp(f->gpu, PORTABLE_GPU) || d->is_portable)
		return d;
	struct data *masked = data_load_as(db, d->gpu, (struct which_rows){ .portable = 1 });
	data_free(d);
	return masked;
}

int cmd_eval(int argc, char **argv)
{
	struct options o = { .format = FORMAT_TABLE, .trace = trace_defaults };
	char gpu[GPU_NAME], db[PATH_TEXT];
	struct forest f, against = { 0 };
	int code = EXIT_USAGE;
	options_parse(&help, argc, argv, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path_to_read(db, o.db, gpu);
	o.db = db;
	struct data *d = data_load(o.db, gpu);
	const int asks_right = d && split_known(d, o.split);
	if (asks_right && !data_has_times(d, o.db))
		code = EXIT_CHECK;
	else if (asks_right && rules_find(&f, d, o.header)) {
		d = mask_for(&f, d, o.db);
		if (d && (!o.against || forest_load(&against, o.against)))
			code =
			    answer(d, &f, o.against ? &against : NULL, &o) ? EXIT_DONE : EXIT_CHECK;
		if (code == EXIT_DONE) {
			data_say_machine(d, o.db);
			data_say_left_out(d, o.db);
		}
		forest_free(&f);
		forest_free(&against);
	}
	data_free(d);
	return code;
}
