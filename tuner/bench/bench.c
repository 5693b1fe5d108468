/* bench.c - `attune bench`: measures the tuned library against its baselines, one race for each
 * batch. Batches are scenarios of the database or steps of a simulated trace.
 *
 *   attune      libattune: attune_plan_batch, attune_run
 *   oracle      the fastest plan of the database; the reference of ratios. A trace's step has
 *               none: there the reference is attune
 *   best_fixed  one choice of the header for each phase
 *   vllm_triton, aiter_rule  the constants of vLLM's Triton backend and of aiter: nearest choices,
 *               one launch
 *   default     the kernels' defaults
 *   others      the kernel of each plug-in (--plugin), by its fastest choice in the database, else
 *               its default; mixed batches as one launch or its fastest two, whichever is faster */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/peers/peers.h"
#include "harness/scenario/scenario.h"
#include "harness/sweep/sweep.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RACE_ORACLE, RACE_LIBRARY, RACE_FIXED, RACE_VLLM, RACE_AITER, RACE_DEFAULT, NUM_RACERS };
static const enum policy policies[NUM_RACERS] = {
	[RACE_ORACLE] = POLICY_ORACLE,    [RACE_LIBRARY] = POLICY_TREE,
	[RACE_FIXED] = POLICY_BEST_FIXED, [RACE_VLLM] = POLICY_VLLM_TRITON,
	[RACE_AITER] = POLICY_AITER_RULE, [RACE_DEFAULT] = POLICY_DEFAULT,
};

enum { MOST_RACERS = NUM_RACERS + MOST_PLUGINS };

struct options {
	const char *gpu, *db, *preset, *protocol;
	const char *split; /* NULL: all */
	int limit, bounds, roofline, anyway;
	double read_mb; /* of the roofline */
	enum format format;
	struct trace_options trace;
};

struct bench {
	struct bench_stage *stage;
	const struct data *d;
	const struct protocol *protocol;
	struct chooser *chooser[NUM_RACERS]; /* NULL: it does not exist here, or needs none */
	const struct kernel *plugin[MOST_PLUGINS];
	int num; /* NUM_RACERS and the plug-ins */
	struct table *table;
	double sum[MOST_RACERS]; /* of log ratios; for a trace, of us */
	int count[MOST_RACERS], done, failed, total;
	attune_shape shape; /* of the trace's model */
	const char *model;
};

static const char *racer_name(const struct bench *b, int i)
{
	return i == RACE_LIBRARY ? "attune"
	       : i < NUM_RACERS  ? policy_names[policies[i]]
				 : b->plugin[i - NUM_RACERS]->name;
}

/* scenario -1: not in the database, so without an oracle. */
static void fill_entries(const struct bench *b, const struct measured *m, int scenario,
			 struct entry entry[MOST_RACERS])
{
	for (int i = NUM_RACERS; i < b->num; i++)
		entry[i] = bench_plugin_entry(b->d, m, scenario, b->plugin[i - NUM_RACERS],
					      &b->stage->dev.info);
	for (int i = 0; i < NUM_RACERS; i++) {
		entry[i] = (struct entry){ .runs = b->chooser[i] || i == RACE_LIBRARY,
					   .is_library = i == RACE_LIBRARY };
		if (b->chooser[i])
			chooser_make(b->chooser[i], m, scenario, &entry[i].made);
	}
	if (scenario >= 0) {
		entry[RACE_ORACLE].made = data_fastest_plan(b->d, scenario);
		entry[RACE_ORACLE].runs = 1;
	}
}

/* ---- scenarios ------------------------------------------------------------------------ */
static void race_scenario(struct bench *b, int s)
{
	const struct measured *m = &b->d->v[s];
	struct entry entry[MOST_RACERS];
	fill_entries(b, m, s, entry);
	if (!bench_race(b->stage, m, b->protocol, entry, b->num, (unsigned)s + 1)) {
		b->failed++;
		return;
	}
	const double oracle = entry[RACE_ORACLE].us;
	b->done++;
	for (int i = 0; i < b->num; i++) {
		if (!entry[i].runs)
			continue;
		table_add(b->table, "%s %s %d %s %s %s %.2f %.4f %s\n", m->batch_text, m->model,
			  m->shape.page_size, dtype_name(m->shape.dtype),
			  dtype_name(m->shape.kv_dtype), racer_name(b, i), entry[i].us,
			  entry[i].us / oracle, *entry[i].plan ? entry[i].plan : NULL);
		if (entry[i].us > 0 && oracle > 0)
			b->sum[i] += log(entry[i].us / oracle), b->count[i]++;
	}
}

/* Compiles the kernels of all races in parallel; the races then find them in the cache. */
static void compile_ahead(struct bench *b, const int asked[])
{
	struct binaries all = { .arch = b->stage->dev.info.arch };
	int ok = 1;
	for (int k = 0; ok && k < b->total; k++) {
		const struct measured *m = &b->d->v[asked[k]];
		struct entry entry[MOST_RACERS];
		fill_entries(b, m, asked[k], entry);
		for (int i = 0; ok && i < b->num; i++)
			ok = bench_foresee(&all, m, &entry[i]);
	}
	if (ok)
		binaries_compile(&all);
	binaries_free(&all);
}

static void race_scenarios(struct bench *b, const struct options *o)
{
	int *asked = malloc(sizeof *asked * ((size_t)b->d->n + 1));
	if (!asked) {
		complain("out of memory");
		return;
	}
	for (int s = 0; s < b->d->n; s++)
		if (in_split(&b->d->v[s], o->split) && (!o->limit || b->total < o->limit))
			asked[b->total++] = s;
	compile_ahead(b, asked);
	for (int k = 0; k < b->total && !interrupted; k++) {
		progress("bench", k, b->total);
		race_scenario(b, asked[k]);
	}
	free(asked);
	progress_end();
	table_print(b->table, stdout);
	for (int i = 0; i < b->num; i++)
		if (b->count[i])
			fprintf(stderr, "# %-10s %.4f x oracle, geometric mean of %d scenarios\n",
				racer_name(b, i), exp(b->sum[i] / b->count[i]), b->count[i]);
	if (!b->done)
		complain("no scenario of split '%s' could be run", o->split ? o->split : "all");
	else if (!b->count[RACE_LIBRARY] && !interrupted)
		complain("the library ran none of them: this tool was linked without kernels for "
			 "%s; `make` builds one with them",
			 b->stage->dev.info.arch);
}

/* ---- a trace --------------------------------------------------------------------------- */
/* A step counts only if all contenders ran it: sums over different steps are not comparable. */
static int race_step(void *arg, int step, const attune_batch *view)
{
	struct bench *b = arg;
	struct entry entry[MOST_RACERS];
	struct measured m = { 0 };
	char *text = batch_format(view);
	int all = text && measured_make(&m, b->d, b->model, &b->shape, text);
	free(text);
	if (!all)
		return 0;
	fill_entries(b, &m, -1, entry);
	progress("bench", b->done + b->failed, b->total);
	all = bench_race(b->stage, &m, b->protocol, entry + 1, b->num - 1, (unsigned)step + 1);
	for (int i = RACE_LIBRARY; all && i < b->num; i++)
		all = !entry[i].runs || entry[i].us > 0;
	b->done += all;
	b->failed += !all;
	for (int i = RACE_LIBRARY; all && i < b->num; i++)
		if (entry[i].runs)
			b->sum[i] += entry[i].us, b->count[i]++;
	measured_free(&m);
	return !interrupted;
}

static void race_trace(struct bench *b, const struct options *o)
{
	int all = 0;
	b->model = o->trace.model;
	b->total = o->trace.steps;
	if (shape_of_model(&b->shape, b->d, b->model, 0))
		trace_steps(&o->trace, o->trace.steps, race_step, b, &all);
	progress_end();
	for (int i = RACE_LIBRARY; i < b->num; i++)
		if (b->count[i])
			table_add(b->table, "%s %s %s %d %.3f %.4f\n", dtype_name(b->shape.dtype),
				  dtype_name(b->shape.kv_dtype), racer_name(b, i), b->count[i],
				  b->sum[i] / 1e3, b->sum[i] / b->sum[RACE_LIBRARY]);
	table_print(b->table, stdout);
	fprintf(stderr, "# %d of %d steps, evenly spaced; %d could not be run\n", b->done, all,
		b->failed);
	if (!b->done)
		complain("no step of %s could be run", o->trace.path);
}

static int run(struct bench_stage *st, const struct data *d, const struct options *o,
	       const struct protocol *protocol)
{
	static const char *const columns[] = { "batch",     "model",           "page_size",
					       "dtype",     "kv_dtype",        "policy",
					       "median_us", "ratio_to_oracle", "plan" };
	static const char *const of_trace[] = { "dtype", "kv_dtype",     "policy",
						"steps", "attention_ms", "ratio" };
	struct bench b = { .stage = st, .d = d, .protocol = protocol };
	char header[PATH_TEXT];
	struct forest f;
	b.table = o->trace.path ? table_new(o->format, of_trace, COUNT(of_trace))
				: table_new(o->format, columns, COUNT(columns));
	if (!b.table) {
		complain("out of memory");
		return EXIT_CHECK;
	}
	b.num = NUM_RACERS + bench_plugins(b.plugin, st->dev.info.backend);
	rules_path(header, getenv("ATTUNE_HEURISTICS"), d->gpu);
	const int has_rules = forest_load(&f, header);
	for (int i = RACE_FIXED; i < NUM_RACERS; i++)
		b.chooser[i] = chooser_new(d, policies[i], has_rules ? &f : NULL);
	policies_say_unlearned(d);
	if (o->trace.path)
		race_trace(&b, o);
	else
		race_scenarios(&b, o);
	for (int i = 0; i < NUM_RACERS; i++)
		chooser_free(b.chooser[i]);
	if (has_rules)
		forest_free(&f);
	return interrupted                                    ? EXIT_INTERRUPTED
	       : b.done && !b.failed && b.count[RACE_LIBRARY] ? EXIT_DONE
							      : EXIT_CHECK;
}

enum {
	OPT_LIMIT = 256,
	OPT_PRESET,
	OPT_PROTOCOL,
	OPT_BOUNDS,
	OPT_ROOFLINE,
	OPT_READ,
	OPT_ANYWAY
};
// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "split", 'S', "NAME", 0, "Scenarios: heldout (all of them), train, peers, all ... (heldout)", 0 },
	{ "limit", OPT_LIMIT, "N", 0, "At most N scenarios", 0 },
	{ "preset", OPT_PRESET, "NAME", 0, "Rounds as in a smoke, quick or full sweep (quick)", 0 },
	{ "protocol", OPT_PROTOCOL, "NAME", 0, "burst or steady, as of attune sweep (burst)", 0 },
	{ "trace", OPT_TRACE, "FILE", 0, "Measure steps of a simulated trace (CSV) instead", 0 },
	{ "model", 'm', "NAME@TP", 0, "Trace: the model, as in llama3.1-8b@1", 0 },
	{ "steps", OPT_STEPS, "N", 0, "Trace: N steps, evenly spaced (100)", 0 },
	{ "load", OPT_LOAD, "X", 0, "Trace: share of the engine's capacity (0.95)", 0 },
	{ "bounds", OPT_BOUNDS, NULL, 0, "Measure plans by attune_plan_bounds instead", 0 },
	{ "roofline", OPT_ROOFLINE, NULL, 0, "Measure memory, L2 cache and launches instead", 0 },
	{ "read-mb", OPT_READ, "X", 0, "Roofline: MB of a read (1074)", 0 },
	{ "anyway", OPT_ANYWAY, NULL, 0, "Measure even if other programs use the machine", 0 },
	{ "format", 'f', "NAME", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'S': o->split = strcmp(arg, "all") ? arg : NULL; return 0;
	case OPT_PRESET: o->preset = arg; return 0;
	case OPT_PROTOCOL:
		if (strcmp(arg, "burst") && strcmp(arg, "steady"))
			argp_error(state, "--protocol '%s' should be burst or steady", arg);
		o->protocol = arg;
		return 0;
	case OPT_LIMIT: o->limit = whole_option("limit", arg, state); return 0;
	case OPT_BOUNDS: o->bounds = 1; return 0;
	case OPT_ROOFLINE: o->roofline = 1; return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_READ:
		o->read_mb = strtod(arg, &end);
		if (*end || !(o->read_mb >= 0.1 && o->read_mb <= 1e5))
			argp_error(state, "--read-mb '%s' should be a number of MB, 0.1 or more",
				   arg);
		return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	default: return trace_option(&o->trace, key, arg, state);
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Measures the tuned library against its baselines on this machine."
	"\vA row has a contender's time, the ratio to the fastest plan of the database, and the "
	"plan that ran.\n\n"
	"attune --plugin FILE bench: the kernels of FILE are contenders, too.\n\n"
	"--trace: sums the attention times of the steps under each policy, for one layer; ratio "
	"is to the library's sum.\n\n"
	"--bounds: captures a step of 16 layers of Llama 3.1 8B as a CUDA graph, for 20 batches "
	"(--limit: fewer), and compares the time of a layer with plans of these kinds:\n"
	"  exact   attune_plan_batch, which knows the lengths (the reference)\n"
	"  xN      attune_plan_bounds for N times the longest sequence\n"
	"ratio is the median of 15 ratios to the reference, each of two replays of one turn.\n\n"
	"--roofline: measures the limits of the GPU without attention and stores them in the "
	"database; attune show --ceilings prints them.\n"
	"  read    GB/s by path (16-byte loads to registers; 16-byte asynchronous\n"
	"          copies; bulk copies of 256 bytes or 4 KiB), by KiB in flight in a\n"
	"          block and by number of blocks, one for each unit\n"
	"  cold    us of the fastest way to read so many MiB from memory\n"
	"  cached  the same from the L2 cache\n"
	"  launch  us of a launch, in a stream or in a chain of 40 in a graph. early:\n"
	"          by programmatic dependent launch, the next kernel may begin at the\n"
	"          end or at the top of its predecessor; idle: the kernel has no work\n"
	"Values are medians of 7 runs.\n\n"
	"Examples:\n  attune bench --gpu h200 --split heldout --format json\n"
	"  attune --plugin fa4.so bench --gpu h200 --split peers\n"
	"  attune bench --gpu h200_e4m3 --db mine.sqlite   (8-bit caches)\n"
	"  attune bench --gpu h200 --trace mine.csv --model llama3.1-8b@1 --steps 200\n"
	"  attune bench --gpu h200 --bounds --format tsv\n"
	"  attune bench --gpu h200 --roofline",
	peers_options,
	NULL,
	NULL
};

static int measure_scenarios(struct bench_stage *st, const struct options *o,
			     const struct protocol *protocol, const char *db)
{
	struct data *d = data_load(db, o->gpu ? o->gpu : st->dev.info.gpu);
	int code = d && split_known(d, o->split) ? EXIT_CHECK : EXIT_USAGE;
	if (code == EXIT_CHECK && data_has_times(d, db))
		code = device_ready_open(&st->dev, "bench", o->anyway);
	if (!code) {
		data_say_machine(d, db);
		code = run(st, d, o, protocol);
	}
	data_free(d);
	return code;
}

static int measure(struct bench_stage *st, const struct options *o, const struct protocol *protocol,
		   const char *db)
{
	const int refuses = o->roofline && st->dev.info.backend == BACKEND_CPU; /* with a message */
	if (!o->bounds && !o->roofline)
		return measure_scenarios(st, o, protocol, db);
	const int code = refuses ? EXIT_DONE : device_ready_open(&st->dev, "bench", o->anyway);
	if (code)
		return code;
	return o->bounds ? bench_bounds(st, protocol, o->limit, o->format)
			 : bench_roofline(&st->dev, db, o->read_mb, o->format);
}

int cmd_bench(int argc, char **argv)
{
	struct options o = { .split = "heldout",
			     .preset = "quick",
			     .read_mb = 1073.741824,
			     .trace = trace_defaults };
	struct bench_stage st = { 0 };
	struct protocol protocol;
	char db[PATH_TEXT];
	int code;
	o.trace.steps = 100;
	options_parse(&help, argc, argv, &o);
	catch_signals();
	code = stage_open(&st, o.gpu);
	if (!code && !protocol_for(&protocol, &st.dev.info, o.preset)) {
		complain("--preset \"%s\" must be smoke, quick or full", o.preset);
		code = EXIT_USAGE;
	}
	if (!code && o.protocol && !strcmp(o.protocol, "steady")) {
		protocol_steady(&protocol);
		protocol.hold_s = 0; /* no power is read */
	}
	if (!code)
		db_path(db, o.db, o.gpu ? o.gpu : st.dev.info.gpu);
	if (!code)
		code = measure(&st, &o, &protocol, db);
	stage_close(&st);
	return code;
}
