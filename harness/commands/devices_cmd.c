/* SPDX-License-Identifier: Apache-2.0 */
/* devices_cmd.c - attune devices: lists this machine's devices with their limits and measured
 * ceilings. Each device is opened in a process of its own, so that a broken driver costs only
 * one row. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "kernels/select/selector.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>

enum { MOST_GPUS = 16 };

static const char *const columns[] = {
	"device",        "gpu",           "name",       "arch",
	"driver",        "units",         "lanes",      "smem_per_block",
	"smem_per_unit", "last_cache_mb", "memory_gb",  "clock_mhz",
	"power_limit_w", "dram_gbps",     "fma_tflops", "compiler",
	"rules",         "heuristic",     "why"
};
static const char *const known_columns[] = { "gpu",        "driver_name", "arch",      "units",
					     "memory_gib", "dram_gbps",   "tflops_16", "rules",
					     "heuristic",  "why" };

static double known(double value)
{
	return value > 0 ? value : NAN;
}

/* Adds what the library has for this device: kind of rules, header, and why. */
static void end_with_heuristic(struct table *t, const struct device_info *d)
{
	char why[SELECTOR_WHY];
	selector_why(why, sizeof why, attune_selectors, attune_num_selectors, d);
	table_text(t, selector_gets(attune_selectors, attune_num_selectors, d));
	table_text(t, selector_name(d));
	table_text(t, why);
	table_end_row(t);
}

static void row(struct table *t, const char *which, const struct hello *h)
{
	const struct device_info *d = &h->info;
	table_text(t, which);
	table_text(t, d->gpu);
	table_text(t, d->name);
	table_text(t, d->arch);
	table_text(t, d->driver);
	table_number(t, d->units, 0);
	table_number(t, d->lanes, 0);
	table_number(t, known(d->smem_per_block), 0);
	table_number(t, known(d->smem_per_unit), 0);
	table_number(t, known((double)d->l2_bytes / 1e6), 1);
	table_number(t, (double)d->memory_bytes / 1e9, 1);
	table_number(t, known(d->clock_mhz), 0);
	table_number(t, known(d->power_limit_w), 0);
	table_number(t, known(h->dram_gbps), 1);
	table_number(t, known(h->fma_tflops), 3);
	table_text(t, jit_version(d->backend, d->arch));
	end_with_heuristic(t, d);
}

/* Lists all GPUs that attune has a name for. */
static void list_known(struct table *t)
{
	for (const struct gpu_model *m = gpu_models; m->gpu; m++) {
		struct device_info d;
		gpu_describe(&d, m);
		table_text(t, m->gpu);
		table_text(t, m->slug);
		table_text(t, m->arch);
		table_number(t, known(m->units), 0);
		table_number(t, known(m->memory_gib), 0);
		table_number(t, known(m->dram_gbps), 0);
		table_number(t, known(m->tflops), 0);
		end_with_heuristic(t, &d);
	}
}

/* Measures ceilings unless another command measures on the device: each would disturb the other. */
static void add_ceilings(const char *which, struct hello *hello)
{
	struct device_lock lock = { -1 };
	struct hello with;
	const int emulated = device_is_emulated(&hello->info);
	if (!emulated && lock_take(&lock, &hello->info, "devices", 0)) {
		complain("%s: listed without ceilings", which);
		return;
	}
	if (device_ask(which, 1, &with))
		*hello = with;
	lock_free(&lock);
}

/* 1: a row was added; 0: no such device, with a complaint if `complains`. */
static int try_device(struct table *t, const char *which, int complains)
{
	struct hello hello;
	if (device_ask(which, 0, &hello)) {
		add_ceilings(which, &hello);
		row(t, which, &hello);
		return 1;
	}
	if (complains && *hello.text)
		complain("%s: %s", which, hello.text);
	return 0;
}

/* Adds a row per GPU. How many. */
static int try_gpus(struct table *t, const char *vendor, int complains)
{
	char which[24];
	int n = 0;
	while (n < MOST_GPUS && !interrupted) {
		snprintf(which, sizeof which, "%s:%d", vendor, n);
		if (!try_device(t, which, complains && !n))
			break;
		n++;
	}
	return n;
}

struct request {
	enum format format;
	int known;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;
	switch (key) {
	case 'f': format_option(&r->format, arg, state); return 0;
	case 'k': r->known = 1; return 0;
	case ARGP_KEY_ARG: no_option(arg, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* How many there are. */
static int try_all(struct table *t)
{ /* Without GPU=, make tune takes the first row. */
	int n = try_gpus(t, "cuda", 1);
	n += try_gpus(t, "hip", !n);
	if (!interrupted)
		n += try_device(t, "cpu", 1);
	return n;
}

int cmd_devices(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "known", 'k', NULL, 0, "List all GPUs that attune has a name for, here or not",
		  0 },
		{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 },
		{ 0 }
	};
	static const char about[] =
	    "Lists the devices that can be measured: names, limits and measured ceilings (bytes "
	    "a second from memory, FLOP a second of multiply-adds)."
	    "\vExamples:\n"
	    "  attune devices --format json\n"
	    "  attune devices --known\n\n"
	    "`gpu` is the name for --gpu and in file names; for a GPU that --known does not list, "
	    "the driver's name in lower case. `rules`: what the library has for it:\n"
	    "  own       measured on this model\n"
	    "  nearest   measured on the model that `heuristic` names\n"
	    "  portable  measured on other NVIDIA GPUs, of what all from sm_80 on run\n"
	    "  defaults  the kernels' defaults, of which no time is\n"
	    "  refused   no kernel is for it\n"
	    "`heuristic`: the header of these rules; untuned: none. `why` says it in words.\n";
	const struct argp argp = { .options = options, .parser = parse, .doc = about };
	struct request r = { FORMAT_TABLE, 0 };
	options_parse(&argp, argc, argv, &r);
	catch_signals();
	struct table *t = r.known ? table_new(r.format, known_columns, COUNT(known_columns))
				  : table_new(r.format, columns, COUNT(columns));
	int n = 1;
	if (r.known)
		list_known(t);
	else
		n = try_all(t);
	table_print(t, stdout);
	return interrupted ? EXIT_INTERRUPTED : n ? EXIT_DONE : EXIT_NO_DEVICE;
}
