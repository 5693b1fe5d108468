/* options.c - the options that several subcommands share: --gpu and --format, and lists of words. */
#include "base.h"
#include "kernels/device/shared/gpu_names.h"
#include <argp.h>
#include <string.h>

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
