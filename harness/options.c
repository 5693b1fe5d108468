/* options.c - what several subcommands ask for in the same words: --gpu and --format. */
#include "harness.h"
#include <argp.h>
#include <string.h>

enum { MOST_GPU_NAME = 15 };

void gpu_option(const char **gpu, const char *arg, struct argp_state *state)
{
	const size_t n = strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789_");
	if (!n || arg[n] || n > MOST_GPU_NAME)
		argp_error(state,
			   "--gpu '%.*s' should be a name as in h200: 1 to %d of a-z, 0-9 "
			   "and _",
			   SHOWN_ARGUMENT, arg, MOST_GPU_NAME);
	*gpu = arg;
}

void format_option(enum format *format, const char *arg, struct argp_state *state)
{
	if (!format_parse(arg, format))
		argp_error(state, "--format '%.*s' should be " FORMAT_WORDS, SHOWN_ARGUMENT, arg);
}
