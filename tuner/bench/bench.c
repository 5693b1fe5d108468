/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - `attune bench`: times the library on batches of the database, steps of a simulated trace
 * or a few batches of its own, beside its baselines (bench_policies.c). The worker of harness/ races
 * what runs a batch; the times are rows of table bench (harness/store/bench.sql), which are printed. */
#include "bench.h"
#include "harness/machine/sensors.h"
#include "harness/peers/peers.h"
#include "harness/sweep/sweep.h"
#include "kernels/device/device.h"
#include "kernels/spec/kernel.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct options {
	const char *gpu, *db, *into;
	const char *split; /* NULL: all */
	enum preset preset;
	int limit, bounds, roofline, anyway;
	struct settle_asked settle;
	double read_mb; /* of the roofline */
	double settle_ms;
	enum format format;
	struct trace_options trace;
};

enum {
	OPT_LIMIT = 256,
	OPT_INTO,
	OPT_PRESET,
	OPT_BOUNDS,
	OPT_ROOFLINE,
	OPT_READ,
	OPT_ANYWAY,
	OPT_SETTLE,
	OPT_SETTLED,
	OPT_SIBLINGS,
	OPT_LADDER,
	OPT_MOST_MS
};
// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "into", OPT_INTO, "FILE", 0, "Database that gets the times (results/local/NAME_bench.sqlite)", 0 },
	{ "split", 'S', "NAME", 0, "Scenarios: heldout (all of them), train, peers, all ... (heldout)", 0 },
	{ "limit", OPT_LIMIT, "N", 0, "At most N scenarios", 0 },
	{ "preset", OPT_PRESET, "NAME", 0, "Rounds as in a smoke, quick or full sweep (quick)", 0 },
	{ "trace", OPT_TRACE, "FILE", 0, "Measure steps of a simulated trace (CSV) instead", 0 },
	{ "model", 'm', "NAME@TP", 0, "Trace: the model, as in llama3.1-8b@1", 0 },
	{ "steps", OPT_STEPS, "N", 0, "Trace: N steps, evenly spaced (100)", 0 },
	{ "load", OPT_LOAD, "X", 0, "Trace: share of the engine's capacity (0.95)", 0 },
	{ "bounds", OPT_BOUNDS, NULL, 0, "Measure plans by attune_plan_bounds instead", 0 },
	{ "settle", OPT_SETTLE, "FILE", 0, "Settle each batch, race what it settled to, and keep it in FILE", 0 },
	{ "settled", OPT_SETTLED, "FILE", 0, "Race plans by what an earlier session settled", 0 },
	{ "siblings", OPT_SIBLINGS, NULL, 0, "With --settle: settle other batches of the same cells instead, and race nothing", 0 },
	{ "ladder", OPT_LADDER, NULL, 0, "With --settle: settle what vLLM captures for Llama 3.1 8B", 0 },
	{ "most-ms", OPT_MOST_MS, "X", 0, "With --settle: attune_settle gives up after X ms (decodes: 20, others: 200)", 0 },
	{ "roofline", OPT_ROOFLINE, NULL, 0, "Measure memory, L2 cache and launches instead", 0 },
	{ "read-mb", OPT_READ, "X", 0, "Roofline: MB of a read (1074)", 0 },
	{ "anyway", OPT_ANYWAY, NULL, 0, "Measure even if other programs use the machine", 0 },
	{ "format", 'f', "NAME", 0, FORMAT_WORDS, 0 },
	{ 0 }
};
// clang-format on

static double number_option(const char *name, const char *what, const char *arg,
			    struct argp_state *state)
{
	char *end;
	const double v = strtod(arg, &end);
	if (*end || !(v >= 0.1 && v <= 1e5))
		argp_error(state, "--%s '%s' should be a number %s, 0.1 or more", name, arg, what);
	return v;
}

static int settles(const struct options *o)
{
	return o->settle.settle || o->settle.settled;
}

static void check_options(const struct options *o, struct argp_state *state)
{
	if ((o->settle.siblings || o->settle.ladder) && (!o->settle.settle || o->settle.settled))
		argp_error(state, "--siblings and --ladder need --settle FILE, and no --settled");
	if (o->settle.siblings && o->settle.ladder)
		argp_error(state, "--siblings and --ladder settle other batches: give one");
	if (settles(o) + o->bounds + o->roofline + (o->trace.path != NULL) > 1)
		argp_error(state, "--settle and --settled, --bounds, --roofline and --trace are "
				  "different questions: give one");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'S': o->split = strcmp(arg, "all") ? arg : NULL; return 0;
	case OPT_INTO: o->into = arg; return 0;
	case OPT_PRESET: preset_option(&o->preset, arg, state); return 0;
	case OPT_LIMIT: o->limit = whole_option("limit", arg, state); return 0;
	case OPT_BOUNDS: o->bounds = 1; return 0;
	case OPT_ROOFLINE: o->roofline = 1; return 0;
	case OPT_SETTLE: o->settle.settle = arg; return 0;
	case OPT_SETTLED: o->settle.settled = arg; return 0;
	case OPT_SIBLINGS: o->settle.siblings = 1; return 0;
	case OPT_LADDER: o->settle.ladder = 1; return 0;
	case OPT_MOST_MS: o->settle_ms = number_option("most-ms", "of ms", arg, state); return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_READ: o->read_mb = number_option("read-mb", "of MB", arg, state); return 0;
	case 'f': format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_END: check_options(o, state); return trace_option(&o->trace, key, arg, state);
	default: return trace_option(&o->trace, key, arg, state);
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Measures the tuned library against its baselines on this machine."
	"\vThe times are rows of table bench in a database of their own (--into), which attune "
	"merge "
	"adds to others; nothing learns from them. A row has the time of a policy, the ratio to "
	"the "
	"fastest plan of the database, and the plan that ran. attune is the library, through its "
	"own interface. A policy that crashes or hangs ends only a worker process.\n\n"
	"attune --plugin FILE bench: the kernels of FILE are contenders, too.\n\n"
	"--trace: sums the attention times of the steps under each policy, for one layer; ratio "
	"is to the library's sum.\n\n"
	"--bounds: compares plans of attune_plan_batch, which knows the lengths, with plans of "
	"attune_plan_bounds for N times the longest sequence (bounds_xN), on 20 batches of Llama "
	"3.1 8B (--limit: fewer).\n\n"
	"--settle FILE: the library settles each batch (kernels/attune_settle.h) and races what it "
	"settled to (settled, at a margin of 1 %) with what it plans otherwise (attune), and with "
	"each "
	"alternative (member_N). settling is the time of attune_settle. FILE gets what was "
	"settled, "
	"and keeps what it has. Equal plans share a time.\n\n"
	"--settled FILE: races plans by FILE alone, where they are faster there by 1, 2 or 4 % "
	"(carried_1 ...).\n\n"
	"--siblings: settles a batch of the same cell in place of each, with other lengths, to be "
	"carried to these in a later session. --ladder: settles what an engine settles before it "
	"captures graphs, 67 numbers of sequences with three lengths each.\n\n"
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
	"  attune bench --gpu h200 --settle f.txt --siblings\n"
	"  attune bench --gpu h200 --settle own.txt --settled f.txt\n"
	"  attune bench --gpu h200 --roofline",
	peers_options,
	NULL,
	NULL
};

/* ---- the database of the times ---------------------------------------------------------------- */

static void name_database(char path[PATH_TEXT], const char *asked, const char *gpu)
{
	if (!asked) { /* what fails here, opening the database says */
		mkdir("results", 0777);
		mkdir("results/local", 0777);
	}
	snprintf(path, PATH_TEXT, asked ? "%s" : "results/local/%s_bench.sqlite",
		 asked ? asked : gpu);
}

/* ---- the command -------------------------------------------------------------------------------- */

static enum bench_kind kind_of(const struct options *o)
{
	return o->bounds            ? BENCH_BOUNDS
	       : o->trace.path      ? BENCH_TRACE
	       : o->settle.siblings ? BENCH_SETTLING
	       : o->settle.ladder   ? BENCH_SETTLING
	       : settles(o)         ? BENCH_SETTLE
				    : BENCH_SPLIT;
}

static int list(struct wishes *w, const struct options *o, const struct data *d,
		const struct hello *hello, int *all)
{
	switch (kind_of(o)) {
	case BENCH_BOUNDS: return bench_list_bounds(w, o->limit);
	case BENCH_TRACE: return bench_list_trace(w, d, hello, &o->trace, all);
	case BENCH_SETTLE:
	case BENCH_SETTLING:
		if (o->settle.ladder)
			return bench_list_ladder(w);
		if (!bench_list_settle(w, d, hello, o->split, o->limit, &o->settle))
			return 0;
		break;
	case BENCH_SPLIT:
		if (!bench_list_split(w, d, hello, o->split, o->limit))
			return 0;
	}
	if (!w->batches.n)
		complain("no scenario of split '%s'", o->split ? o->split : "all");
	return w->batches.n;
}

static int run_list(const struct options *o, const struct data *d, const struct hello *hello,
		    const struct sweep_options *sweep)
{
	struct wishes w = { 0 };
	const enum bench_kind kind = kind_of(o);
	int code = EXIT_CHECK, all = 0, library = 1;
	if (list(&w, o, d, hello, &all))
		code = bench_measure(kind, &w, sweep, o->format, &library);
	if (kind == BENCH_TRACE && w.batches.n)
		fprintf(stderr, "# %d of %d steps, evenly spaced\n", w.batches.n, all);
	if (!code && !library) {
		complain("the library ran none of them: this tool was linked without kernels for "
			 "%s; `make` builds one with them",
			 hello->info.arch);
		code = EXIT_CHECK;
	}
	for (int i = 0; kind != BENCH_SPLIT && kind != BENCH_SETTLE && i < w.batches.n; i++)
		scenario_drop(&w.batches.v[i]);
	wishes_free(&w);
	return code;
}

static int run(const struct options *o, const char *gpu)
{
	char device[GPU_NAME], db[PATH_TEXT], into[PATH_TEXT];
	struct sweep_sum sum = { 0 };
	struct hello hello;
	snprintf(device, sizeof device, "%.*s", gpu_length(gpu), gpu); /* "h200_e4m3" is an H200 */
	struct sweep_options sweep = { .gpu = device,
				       .command = "bench",
				       .preset = o->preset,
				       .budget_s = 7 * 86400,
				       .shards = 1,
				       .seed = 1,
				       .anyway = o->anyway,
				       .settle = o->settle.settle,
				       .settled = o->settle.settled,
				       .settle_ms = o->settle_ms,
				       .sum = &sum };
	int code = sweep_device(&sweep, &hello);
	if (code)
		return code;
	if (refuse_emulated(&hello.info) || !settle_files_are_sound(&o->settle, &hello))
		return EXIT_USAGE;
	struct data *d = NULL;
	if (!o->bounds && !o->settle.ladder) {
		db_path(db, o->db, gpu);
		d = data_load(db, gpu);
		const int asks_right = d && split_known(d, o->split);
		if (!asks_right || !data_has_times(d, db)) {
			code = asks_right ? EXIT_CHECK : EXIT_USAGE;
			data_free(d);
			return code;
		}
		data_say_machine(d, db);
	}
	name_database(into, o->into, gpu);
	sweep.db = into;
	code = run_list(o, d, &hello, &sweep);
	data_free(d);
	return code;
}

static int roofline(const struct options *o, const char *gpu)
{
	struct device dev;
	char db[PATH_TEXT];
	if (sensors_open(&dev, device_for(gpu))) {
		complain("%s", attune_last_error());
		return EXIT_NO_DEVICE;
	}
	const int refuses = dev.info.backend == BACKEND_CPU; /* with a message */
	int code = refuses ? EXIT_DONE : device_ready_open(&dev, "bench", o->anyway);
	db_path(db, o->db, gpu);
	if (!code)
		code = bench_roofline(&dev, db, o->read_mb, o->format);
	device_close(&dev);
	return code;
}

/* 0 + complain: a plug-in has the name of a policy, so their rows would look alike. */
static int plugin_names_differ(void)
{
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (int p = 0; k->plugin && p <= NUM_POLICIES; p++) {
			const char *taken = p < NUM_POLICIES ? policy_names[p] : "attune";
			if (strcmp(k->name, taken))
				continue;
			complain("plug-in %s has the name of a policy of attune bench", taken);
			return 0;
		}
	return 1;
}

int cmd_bench(int argc, char **argv)
{
	struct options o = { .split = "heldout",
			     .preset = PRESET_QUICK,
			     .read_mb = 1073.741824,
			     .trace = trace_defaults };
	char gpu[GPU_NAME];
	o.trace.steps = 100;
	options_parse(&help, argc, argv, &o);
	catch_signals();
	if (!plugin_names_differ())
		return EXIT_USAGE;
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	return o.roofline ? roofline(&o, gpu) : run(&o, gpu);
}
