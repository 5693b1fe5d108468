/* SPDX-License-Identifier: Apache-2.0 */
/* scenarios_cmd.c - attune scenarios: lists scenario sets and single batches with the work of each
 * scenario, and generates sets from request traces and captured steps. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/generate/engine_sim.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------- */
/* Prints scenario sets, single batches and models as tables, with the work of each scenario. */

enum { LISTING_SETS = 64 };
struct listing {
	enum format format;
	const char *dir, *batch, *model; /* model: of the batch; of sets, only its scenarios */
	const char *set[LISTING_SETS];   /* names below dir, or paths; none: all of dir */
	int num_sets, page_size;         /* page_size: of the batch */
};

enum { MAX_PATH = PATH_TEXT + 300, CUT = 44 };

static const char *const columns[] = { "set",      "split",  "model",  "page_size", "dtype",
				       "kv_dtype", "layout", "weight", "seqs",      "decode_share",
				       "tokens",   "kv_mb",  "gflop",  "batch" };

static void dtype_cell(struct table *t, enum attune_dtype dtype)
{
	static const char *const names[] = { "f32", "f16", "bf16", "e4m3" };
	table_text(t, names[dtype]);
}

/* A batch from a trace has thousands of characters, so tables for people cut it. */
static void batch_cell(struct table *t, const char *text, enum format format)
{
	char cut[CUT + 4];
	if (format != FORMAT_TABLE || strlen(text) <= CUT) {
		table_text(t, text);
		return;
	}
	snprintf(cut, sizeof cut, "%.*s...", CUT, text);
	table_text(t, cut);
}

static void scenario_row(struct table *t, const struct scenario *s, enum format format)
{
	struct facts f;
	scenario_facts(&f, &s->shape, &s->batch->view);
	table_text(t, s->set);
	table_text(t, s->split);
	table_text(t, s->model);
	table_number(t, s->shape.page_size, 0);
	dtype_cell(t, s->shape.dtype);
	dtype_cell(t, s->shape.kv_dtype);
	table_text(t, layout_names[s->layout]);
	table_number(t, s->weight, 3);
	table_number(t, f.seqs, 0);
	table_number(t, f.seqs ? (double)f.decodes / f.seqs : 0, 3);
	table_number(t, (double)f.query_tokens, 0);
	table_number(t, f.kv_bytes / 1e6, 2);
	table_number(t, f.flops / 1e9, 2);
	batch_cell(t, s->batch_text, format);
	table_end_row(t);
}

static int list_models(const struct models *m, enum format format)
{
	static const char *const names[] = { "model",     "query_heads", "kv_heads", "group",
					     "head_size", "window",      "softcap",  "sinks",
					     "scale",     "alibi",       "cross" };
	struct table *t = table_new(format, names, COUNT(names));
	const char *name;
	for (int i = 0; (name = models_name(m, i)); i++) {
		const attune_shape *s = models_find(m, name);
		table_text(t, name);
		table_number(t, s->num_query_heads, 0);
		table_number(t, s->num_kv_heads, 0);
		table_number(t, s->num_query_heads / s->num_kv_heads, 0);
		table_number(t, s->head_size, 0);
		table_number(t, s->window, 0);
		table_number(t, s->softcap, 0);
		table_number(t, s->has_sinks, 0);
		table_number(t, s->scale > 0 ? s->scale : 1 / sqrt(s->head_size), 4);
		table_number(t, s->has_alibi, 0);
		table_number(t, !s->causal, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	return EXIT_DONE;
}

static int list_batch(const struct listing *o, const struct models *m)
{
	struct scenario s;
	if (!scenario_of_batch(&s, o->batch, o->model, o->page_size, m))
		return EXIT_USAGE;
	*s.set = *s.split = '\0';
	struct table *t = table_new(o->format, columns, COUNT(columns));
	scenario_row(t, &s, o->format);
	table_print(t, stdout);
	scenario_drop(&s);
	return EXIT_DONE;
}

static int list_sets(const struct listing *o, struct models *m)
{
	struct scenario_list list = { 0 };
	int ok = o->num_sets || scenarios_load_all(&list, o->dir, m);
	for (int i = 0; ok && i < o->num_sets; i++)
		ok = scenario_set_load(&list, o->dir, o->set[i], m);
	attune_shape unused;
	ok = ok && (!o->model || models_shape(m, o->model, &unused));
	if (ok) {
		struct table *t = table_new(o->format, columns, COUNT(columns));
		for (int i = 0; i < list.n; i++)
			if (!o->model || !strcmp(o->model, list.v[i].model))
				scenario_row(t, &list.v[i], o->format);
		table_print(t, stdout);
	}
	scenarios_free(&list);
	return ok ? EXIT_DONE : EXIT_USAGE;
}

/* ---- the command ------------------------------------------------------------------- */

enum { MAX_TRACES = 64, MAX_PICK = 1000 };

struct options {
	struct listing list;
	const char *grid;
	const char *hf; /* a config.json; each kind of its layers is added to the models */
	int list_models, stats;
	struct job job[MAX_TRACES + 1]; /* the first: defaults of the others */
	int num_jobs;
};

enum {
	OPT_BATCH = 256,
	OPT_DIR,
	OPT_FORMAT,
	OPT_MODELS,
	OPT_PAGE,
	OPT_LOAD,
	OPT_TOKENS,
	OPT_SEQS,
	OPT_KV,
	OPT_PICK,
	OPT_REQUESTS,
	OPT_LONGEST,
	OPT_GFLOP,
	OPT_SEED,
	OPT_SPLIT,
	OPT_LEAVE_OUT,
	OPT_CORNERS,
	OPT_HOLD_OUT,
	OPT_STATS,
	OPT_CACHING,
	OPT_DRAFTS,
	OPT_ACCEPT,
	OPT_COST,
	OPT_GRID,
	OPT_STEPS,
	OPT_HF
};

// clang-format off
static const struct argp_option argp_options[] = {
	{ 0, 0, 0, 0, "What to list:", 1 },
	{ "set", 's', "NAME", 0,
	  "The set scenarios/NAME.json, or a path; may be repeated (all)", 0 },
	{ "batch", OPT_BATCH, "TEXT", 0, "A batch by itself: 2q2k_32q1s1k", 0 },
	{ "model", 'm', "NAME@N", 0,
	  "Model and tensor-parallel degree of --batch (llama3.1-8b@1), or several that the picks "
	  "of --trace share in turn: a@1,b@4; of a set, only this model's scenarios", 0 },
	{ "page-size", OPT_PAGE, "TOKENS", 0, "Page size of --batch (16)", 0 },
	{ "models", OPT_MODELS, 0, 0, "List the models and their shapes", 0 },
	{ "hf", OPT_HF, "CONFIG", 0,
	  "Add the layers of a Hugging Face config.json to the models; a new set without --model "
	  "is of these. By itself: print them as JSON", 0 },
	{ "dir", OPT_DIR, "DIR", 0, "Where the sets and models.json are (scenarios)", 0 },
	{ "format", OPT_FORMAT, "FORMAT", 0, FORMAT_WORDS, 0 },
	{ 0, 0, 0, 0,
	  "A new set from request traces or captured steps, as JSON on stdout. Options after a "
	  "--trace or --steps apply to it and later ones; options before the first, to all:", 2 },
	{ "trace", 't', "CSV", 0,
	  "Columns arrival_s, prompt_tokens, output_tokens; may be repeated", 0 },
	{ "steps", OPT_STEPS, "FILE", 0,
	  "Steps that libattune.capture wrote; may be repeated. Only --pick, --max-gflop, --split, "
	  "--corners, --hold-out, --leave-out, --step-cost and --seed apply", 0 },
	{ "load", OPT_LOAD, "SHARE", 0,
	  "Request rate as a share of the engine's throughput (0.95)", 0 },
	{ "max-batched-tokens", OPT_TOKENS, "N", 0, "Token budget of a step (8192)", 0 },
	{ "max-seqs", OPT_SEQS, "N", 0, "Sequences that run together (256)", 0 },
	{ "kv-tokens", OPT_KV, "N", 0, "Tokens that the KV cache holds (400k)", 0 },
	{ "prefix-caching", OPT_CACHING, "yes|no", 0,
	  "Count the tokens of column cached_prefix_tokens as already computed (no)", 0 },
	{ "speculative", OPT_DRAFTS, "N", 0,
	  "Draft tokens in addition to each decode's own, up to 7 (0)", 0 },
	{ "accept", OPT_ACCEPT, "TOKENS", 0,
	  "Tokens that a decode with drafts advances on average, up to N + 1 (1 + N / 2)", 0 },
	{ "step-cost", OPT_COST, "MS,MS,MS", 0,
	  "Milliseconds of a step, of each query token, of each KV token (4,0.02,3e-5)", 0 },
	{ "pick", OPT_PICK, "N", 0, "Steps to keep (24)", 0 },
	{ "requests", OPT_REQUESTS, "N", 0, "Requests to simulate (2500)", 0 },
	{ "max-request", OPT_LONGEST, "N", 0,
	  "Leave out requests of more tokens, prompt and output together (64k)", 0 },
	{ "max-gflop", OPT_GFLOP, "N", 0,
	  "Keep no step of more attention work than this (no limit)", 0 },
	{ "split", OPT_SPLIT, "NAME", 0, "train, peers, heldout, heldout_traces ... (train)", 0 },
	{ "corners", OPT_CORNERS, "yes|no", 0,
	  "Also keep the steps with the longest sequence, the most sequences and the most "
	  "prefill (yes)", 0 },
	{ "hold-out", OPT_HOLD_OUT, "SHARE", 0,
	  "Hold out the last SHARE of the engine's time, and the same share of the picks (0)",
	  0 },
	{ "leave-out", OPT_LEAVE_OUT, "yes|no", 0,
	  "Keep no step of the batch sizes and lengths that are held out as blocks, and hold out "
	  "a tenth of the picks (no)", 0 },
	{ "seed", OPT_SEED, "N", 0,
	  "Seed of the first step and of which drafts are accepted (1)", 0 },
	{ "stats", OPT_STATS, 0, 0,
	  "Print statistics instead of a set: shares of steps and of time that only decode, and "
	  "medians", 0 },
	{ 0, 0, 0, 0, "Synthetic batches, as JSON on stdout, alone or before those of traces:", 3 },
	{ "grid", OPT_GRID, "NAME", 0,
	  "As in the committed sets: h200, shapes_h200, dense_h200, hybrid_h200, unseen_h200, "
	  "gate_h200, blends_h200, drafts_h200, coverage_h200, coverage_gate_h200, "
	  "coverage_unseen_h200, cpu or gate_cpu", 0 },
	{ 0 }
};
// clang-format on

/* "400k" -> 409600, as in batches; refuses anything else. */
static long long count_arg(struct argp_state *state, const char *option, const char *text)
{
	char *end;
	double v = strtod(text, &end);
	if (*end == 'k') {
		v *= 1024;
		end++;
	}
	if (end == text || *end || !(v >= 1 && v <= 1 << 30) || v != floor(v))
		argp_error(state,
			   "--%s is \"%s\"; it must be an integer of 1 or more, such as "
			   "256 or 64k",
			   option, text);
	return (long long)v;
}

static double positive_arg(struct argp_state *state, const char *option, const char *text)
{
	char *end;
	double v = strtod(text, &end);
	if (end == text || *end || !(v > 0 && v < 1e18))
		argp_error(state, "--%s is \"%s\"; it must be a number above 0", option, text);
	return v;
}

static void add_set(struct argp_state *state, struct options *o, const char *name)
{
	if (o->list.num_sets == LISTING_SETS)
		argp_error(state, "at most %d sets can be listed together", LISTING_SETS);
	o->list.set[o->list.num_sets++] = name;
}

static void add_job(struct argp_state *state, struct options *o, const char *path, int is_captured)
{
	if (o->num_jobs == MAX_TRACES)
		argp_error(state, "at most %d traces can be replayed together", MAX_TRACES);
	o->job[o->num_jobs + 1] = o->job[o->num_jobs];
	o->job[++o->num_jobs].path = path;
	o->job[o->num_jobs].is_captured = is_captured;
}

static int is_split(const char *name)
{
	for (const char *const *s = scenario_splits; *s; s++)
		if (!strcmp(*s, name))
			return 1;
	return 0;
}

static int yes_arg(struct argp_state *state, const char *option, const char *text)
{
	if (strcmp(text, "yes") && strcmp(text, "no"))
		argp_error(state, "--%s is \"%s\"; it must be yes or no", option, text);
	return text[0] == 'y';
}

static void cost_arg(struct argp_state *state, struct job *job, const char *text)
{
	struct step_cost *c = &job->cost;
	int end = 0;
	if (sscanf(text, "%lf,%lf,%lf%n", &c->step_ms, &c->query_ms, &c->kv_ms, &end) < 3 ||
	    text[end] || !(c->step_ms > 0 && c->query_ms >= 0 && c->kv_ms >= 0))
		argp_error(state,
			   "--step-cost is \"%s\"; it must be milliseconds of a step, of a query "
			   "token and of a KV token, such as 4,0.02,3e-5",
			   text);
}

static error_t parse_job(int key, char *arg, struct argp_state *state, struct job *job)
{
	char *end;
	switch (key) {
	case OPT_LOAD: job->load = positive_arg(state, "load", arg); break;
	case OPT_GFLOP: job->max_gflop = positive_arg(state, "max-gflop", arg); break;
	case OPT_TOKENS:
		job->engine.max_batched_tokens = (int)count_arg(state, "max-batched-tokens", arg);
		break;
	case OPT_SEQS:
		job->engine.max_seqs = (int)count_arg(state, "max-seqs", arg);
		if (job->engine.max_seqs > 65536)
			argp_error(state, "--max-seqs must be at most 65536");
		break;
	case OPT_KV: job->engine.kv_tokens = count_arg(state, "kv-tokens", arg); break;
	case OPT_PICK:
		job->pick = (int)count_arg(state, "pick", arg);
		if (job->pick > MAX_PICK)
			argp_error(state, "--pick must be at most %d", MAX_PICK);
		break;
	case OPT_REQUESTS: job->requests = (int)count_arg(state, "requests", arg); break;
	case OPT_LONGEST: job->max_request = (int)count_arg(state, "max-request", arg); break;
	case OPT_SEED: job->seed = (unsigned long long)count_arg(state, "seed", arg); break;
	case OPT_SPLIT:
		if (!is_split(arg))
			argp_error(state,
				   "--split is \"%s\"; it must be train, peers or one that "
				   "begins with heldout, as in scenarios/README.md",
				   arg);
		job->split = arg;
		break;
	case OPT_HOLD_OUT:
		job->hold_out = positive_arg(state, "hold-out", arg);
		if (job->hold_out > 0.9)
			argp_error(state, "--hold-out is \"%s\"; it must be a share of at most 0.9",
				   arg);
		break;
	case OPT_CORNERS: job->corners = yes_arg(state, "corners", arg); break;
	case OPT_CACHING: job->engine.prefix_caching = yes_arg(state, "prefix-caching", arg); break;
	case OPT_DRAFTS:
		job->engine.drafts = (int)strtol(arg, &end, 10);
		if (end == arg || *end || job->engine.drafts < 0 ||
		    job->engine.drafts >= DECODE_MAX_QUERY)
			argp_error(state, "--speculative must be an integer from 0 to %d",
				   DECODE_MAX_QUERY - 1);
		break;
	case OPT_ACCEPT: job->engine.accept = positive_arg(state, "accept", arg); break;
	case OPT_COST: cost_arg(state, job, arg); break;
	case OPT_LEAVE_OUT: job->leave_out = yes_arg(state, "leave-out", arg); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 's': add_set(state, o, arg); break;
	case 'm': o->list.model = o->job[o->num_jobs].models = arg; break;
	case 't': add_job(state, o, arg, 0); break;
	case OPT_STEPS: add_job(state, o, arg, 1); break;
	case OPT_HF: o->hf = arg; break;
	case OPT_BATCH: o->list.batch = arg; break;
	case OPT_STATS: o->stats = 1; break;
	case OPT_GRID: o->grid = arg; break;
	case OPT_DIR: o->list.dir = arg; break;
	case OPT_MODELS: o->list_models = 1; break;
	case OPT_PAGE: o->list.page_size = (int)count_arg(state, "page-size", arg); break;
	case OPT_FORMAT: format_option(&o->list.format, arg, state); break;
	case ARGP_KEY_ARG: no_option(arg, state); break;
	default: return parse_job(key, arg, state, &o->job[o->num_jobs]);
	}
	return 0;
}

/* Adds the layers of --hf to the models; jobs without --model get all of them, on one GPU. */
static int take_hf(struct options *o, struct models *m, char *names, size_t size)
{
	const char *name;
	int i = 0;
	size_t n = 0;
	while (models_name(m, i))
		i++;
	if (o->hf && !models_add_hf(m, o->hf))
		return 0;
	for (; (name = models_name(m, i)); i++) {
		if (!strcmp(strchr(name, '@'), "@1") && n < size)
			n += (size_t)snprintf(names + n, size - n, "%s%s", n ? "," : "", name);
	}
	if (!n)
		snprintf(names, size, "llama3.1-8b@1");
	for (i = 0; i <= o->num_jobs; i++)
		if (!o->job[i].models)
			o->job[i].models = names;
	if (!o->list.model && o->list.batch)
		o->list.model = o->job[0].models;
	return 1;
}

static void print_models(const struct models *m)
{
	puts("{");
	models_print(m, stdout);
	puts("\n}");
}

static int run(struct options *o, struct models *m)
{
	const struct recipe recipe = { o->grid, o->list.dir, o->job + 1, o->num_jobs };
	char names[2 * MODEL_NAME + 2];
	if (!take_hf(o, m, names, sizeof names))
		return EXIT_USAGE;
	if (o->list_models)
		return list_models(m, o->list.format);
	if (o->list.batch)
		return list_batch(&o->list, m);
	if (o->hf && !o->num_jobs && !o->grid && !o->list.num_sets) {
		print_models(m);
		return EXIT_DONE;
	}
	if (!o->num_jobs && !o->grid)
		return list_sets(&o->list, m);
	if (o->stats)
		return traffic_print(o->job + 1, o->num_jobs, m, o->list.format, stdout)
			   ? EXIT_DONE
			   : EXIT_USAGE;
	return set_make(&recipe, m, stdout) ? EXIT_DONE : EXIT_USAGE;
}

int cmd_scenarios(int argc, char **argv)
{
	static const char about[] =
	    "Lists scenarios: each one's batch and its work (KV megabytes to "
	    "read, GFLOP of attention)."
	    "\vExamples:\n"
	    "  attune scenarios --set h200 --model llama3.1-70b@4\n"
	    "  attune scenarios --batch 2q2k_32q1s1k --model llama3.1-8b@1\n"
	    "  attune scenarios --trace code.csv --load 0.7 --pick 8 > scenarios/mine.json\n"
	    "  attune scenarios --steps steps.jsonl > mine.json\n"
	    "  attune scenarios --hf config.json\n\n"
	    "A batch is [count]q<query length>[s<sequence length>], joined by '_'; k is x 1024.\n\n"
	    "attune scenarios --settled makes a set of batches that the library settled.";
	const struct argp argp = { .options = argp_options, .parser = parse, .doc = about };
	char dir[PATH_TEXT];
	struct options o = { .list = { .dir = data_path(dir, "scenarios"), .page_size = 16 },
			     .job[0] = usual_job };
	char path[MAX_PATH];
	options_parse(&argp, argc, argv, &o);
	snprintf(path, sizeof path, "%s/models.json", o.list.dir);
	struct models *m = models_load(path);
	const int code = m ? run(&o, m) : EXIT_USAGE;
	models_free(m);
	return code;
}
