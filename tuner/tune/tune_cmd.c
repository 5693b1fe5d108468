/* tune_cmd.c - options of `attune tune`. `make tune` runs it and then relinks the library. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/search/search.h"
#include "tuner/commands.h"
#include "tuner/remeasure/requests.h"
#include <argp.h>
#include <math.h>

enum {
	OPT_PRESET = 256,
	OPT_BUDGET,
	OPT_SETS,
	OPT_TRACE_SET,
	OPT_DIR,
	OPT_RESULTS,
	OPT_GENERATED,
	OPT_DEVICE,
	OPT_DRY,
	OPT_UNDO,
	OPT_ANYWAY,
	OPT_FORMAT
};

// clang-format off
static const struct argp_option rows[] = {
	{ "gpu",       'g',           "NAME",   0, "Device to tune; fails if this machine lacks it (the GPU, else the CPU)", 0 },
	{ "device",    OPT_DEVICE,    "NAMES",  0, "Use only these GPUs: cuda:0 or cuda:0,cuda:1 (all of that model)", 0 },
	{ "preset",    OPT_PRESET,    "NAME",   0, "smoke: a test run on few scenarios, 50 seconds at most; quick: 4 minutes; full: 18 minutes (quick)", 0 },
	{ "budget",    OPT_BUDGET,    "TIME",   0, "Stop after this time: 90s, 10m, 2h (the preset's)", 0 },
	{ "model",     'm',           "NAME@N", 0, "Use only scenarios of this model and tensor-parallel degree", 0 },
	{ "scenarios", OPT_SETS,      "SETS",   0, "Comma-separated scenario sets (the GPU's own)", 0 },
	{ "trace-set", OPT_TRACE_SET, "FILE",   0, "One more scenario set", 0 },
	{ "dir",       OPT_DIR,       "DIR",    0, "Folder of the sets and models.json (scenarios)", 0 },
	{ "results",   OPT_RESULTS,   "DIR",    0, "Folder of databases; DIR/local has this machine's (results)", 0 },
	{ "generated", OPT_GENERATED, "DIR",    0, "Folder of headers; DIR/local has this machine's (generated)", 0 },
	{ "dry-run",   OPT_DRY,       0,        0, "Print the work, the time and the disk space; measure nothing", 0 },
	{ "undo",      OPT_UNDO,      0,        0, "Restore the rules that the last tune replaced", 0 },
	{ "anyway",    OPT_ANYWAY,    0,        0, "Measure even if other programs use the machine", 0 },
	{ "format",    OPT_FORMAT,    "FORMAT", 0, "Format of the summary: table or json (table)", 0 },
	{ 0 }
};
// clang-format on

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
	case OPT_TRACE_SET: o->trace_set = arg; return 0;
	case OPT_DIR: o->dir = arg; return 0;
	case OPT_RESULTS: o->results = arg; return 0;
	case OPT_GENERATED: o->generated = arg; return 0;
	case OPT_DRY: o->dry_run = 1; return 0;
	case OPT_UNDO: o->undo = 1; return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_FORMAT: format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_ARG: no_option(arg, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Measures kernels on this machine, learns rules that choose among them, and installs the "
	"rules that beat those in force."
	"\vA tune starts from the rules of the nearest GPU. It measures candidates, learns new "
	"rules, and races new against old on scenarios that neither learned from. Each decision "
	"(prefill, decode, mixed batches) is replaced only if the new one is faster beyond noise. "
	"Times go to results/local, rules to generated/local. The same command resumes after an "
	"interrupt.\n\n"
	"attune tune --check tells whether the rules still fit; --check --help has its options.\n\n"
	"Examples:\n  attune tune --preset smoke\n  attune tune --budget 10m --model "
	"llama3.1-8b@1\n"
	"  attune tune --undo",
	NULL,
	NULL,
	NULL
};

int cmd_tune(int argc, char **argv)
{
	char dir[PATH_TEXT];
	struct tune_options o = { .preset = PRESET_QUICK,
				  .dir = data_path(dir, "scenarios"),
				  .results = "results",
				  .generated = "generated",
				  .command = "tune" };
	options_parse(&help, argc, argv, &o);
	catch_signals();
	return tune(&o);
}
