/* devices_cmd.c - attune devices: what is here, what it may do, and what it was seen
 * to do. Each device is opened in a process of its own, so that a broken driver costs
 * one row. */
#include "../kernels/heuristics.h"
#include "sweep.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_GPUS = 16 };

static const char *const columns[] = {
	"device",    "gpu",       "name",           "arch",          "driver",
	"units",     "lanes",     "smem_per_block", "smem_per_unit", "last_cache_mb",
	"memory_gb", "clock_mhz", "power_limit_w",  "dram_gbps",     "fma_tflops",
	"compiler",  "heuristic"
};

static double known(double value)
{
	return value > 0 ? value : NAN;
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
	table_text(t, selector_name(d));
	table_end_row(t);
}

/* 1: a row was added; 0: no such device, which is talked of only for the first. */
static int try_device(struct table *t, const char *which, int talk)
{
	const struct worker_setup setup = { .device = which };
	struct worker *w = worker_new(&setup);
	struct hello hello = { .status = ATTUNE_DEVICE_ERROR };
	const int known_status = w && worker_hello(w, &hello);
	worker_free(w);
	if (known_status && !hello.status) {
		row(t, which, &hello);
		return 1;
	}
	if (talk && *hello.text)
		complain("%s: %s", which, hello.text);
	return 0;
}

/* How many there are. */
static int try_gpus(struct table *t, const char *vendor, int talk)
{
	char which[24];
	int n = 0;
	while (n < MOST_GPUS && !interrupted) {
		snprintf(which, sizeof which, "%s:%d", vendor, n);
		if (!try_device(t, which, talk && !n))
			break;
		n++;
	}
	return n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	enum format *format = state->input;
	if (key == 'f')
		format_option(format, arg, state);
	if (key == ARGP_KEY_ARG)
		argp_error(state, "\"%s\" is not an option; see --help", arg);
	return key == 'f' ? 0 : ARGP_ERR_UNKNOWN;
}

int cmd_devices(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "format", 'f', "FORMAT", 0, FORMAT_WORDS, 0 }, { 0 }
	};
	static const char about[] =
	    "Lists the devices that can be measured: names, limits and measured ceilings (bytes "
	    "a second from memory, FLOP a second of multiply-adds)."
	    "\vExample:\n"
	    "  attune devices --format json\n\n"
	    "`gpu` is the name that --gpu and file names use. `heuristic`: by whose measurements "
	    "the "
	    "library chooses there; untuned: by nobody's, it takes the defaults.\n";
	const struct argp argp = { .options = options, .parser = parse, .doc = about };
	enum format format = FORMAT_TABLE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &format);
	catch_signals();
	struct table *t = table_new(format, columns, COUNT(columns));
	/* The first is what a tune without GPU= takes. */
	const int nvidia = try_gpus(t, "cuda", 1);
	try_gpus(t, "hip", !nvidia);
	if (!interrupted)
		try_device(t, "cpu", 1);
	table_print(t, stdout);
	return interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}
