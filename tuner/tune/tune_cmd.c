/* SPDX-License-Identifier: Apache-2.0 */
/* tune_cmd.c - options of `attune tune`. `make tune` runs it and then relinks the library. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/search/search.h"
#include "tuner/commands.h"
#include "tuner/remeasure/requests.h"
#include <argp.h>

enum {
	OPT_PRESET = 256,
	OPT_BUDGET,
	OPT_SETS,
	OPT_TRAFFIC,
	OPT_DIR,
	OPT_RESULTS,
	OPT_GENERATED,
	OPT_DEVICE,
	OPT_DRY,
	OPT_UNDO,
	OPT_ANYWAY,
	OPT_FORMAT,
	OPT_CHECK,
	OPT_DB,
	OPT_HEADER,
	OPT_LIMIT
};

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu",       'g',           "NAME",   0, "Device to tune; fails if this machine lacks it (the GPU, else the CPU)", 0 },
	{ "device",    OPT_DEVICE,    "NAMES",  0, "Use only these GPUs: cuda:0 or cuda:0,cuda:1 (all of that model)", 0 },
	{ "preset",    OPT_PRESET,    "NAME",   0, "smoke: a test run on few scenarios, 50 seconds at most; quick: 4 minutes; full: 18 minutes (quick)", 0 },
	{ "budget",    OPT_BUDGET,    "TIME",   0, "Stop after this time: 90s, 10m, 2h (the preset's; 60s with --check)", 0 },
	{ "model",     'm',           "NAME@N", 0, "Use only scenarios of this model and tensor-parallel degree", 0 },
	{ "scenarios", OPT_SETS,      "SETS",   0, "Comma-separated scenario sets (the GPU's own)", 0 },
	{ "steps",     OPT_TRAFFIC,     "FILE",   0, "Your own traffic, measured first: steps that libattune.capture wrote, or a set (.json) that attune scenarios made", 0 },
	{ "dir",       OPT_DIR,       "DIR",    0, "Folder of the sets and models.json (scenarios)", 0 },
	{ "results",   OPT_RESULTS,   "DIR",    0, "Folder of databases; DIR/local has this machine's (results)", 0 },
	{ "generated", OPT_GENERATED, "DIR",    0, "Folder of headers; DIR/local has this machine's (generated)", 0 },
	{ "dry-run",   OPT_DRY,       0,        0, "Print the work, the time and the disk space; measure nothing", 0 },
	{ "undo",      OPT_UNDO,      0,        0, "Restore the rules that the last tune replaced", 0 },
	{ "anyway",    OPT_ANYWAY,    0,        0, "Measure even if other programs use the machine", 0 },
	{ "format",    OPT_FORMAT,    "FORMAT", 0, "Format of the summary: table or json, with --check also tsv, csv or markdown (table)", 0 },
	{ 0, 0, 0, 0, "Does a new tune pay?", 1 },
	{ "check",     OPT_CHECK,     0,        0, "Time some picks of the rules again, against their fastest rivals; keep no times", 1 },
	{ "db",        OPT_DB,        "FILE",   0, "Database with the old times (results/local/NAME.sqlite, else results/NAME.sqlite)", 1 },
	{ "header",    OPT_HEADER,    "FILE",   0, "Rules to check (those in force: this machine's, NAME's, else the borrowed ones)", 1 },
	{ "limit",     OPT_LIMIT,     "N",      0, "At most N parts of batches (20)", 1 },
	{ 0 }
};
// clang-format on

static void are_together(const struct tune_options *o, struct argp_state *state)
{
	if (!o->check && (o->db || o->header || o->limit))
		argp_error(state, "--db, --header and --limit go with --check only");
	if (o->check && (o->preset != NUM_PRESETS || o->model || o->sets || o->steps ||
			 o->dir || o->results || o->generated || o->dry_run || o->undo))
		argp_error(state, "--check goes with --gpu, --device, --budget, --db, --header, "
				  "--limit, --anyway and --format only");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct tune_options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'm': o->model = arg; return 0;
	case OPT_DEVICE: o->device = arg; return 0;
	case OPT_PRESET: preset_option(&o->preset, arg, state); return 0;
	case OPT_BUDGET: o->budget_s = budget_option(arg, state); return 0;
	case OPT_SETS: o->sets = arg; return 0;
	case OPT_TRAFFIC: o->steps = arg; return 0;
	case OPT_DIR: o->dir = arg; return 0;
	case OPT_RESULTS: o->results = arg; return 0;
	case OPT_GENERATED: o->generated = arg; return 0;
	case OPT_DRY: o->dry_run = 1; return 0;
	case OPT_UNDO: o->undo = 1; return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_FORMAT: format_option(&o->format, arg, state); return 0;
	case OPT_CHECK: o->check = 1; return 0;
	case OPT_DB: o->db = arg; return 0;
	case OPT_HEADER: o->header = arg; return 0;
	case OPT_LIMIT: o->limit = whole_option("limit", arg, state); return 0;
	case ARGP_KEY_ARG: no_option(arg, state); return 0;
	case ARGP_KEY_END: are_together(o, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const char about[] =
    "Measures kernels on this machine, learns rules that choose among them, and installs the "
    "rules that beat those in force."
    "\vA tune starts from the rules of the nearest GPU. It races the choices of their rows, "
    "which few times put in this machine's order, then all candidates; learns new rules; and "
    "races new against old on scenarios that neither learned from. Each decision "
    "(prefill, decode, mixed batches) is replaced only if the new one is faster beyond noise. "
    "Times go to results/local, rules to generated/local. The same command resumes after an "
    "interrupt.\n\n"
    "--check tells whether the rules still fit, such as after an update of the driver or the "
    "toolkit. Exit status: 0 they fit, 1 a new tune pays, 5 nothing was measured. A CPU is "
    "measured with the threads that it has now.\n\n"
    "Examples:\n  attune tune --preset smoke\n  attune tune --budget 10m --model "
    "llama3.1-8b@1\n"
    "  attune tune --steps steps.jsonl\n"
    "  attune tune --undo\n"
    "  attune tune --check --gpu h200";
static const struct argp help = { .options = rows, .parser = parse_option, .doc = about };

int cmd_tune(int argc, char **argv)
{
	char dir[PATH_TEXT];
	struct tune_options o = { .preset = NUM_PRESETS, .command = "tune" }; /* not given */
	options_parse(&help, argc, argv, &o);
	catch_signals();
	if (o.check)
		return tune_check(&o);
	o.preset = o.preset == NUM_PRESETS ? PRESET_QUICK : o.preset;
	o.dir = o.dir ? o.dir : data_path(dir, "scenarios");
	o.results = o.results ? o.results : "results";
	o.generated = o.generated ? o.generated : "generated";
	return tune(&o);
}
