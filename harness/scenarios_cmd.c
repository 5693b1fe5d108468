/* scenarios_cmd.c - attune scenarios: lists scenario sets and single batches with
 * what they ask of a machine, and makes sets from request traces. */
#include "harness.h"
#include "replay.h"
#include <argp.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 64, MAX_TRACES = 64, MAX_PATH = 512, MAX_PICK = 1000, CUT = 44 };

struct options {
	enum format format;
	const char *dir, *batch, *model, *grid;
	const char *set[MAX_SETS];
	int num_sets, list_models, page_size;
	struct job job[MAX_TRACES + 1]; /* the first: what the others begin with */
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
	OPT_CACHING,
	OPT_DRAFTS,
	OPT_ACCEPT,
	OPT_COST,
	OPT_GRID
};

// clang-format off
static const struct argp_option argp_options[] = {
	{ 0, 0, 0, 0, "What to list:", 1 },
	{ "set", 's', "NAME", 0,
	  "The set scenarios/NAME.json, or a path; may be repeated; default all", 0 },
	{ "batch", OPT_BATCH, "TEXT", 0, "A batch by itself: 2q2k_32q1s1k", 0 },
	{ "model", 'm', "NAME@N", 0,
	  "Model and tensor-parallel degree of --batch (llama3.1-8b@1), or several for --trace, "
	  "dealt to its picks: a@1,b@4; of a set, only its scenarios", 0 },
	{ "page-size", OPT_PAGE, "TOKENS", 0, "Page size of --batch (16)", 0 },
	{ "models", OPT_MODELS, 0, 0, "The models and their shapes", 0 },
	{ "dir", OPT_DIR, "DIR", 0, "Where the sets and models.json are (scenarios)", 0 },
	{ "format", OPT_FORMAT, "FORMAT", 0, "table, tsv or json", 0 },
	{ 0, 0, 0, 0,
	  "A new set from request traces, as JSON on stdout. Options after a --trace are its own "
	  "and those of the traces behind it; before the first, those of all:", 2 },
	{ "trace", 't', "CSV", 0,
	  "Columns arrival_s, prompt_tokens, output_tokens; may be repeated", 0 },
	{ "load", OPT_LOAD, "SHARE", 0,
	  "Request rate as a share of what the engine can complete (0.95)", 0 },
	{ "max-batched-tokens", OPT_TOKENS, "N", 0, "Token budget of a step (8192)", 0 },
	{ "max-seqs", OPT_SEQS, "N", 0, "Sequences that run together (256)", 0 },
	{ "kv-tokens", OPT_KV, "N", 0, "Tokens that the KV cache holds (400k)", 0 },
	{ "prefix-caching", OPT_CACHING, "yes|no", 0,
	  "Take column cached_prefix_tokens as computed when a request enters (no)", 0 },
	{ "speculative", OPT_DRAFTS, "N", 0, "Draft tokens beside each decode's own, to 7 (0)", 0 },
	{ "accept", OPT_ACCEPT, "TOKENS", 0,
	  "Tokens that a decode with drafts advances, on average, up to N + 1 (1 + N / 2)", 0 },
	{ "step-cost", OPT_COST, "MS,MS,MS", 0,
	  "Of a step, of each query token, of each KV token (4,0.02,3e-5)", 0 },
	{ "pick", OPT_PICK, "N", 0, "Steps to keep (24)", 0 },
	{ "requests", OPT_REQUESTS, "N", 0, "Requests to replay (2500)", 0 },
	{ "max-request", OPT_LONGEST, "N", 0,
	  "Longer requests, prompt and output, are left out (64k)", 0 },
	{ "max-gflop", OPT_GFLOP, "N", 0,
	  "Steps of more attention work than this are not kept (no limit)", 0 },
	{ "split", OPT_SPLIT, "NAME", 0, "train, peers, heldout, heldout_traces ... (train)", 0 },
	{ "corners", OPT_CORNERS, "yes|no", 0,
	  "Also keep the steps with the longest sequence, the most sequences and the most "
	  "prefill (yes)", 0 },
	{ "leave-out", OPT_LEAVE_OUT, "yes|no", 0,
	  "Keep no step of the batch sizes and lengths that are held out as blocks, and hold out "
	  "a tenth of the picks (no)", 0 },
	{ "seed", OPT_SEED, "N", 0, "Draws the first step (1)", 0 },
	{ 0, 0, 0, 0, "Made-up batches, as JSON on stdout:", 3 },
	{ "grid", OPT_GRID, "NAME", 0, "h200 or cpu: what is committed as scenarios/NAME.json", 0 },
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
	if (o->num_sets == MAX_SETS)
		argp_error(state, "at most %d sets can be listed together", MAX_SETS);
	o->set[o->num_sets++] = name;
}

static void add_job(struct argp_state *state, struct options *o, const char *path)
{
	if (o->num_jobs == MAX_TRACES)
		argp_error(state, "at most %d traces can be replayed together", MAX_TRACES);
	o->job[o->num_jobs + 1] = o->job[o->num_jobs];
	o->job[++o->num_jobs].path = path;
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
	case 'm': o->model = o->job[o->num_jobs].models = arg; break;
	case 't': add_job(state, o, arg); break;
	case OPT_BATCH: o->batch = arg; break;
	case OPT_GRID: o->grid = arg; break;
	case OPT_DIR: o->dir = arg; break;
	case OPT_MODELS: o->list_models = 1; break;
	case OPT_PAGE: o->page_size = (int)count_arg(state, "page-size", arg); break;
	case OPT_FORMAT:
		if (!format_parse(arg, &o->format))
			argp_error(state, "--format must be table, tsv or json");
		break;
	case ARGP_KEY_ARG: argp_error(state, "\"%s\" is not an option; see --help", arg); break;
	default: return parse_job(key, arg, state, &o->job[o->num_jobs]);
	}
	return 0;
}

/* ---- listing ------------------------------------------------------------------- */
static const char *const columns[] = { "set",      "split",  "model",  "page_size", "dtype",
				       "kv_dtype", "layout", "weight", "seqs",      "decode_share",
				       "tokens",   "kv_mb",  "gflop",  "batch" };

static void dtype_cell(struct table *t, enum attune_dtype dtype)
{
	static const char *const names[] = { "f32", "f16", "bf16" };
	table_text(t, names[dtype]);
}

/* A batch from a trace has thousands of characters: whole only for machines. */
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
	table_text(t, s->layout == LAYOUT_NHD ? "nhd" : "hnd");
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
	static const char *const names[] = { "model",   "query_heads", "kv_heads",
					     "group",   "head_size",   "window",
					     "softcap", "sinks",       "scale" };
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
		table_end_row(t);
	}
	table_print(t, stdout);
	return EXIT_DONE;
}

static int list_batch(const struct options *o, const struct models *m)
{
	struct scenario s = { .split = "", .weight = 1, .seed = 1 };
	char error[128];
	struct table *t;
	int code;
	if (!models_shape(m, o->model, &s.shape))
		return EXIT_USAGE;
	s.shape.page_size = o->page_size;
	if (shape_error(&s.shape)) {
		complain("%s", shape_error(&s.shape));
		return EXIT_USAGE;
	}
	snprintf(s.model, sizeof s.model, "%s", o->model);
	s.batch = batch_parse(o->batch, error, sizeof error);
	if (!s.batch) {
		complain("--batch \"%s\": %s", o->batch, error);
		return EXIT_USAGE;
	}
	s.batch_text = batch_format(&s.batch->view);
	if (s.batch_text) {
		t = table_new(o->format, columns, COUNT(columns));
		scenario_row(t, &s, o->format);
		table_print(t, stdout);
	} else
		complain("out of memory");
	code = s.batch_text ? EXIT_DONE : EXIT_CHECK;
	free(s.batch_text);
	batch_free(s.batch);
	return code;
}

static int is_set(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 5 && !strcmp(d->d_name + n - 5, ".json") && strcmp(d->d_name, "models.json");
}

static int load_set(struct scenario_list *list, const struct options *o, const char *name,
		    const struct models *m)
{
	char path[MAX_PATH];
	size_t n = strlen(name);
	if (n > 5 && !strcmp(name + n - 5, ".json"))
		return scenarios_load(list, name, m);
	snprintf(path, sizeof path, "%s/%s.json", o->dir, name);
	return scenarios_load(list, path, m);
}

static int load_all(struct scenario_list *list, const struct options *o, const struct models *m)
{
	struct dirent **names;
	int n = scandir(o->dir, &names, is_set, alphasort), ok = n >= 0;
	for (int i = 0; i < n; i++) {
		char path[MAX_PATH];
		snprintf(path, sizeof path, "%s/%s", o->dir, names[i]->d_name);
		ok = ok && scenarios_load(list, path, m);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return ok;
}

static int list_sets(const struct options *o, const struct models *m)
{
	struct scenario_list list = { 0 };
	int ok = o->num_sets || load_all(&list, o, m);
	for (int i = 0; ok && i < o->num_sets; i++)
		ok = load_set(&list, o, o->set[i], m);
	if (ok && o->model && !models_find(m, o->model)) {
		attune_shape unused;
		ok = models_shape(m, o->model, &unused);
	}
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

int cmd_scenarios(int argc, char **argv)
{
	static const char about[] =
	    "Lists scenarios: each one's batch, and what it asks of a machine (KV megabytes to "
	    "read, GFLOP of attention)."
	    "\vExamples:\n"
	    "  attune scenarios --set h200 --model llama3.1-70b@4\n"
	    "  attune scenarios --batch 2q2k_32q1s1k --model llama3.1-8b@1\n"
	    "  attune scenarios --trace code.csv --load 0.7 --pick 8 > scenarios/mine.json\n\n"
	    "A batch is [count]q<query length>[s<sequence length>], joined by '_'; k is x 1024.";
	const struct argp argp = { .options = argp_options, .parser = parse, .doc = about };
	struct options o = { .dir = "scenarios",
			     .page_size = 16,
			     .job[0] = { .split = "train",
					 .models = "llama3.1-8b@1",
					 .load = 0.95,
					 .max_gflop = INFINITY,
					 .engine = { 8192, 256, 400 * 1024 },
					 .pick = 24,
					 .corners = 1,
					 .requests = 2500,
					 .max_request = 64 * 1024,
					 .seed = 1 } };
	char path[MAX_PATH];
	struct models *m;
	int code;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	snprintf(path, sizeof path, "%s/models.json", o.dir);
	m = models_load(path);
	if (!m)
		return EXIT_USAGE;
	if (!o.model && o.batch)
		o.model = "llama3.1-8b@1";
	if (o.list_models)
		code = list_models(m, o.format);
	else if (o.grid)
		code = grid_print(o.grid, o.dir, m, stdout) ? EXIT_DONE : EXIT_USAGE;
	else if (o.batch)
		code = list_batch(&o, m);
	else if (!o.num_jobs)
		code = list_sets(&o, m);
	else
		code = trace_set_print(o.job + 1, o.num_jobs, m, stdout) ? EXIT_DONE : EXIT_USAGE;
	models_free(m);
	return code;
}
