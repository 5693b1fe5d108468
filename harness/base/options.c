/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - what several subcommands share in reading options. */
#include "base.h"
#include "kernels/device/shared/gpu_names.h"
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void options_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	const error_t error = argp_parse(argp, argc, argv, 0, NULL, input);
	if (!error)
		return;
	complain("the options cannot be read: %s", strerror(error));
	exit(EXIT_USAGE);
}

void gpu_option(const char **gpu, const char *arg, struct argp_state *state)
{
	if (!gpu_name_is_valid(arg))
		argp_error(state, "--gpu is '%.*s'; it must be a name of " GPU_NAME_RULE,
			   SHOWN_ARGUMENT, arg);
	*gpu = arg;
}

void format_option(enum format *format, const char *arg, struct argp_state *state)
{
	if (!format_parse(arg, format))
		argp_error(state, "--format '%.*s' should be " FORMAT_WORDS, SHOWN_ARGUMENT, arg);
}

int list_has(const char *list, const char *word)
{
	const size_t n = strlen(word);
	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == n && !strncmp(at, word, n))
			return 1;
	return 0;
}

void words_option(const char *name, const char *list, int (*is)(const char *word),
		  const char *known, struct argp_state *state)
{
	const char *at = list;
	do {
		char word[SHOWN_ARGUMENT + 1];
		const size_t n = strcspn(at, ",");
		snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), at);
		if (!is(word))
			argp_error(state, "--%s: \"%s\" is none of %s", name, word, known);
		at += n;
	} while (*at++);
}

int whole_option(const char *name, const char *arg, struct argp_state *state)
{
	char *end;
	const long v = strtol(arg, &end, 10);
	if (*end || v < 1 || v > 1000000000)
		argp_error(state, "--%s '%s' should be a number, 1 or more", name, arg);
	return (int)v;
}

double budget_option(const char *arg, struct argp_state *state)
{
	char *end;
	const double v = strtod(arg, &end);
	const double unit = *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
	end += *end == 'h' || *end == 'm' || *end == 's';
	if (end == arg || *end || !(v > 0 && v < 1e6))
		argp_error(state, "--budget '%s' should be as in 90s, 10m or 1h", arg);
	return v * unit;
}

void no_option(const char *arg, struct argp_state *state)
{
	argp_error(state, "\"%s\" is not an option; see --help", arg);
}
