/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_cmd.c - attune sweep: parses the options and loads their scenarios. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/peers/peers.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/handle.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAMES = 64, MAX_PATH = PATH_TEXT + 300 };

struct request {
	struct sweep_options o;
	const char *set[MAX_NAMES], *batch[MAX_NAMES];
	int num_sets, num_batches;
	const char *dir, *model;
	int page_size, compile_only, with_rules;
};

enum {
	OPT_BATCH = 256,
	OPT_DB,
	OPT_DIR,
	OPT_PRESET,
	OPT_BUDGET,
	OPT_PHASES,
	OPT_PAGE,
	OPT_SHARD,
	OPT_COMPILE_ONLY,
	OPT_ARCH,
	OPT_DRY_RUN,
	OPT_AGAIN,
	OPT_RETRY,
	OPT_ANYWAY,
	OPT_SURVEY,
	OPT_EARLY,
	OPT_SEED,
	OPT_PROTOCOL,
	OPT_DEVICE,
	OPT_FORMAT
};

static const struct argp_option argp_options[] = {
	{ 0, 0, 0, 0, "What to measure on:", 1 },
	{ "gpu", 'g', "NAME", 0,
	  "Refuse unless this machine has it; default: its GPU, else its CPU", 0 },
	{ "device", OPT_DEVICE, "NAME", 0,
	  "This one of several GPUs, or these together: cuda:1, or cuda:0,cuda:1 (the first)", 0 },
	{ "db", OPT_DB, "PATH", 0, "The database (results/<gpu>.sqlite)", 0 },
	{ 0, 0, 0, 0, "Scenarios:", 2 },
	{ "scenarios", 's', "SETS", 0,
	  "Sets, separated by commas: names in the scenarios folder, or paths (the device's own "
	  "set)",
	  0 },
	{ "batch", OPT_BATCH, "TEXT", 0, "A batch by itself: 2q2k_32q1s1k; may be repeated", 0 },
	{ "model", 'm', "NAME@N", 0,
	  "Model and tensor-parallel degree of --batch (llama3.1-8b@1); of sets, only its "
	  "scenarios",
	  0 },
	{ "page-size", OPT_PAGE, "TOKENS", 0, "Page size of --batch (16)", 0 },
	{ "dir", OPT_DIR, "DIR", 0, "Where the sets and models.json are (scenarios)", 0 },
	{ "shard", OPT_SHARD, "I/N", 0,
	  "Only the I-th of N parts of the scenarios; join them with attune merge", 0 },
	{ 0, 0, 0, 0, "Candidates and time:", 3 },
	{ "kernels", 'k', "NAMES", 0, "Only these kernels, separated by commas", 0 },
	{ "phases", OPT_PHASES, "NAMES", 0,
	  "Only these parts of batches: prefill, decode, or all of a mixed one", 0 },
	{ "preset", OPT_PRESET, "NAME", 0,
	  "smoke: the defaults and few others; quick: about 40 choices of each kernel; full: all "
	  "legal ones (quick)",
	  0 },
	{ "budget", OPT_BUDGET, "TIME", 0,
	  "Measure at most this long: 90s, 10m, 2h (smoke 15s, quick 3m, full 15m)", 0 },
	{ "protocol", OPT_PROTOCOL, "NAME", 0,
	  "burst: clocks as after idle gaps; steady: clocks as under long load, into "
	  "results/<gpu>_steady.sqlite (burst)",
	  0 },
	{ "survey", OPT_SURVEY, "rules", OPTION_ARG_OPTIONAL,
	  "On scenarios that were never raced, measure only the portfolio of the database's races, "
	  "in three rounds; with rules also all choices that the device's rules name",
	  0 },
	{ "early", OPT_EARLY, 0, 0,
	  "Measure only the database's fastest choices of kernels that can begin before the "
	  "previous launch ends, in order and early, and print both",
	  0 },
	{ "again", OPT_AGAIN, 0, 0, "Measure cells again that the database has", 0 },
	{ "retry", OPT_RETRY, "OUTCOMES", 0,
	  "Measure again what failed in one of these ways: resources,crash", 0 },
	{ "anyway", OPT_ANYWAY, 0, 0, "Measure even if other programs use the machine", 0 },
	{ "seed", OPT_SEED, "N", 0, "Seed of sampled candidates and of the order within rounds (1)",
	  0 },
	{ 0, 0, 0, 0, "Other:", 4 },
	{ "compile-only", OPT_COMPILE_ONLY, 0, 0,
	  "Compile for --gpu, which need not be here, and print registers, spills, shared memory, "
	  "occupancy",
	  0 },
	{ "arch", OPT_ARCH, "NAME", 0,
	  "Architecture of a --gpu that attune devices --known does not list: sm_89; its limits "
	  "are those of the first listed GPU of that architecture",
	  0 },
	{ "dry-run", OPT_DRY_RUN, 0, 0, "Print what would be measured", 0 },
	{ "format", OPT_FORMAT, "FORMAT", 0, "Format of reports: " FORMAT_WORDS, 0 },
	{ 0 }
};

static const double budgets[NUM_PRESETS] = {
	[PRESET_SMOKE] = 15, [PRESET_QUICK] = 180, [PRESET_FULL] = 900
};

static void shard_arg(struct argp_state *state, struct sweep_options *o, const char *text)
{
	int end = 0;
	if (sscanf(text, "%d/%d%n", &o->shard, &o->shards, &end) != 2 || text[end] ||
	    o->shard < 1 || o->shard > o->shards)
		argp_error(state, "--shard is \"%s\"; it must be I/N with I from 1 to N, as in 2/4",
			   text);
	o->shard--;
}

static void add_name(struct argp_state *state, const char **names, int *n, const char *name)
{
	if (*n == MAX_NAMES)
		argp_error(state, "at most %d sets or batches can be swept together", MAX_NAMES);
	names[(*n)++] = name;
}

static int is_kernel(const char *word)
{
	const struct kernel *k = attune_kernels;
	while (k->name && !(k->selectable && !strcmp(k->name, word)))
		k++;
	return k->name != NULL;
}

static int is_phase(const char *word)
{
	enum phase p = PHASE_ALL;
	while (p <= PHASE_DECODE && strcmp(store_phase(p), word))
		p++;
	return p <= PHASE_DECODE;
}

static int is_failure(const char *word)
{
	enum outcome k = OUTCOME_OK + 1;
	while (k < OUTCOME_NOISY && strcmp(outcome_name(k), word))
		k++;
	return k < OUTCOME_NOISY;
}

static void survey_arg(struct argp_state *state, struct request *r, const char *arg)
{
	if (arg && strcmp(arg, "rules") != 0)
		argp_error(state, "--survey is \"%s\"; it must be rules or nothing", arg);
	r->o.survey = 1;
	r->with_rules = arg != NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;
	struct sweep_options *o = &r->o;
	char *word;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); break;
	case OPT_ARCH: o->arch = arg; break;
	case 's':
		for (word = strtok(arg, ","); word; word = strtok(NULL, ","))
			add_name(state, r->set, &r->num_sets, word);
		break;
	case 'm': r->model = arg; break;
	case 'k': o->kernels = arg; break;
	case OPT_PHASES:
		words_option("phases", o->phases = arg, is_phase, "prefill, decode and all", state);
		break;
	case OPT_BATCH: add_name(state, r->batch, &r->num_batches, arg); break;
	case OPT_DEVICE: o->device = arg; break;
	case OPT_DB: o->db = arg; break;
	case OPT_DIR: r->dir = arg; break;
	case OPT_PRESET: preset_option(&o->preset, arg, state); break;
	case OPT_BUDGET: o->budget_s = budget_option(arg, state); break;
	case OPT_PAGE: r->page_size = whole_option("page-size", arg, state); break;
	case OPT_SEED: o->seed = (unsigned long long)whole_option("seed", arg, state); break;
	case OPT_SHARD: shard_arg(state, o, arg); break;
	case OPT_PROTOCOL:
		if (strcmp(arg, "burst") && strcmp(arg, "steady"))
			argp_error(state, "--protocol is \"%s\"; it must be burst or steady", arg);
		o->steady = !strcmp(arg, "steady");
		break;
	case OPT_COMPILE_ONLY: r->compile_only = 1; break;
	case OPT_DRY_RUN: o->dry_run = 1; break;
	case OPT_AGAIN: o->again = 1; break;
	case OPT_RETRY:
		words_option("retry", o->retry = arg, is_failure,
			     "wrong, nan, resources, compile, timeout, crash and illegal", state);
		break;
	case OPT_ANYWAY: o->anyway = 1; break;
	case OPT_SURVEY: survey_arg(state, r, arg); break;
	case OPT_EARLY: o->early = 1; break;
	case OPT_FORMAT: format_option(&o->format, arg, state); break;
	case ARGP_KEY_END:
		if (o->kernels)
			words_option("kernels", o->kernels, is_kernel,
				     "the kernels that attune show --kernels lists", state);
		if (o->arch && !(r->compile_only && o->gpu))
			argp_error(state, "--arch goes with --compile-only and --gpu alone");
		if (o->survey && (o->again || r->compile_only))
			argp_error(state, "--survey goes with none of --again "
					  "and --compile-only");
		if (o->early &&
		    (o->survey || r->compile_only || o->kernels || o->phases || o->retry))
			argp_error(state, "--early goes with none of --survey, "
					  "--compile-only, --kernels, --phases and --retry");
		break;
	case ARGP_KEY_ARG: no_option(arg, state); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- scenarios ------------------------------------------------------------------ */

static int add_batch(struct scenario_list *list, const struct request *r, const char *text,
		     const struct models *m)
{
	struct scenario s;
	if (!scenario_of_batch(&s, text, r->model ? r->model : "llama3.1-8b@1", r->page_size, m))
		return 0;
	if (scenarios_append(list, &s))
		return 1;
	complain("out of memory");
	scenario_drop(&s);
	return 0;
}

static int load(struct scenario_list *list, struct request *r)
{
	char path[MAX_PATH];
	snprintf(path, sizeof path, "%s/models.json", r->dir);
	struct models *m = models_load(path);
	attune_shape unused;
	int ok = m && scenario_sets_load(list, r->dir, r->set, r->num_sets, r->model, m) &&
		 (!r->model || models_shape(m, r->model, &unused));
	for (int i = 0; ok && i < r->num_batches; i++)
		ok = add_batch(list, r, r->batch[i], m);
	if (ok)
		scenarios_sift(list, NULL);
	if (ok && !list->n) {
		complain("no scenario of %s in these sets", r->model);
		ok = 0;
	}
	models_free(m);
	return ok;
}

/* ---- the command ---------------------------------------------------------------- */

static char *joined(int argc, char **argv)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	for (int i = 0; f && i < argc; i++)
		fprintf(f, "%s%s", i ? " " : "", argv[i]);
	if (!f || fclose(f))
		return NULL;
	return text;
}

static const char about[] =
    "Measures kernels on scenarios into a database. Stored cells are not measured again, so "
    "the same command resumes an interrupted sweep."
    "\vExamples:\n"
    "  attune sweep --preset smoke\n"
    "  attune sweep --gpu h200 --scenarios h200 --preset full --budget 20m\n"
    "  attune sweep --batch 2q2k_32q1s1k --model llama3.1-70b@4 --kernels segmented\n"
    "  attune sweep --gpu h200 --scenarios dense_h200 --survey --budget 10m\n"
    "  attune sweep --gpu h200 --early\n"
    "  attune sweep --gpu h200 --with torch_sdpa --peer mine.py --preset quick\n"
    "  attune sweep --gpu b200 --compile-only --batch 32q1s4k\n"
    "  attune sweep --gpu h200 --retry resources,crash\n\n"
    "A sweep has four stages. race: each part of each scenario, scenarios unlike earlier ones "
    "first; the candidates that are promising by the machine's ceilings, the kernels' formulas "
    "and the results of similar scenarios are timed in rounds, one sample of each per round, "
    "and eliminated once they are certainly slower. complete: the portfolio, the few choices "
    "that together are nearly best everywhere, on all scenarios. cold: the first scenarios "
    "again, with all that is known by then. audit: every legal choice on one scenario in 25, "
    "which shows what racing missed. In one race of 12 a choice runs twice, as an A/A control: "
    "the difference is the noise of the machine.\n\n"
    "--survey adds many scenarios to learn from in a short time each. On scenarios that were "
    "not raced it measures only the portfolio of the database's races, with defaults and "
    "baselines, in three rounds without elimination. --survey=rules also measures what the "
    "device's rules name. A later sweep without --survey races them as new.\n\n"
    "--early measures what a kernel gains if it begins before the previous launch ends, which "
    "the caller must allow (attune.h). The calls of a race follow one another on a stream, so "
    "the time of an early call is what it adds to a chain of calls of its own kind. Trees and "
    "prices ignore these times.\n\n"
    "The budget is for measuring and excludes compiling, which uses all CPUs, once per binary. "
    "A compilation of more than two minutes is recorded as refused.\n\n"
    "Every choice is compared with the reference on corner batches before it is timed, and "
    "on the scenario itself if it comes near to winning. A choice that crashes or hangs ends "
    "only a worker process; it is recorded, and the sweep goes on.\n\n"
    "Before it measures, attune waits up to a minute until no other attune measures on the "
    "device, and up to a minute until the machine is quiet; then it refuses, with exit status 4. "
    "--anyway measures on a busy machine, but never together with another attune. Times that are "
    "too noisy to learn from are marked noisy and raced again: at most twice at the end of their "
    "stage, and by the next sweep.\n\n"
    "--retry is for failures that were the machine's, such as a full disk or a lost driver. It "
    "measures these cells again. The new row replaces the old one, which merge --compact "
    "drops.\n\n"
    "attune sweep --confirm measures the picks and their rivals again, in a second pass; "
    "--confirm --help has its options.\n";

static int measure_part(const struct sweep_options *o, const struct hello *hello, void *list)
{
	return (o->early ? sweep_early : sweep)(o, hello, list);
}

/* Lists the choices that the rules for this device name, for caches of 16 and of 8 bits. NULL +
 * complain without memory. */
static struct choice *named_choices(const struct device_info *d, int *num)
{
	const struct selector *of_cache[] = { selector_for(d, ATTUNE_BF16),
					      selector_for(d, ATTUNE_E4M3) };
	struct choice *v = NULL;
	int n = 0;
	for (size_t t = 0; t < COUNT(of_cache); t++)
		n += of_cache[t] ? of_cache[t]->num_choices : 0;
	v = calloc((size_t)n + 1, sizeof *v);
	if (!v)
		complain("out of memory");
	n = 0;
	for (size_t t = 0; v && t < COUNT(of_cache); t++) {
		const struct selector *s = of_cache[t];
		for (int i = 0; s && i < s->num_choices; i++) {
			const char *where;
			v[n].kernel = kernel_find(d->backend, s->choices[i].kernel);
			if (!v[n].kernel)
				continue;
			config_default(&v[n].config, v[n].kernel->space);
			n += config_parse(&v[n].config, v[n].kernel->space, s->choices[i].text,
					  &where);
		}
	}
	*num = n;
	return v;
}

static int measure(struct request *r)
{
	struct choice *named_by_rules = NULL;
	struct scenario_list list = { 0 };
	struct hello hello;
	const int named = r->num_sets || r->num_batches;
	int code = EXIT_USAGE;
	catch_signals();
	if (!named || load(&list, r))
		code = sweep_device(&r->o, &hello);
	if (!code && !named) {
		r->set[r->num_sets++] = hello.info.gpu;
		code = load(&list, r) ? EXIT_DONE : EXIT_USAGE;
	}
	if (!code && r->with_rules) {
		r->o.also = named_by_rules = named_choices(&hello.info, &r->o.num_also);
		code = named_by_rules ? EXIT_DONE : EXIT_CHECK;
	}
	if (!code)
		code = on_each_device(&r->o, &hello, measure_part, &list);
	free(named_by_rules);
	scenarios_free(&list);
	return code;
}

static int compile(struct request *r)
{
	struct scenario_list list = { 0 };
	char own[MAX_PATH];
	const char *gpu = r->o.gpu ? r->o.gpu : "cpu";
	snprintf(own, sizeof own, "%s/%s.json", r->dir, gpu);
	if (!r->num_sets && !r->num_batches) /* a GPU without sets of its own borrows the H200's */
		r->set[r->num_sets++] = access(own, R_OK) ? "h200" : gpu;
	const int code = load(&list, r) ? compile_only(&r->o, &list) : EXIT_USAGE;
	scenarios_free(&list);
	return code;
}

int cmd_sweep(int argc, char **argv)
{
	const struct argp argp = {
		.options = argp_options, .parser = parse, .doc = about, .children = peers_options
	};
	char dir[PATH_TEXT];
	struct request r = { .o = { .preset = PRESET_QUICK, .shards = 1, .seed = 1 },
			     .dir = data_path(dir, "scenarios"),
			     .page_size = 16 };
	char *command = joined(argc, argv);
	int code;
	options_parse(&argp, argc, argv, &r);
	r.o.command = command ? command : "";
	if (!r.o.budget_s)
		r.o.budget_s = budgets[r.o.preset];
	code = r.compile_only ? compile(&r) : measure(&r);
	free(command);
	return code;
}
