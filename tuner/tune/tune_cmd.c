/* tune_cmd.c - attune tune: options. `make tune` runs it and links the library afterwards. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/search/search.h"
#include "tuner/commands.h"
#include "tuner/remeasure/requests.h"
#include <argp.h>
#include <math.h>
#include <string.h>

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
	{ "gpu",       'g',           "NAME",   0, "Refuse unless this machine has it (its GPUs, else its CPU)", 0 },
	{ "device",    OPT_DEVICE,    "NAMES",  0, "Only these GPUs: cuda:0 or cuda:0,cuda:1 (all of that model)", 0 },
	{ "preset",    OPT_PRESET,    "NAME",   0, "smoke: 1 minute, shows that all works; quick: 4 minutes; full: 18 (quick)", 0 },
	{ "budget",    OPT_BUDGET,    "TIME",   0, "All of it ends after this: 90s, 10m, 2h (the preset's)", 0 },
	{ "model",     'm',           "NAME@N", 0, "Only scenarios of this model and tensor-parallel degree", 0 },
	{ "scenarios", OPT_SETS,      "SETS",   0, "Sets of scenarios in place of the GPU's own, separated by commas", 0 },
	{ "trace-set", OPT_TRACE_SET, "FILE",   0, "A set in addition to these", 0 },
	{ "dir",       OPT_DIR,       "DIR",    0, "Where sets and models.json are (scenarios)", 0 },
	{ "results",   OPT_RESULTS,   "DIR",    0, "Databases; this machine's own is in its folder local (results)", 0 },
	{ "generated", OPT_GENERATED, "DIR",    0, "Headers; this machine's own is in its folder local (generated)", 0 },
	{ "dry-run",   OPT_DRY,       0,        0, "Say what would be measured, how long it takes and how much disk", 0 },
	{ "undo",      OPT_UNDO,      0,        0, "Bring back the rules that the last tune replaced", 0 },
	{ "anyway",    OPT_ANYWAY,    0,        0, "Measure although others use the machine", 0 },
	{ "format",    OPT_FORMAT,    "FORMAT", 0, "Of the summary: table or json", 0 },
	{ 0 }
};
// clang-format on

static void preset_arg(struct argp_state *state, struct tune_options *o, const char *text)
{
	for (o->preset = 0; o->preset < NUM_PRESETS; o->preset++)
		if (!strcmp(preset_names[o->preset], text))
			return;
	argp_error(state, "--preset is \"%s\"; it must be smoke, quick or full", text);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct tune_options *o = state->input;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'm': o->model = arg; return 0;
	case OPT_DEVICE: o->device = arg; return 0;
	case OPT_PRESET: preset_arg(state, o, arg); return 0;
	case OPT_BUDGET:
		o->budget_s = budget_seconds(arg);
		if (isnan(o->budget_s))
			argp_error(state, "--budget '%s' should be as in 90s, 10m or 1h", arg);
		return 0;
	case OPT_SETS: o->sets = arg; return 0;
	case OPT_TRACE_SET: o->trace_set = arg; return 0;
	case OPT_DIR: o->dir = arg; return 0;
	case OPT_RESULTS: o->results = arg; return 0;
	case OPT_GENERATED: o->generated = arg; return 0;
	case OPT_DRY: o->dry_run = 1; return 0;
	case OPT_UNDO: o->undo = 1; return 0;
	case OPT_ANYWAY: o->anyway = 1; return 0;
	case OPT_FORMAT: format_option(&o->format, arg, state); return 0;
	case ARGP_KEY_ARG: argp_error(state, "\"%s\" is not an option; see --help", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Measures kernels on this machine and installs rules that choose among them where they "
	"beat "
	"the rules in force."
	"\vIt starts from the rules of the nearest GPU, measures where they lose, learns rules of "
	"its own, and runs both next to each other on scenarios that none of them learned from. "
	"Each "
	"of the decisions (prefill, decode, mixed batches) is replaced only where the new one is "
	"faster beyond noise. What it measures is in results/local, the rules in generated/local; "
	"the same command goes on after an interrupt.\n\n"
	"Examples:\n  attune tune --preset smoke\n  attune tune --budget 10m --model "
	"llama3.1-8b@1\n"
	"  attune tune --undo",
	NULL,
	NULL,
	NULL
};

int cmd_tune(int argc, char **argv)
{
	struct tune_options o = { .preset = PRESET_QUICK,
				  .dir = "scenarios",
				  .results = "results",
				  .generated = "generated",
				  .command = "tune" };
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	catch_signals();
	return tune(&o);
}
