/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - attune: the table of subcommands. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "harness/bridge/bridge.h"
#include "harness/commands/commands.h"
#include "harness/plugin/plugin.h"
#include "harness/store/store.h"
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

// clang-format off
static const struct command {
	const char *name;
	const char *mode; /* the option that selects it; NULL: the command without one of these */
	int (*run)(int argc, char **argv); /* NULL: that of the command without the mode */
	const char *about;
} commands[] = {
	{ "tune",      NULL,         cmd_tune,       "measures this machine and installs rules that beat those in force" },
	{ "tune",      "check",      NULL,           "checks that the rules still fit, such as after a driver update" },
	{ "devices",   NULL,         cmd_devices,    "lists devices: names, limits, measured ceilings" },
	{ "scenarios", NULL,         cmd_scenarios,  "lists or generates scenarios" },
	{ "scenarios", "settled",    cmd_settled_next, "writes the settled batches that are worth a sweep" },
	{ "sweep",     NULL,         cmd_sweep,      "measures kernels on scenarios into a database; resumes" },
	{ "sweep",     "confirm",    cmd_confirm,    "measures the picks and their rivals again, for evaluation" },
	{ "merge",     NULL,         cmd_merge,      "joins databases, such as the shards of a sweep" },
	{ "merge",     "contribute", cmd_contribute, "checks this machine's measurements and adds them to results/" },
	{ "merge",     "bridge",     cmd_bridge,     "keeps times of a changed kernel source with equal machine code" },
	{ "merge",     "settled",    cmd_merge_settled, "adds files of what the library settled by timing" },
	{ "induce",    NULL,         cmd_induce,     "learns rules from a database and writes the header" },
	{ "eval",      NULL,         cmd_eval,       "prints the regret of a header and of baselines" },
	{ "show",      NULL,         cmd_show,       "shows best variants, a batch's ranking, why a leaf was chosen" },
	{ "show",      "diff",       cmd_diff,       "compares two databases or two headers" },
	{ "plot",      NULL,         cmd_plot,       "draws latency curves and other pictures, SVG and PNG" },
	{ "bench",     NULL,         cmd_bench,      "measures the tuned library against its baselines" },
};
// clang-format on

enum { NAME = 32 };

static void command_name(const struct command *c, char name[NAME])
{
	snprintf(name, NAME, "%s%s%s", c->name, c->mode ? " --" : "", c->mode ? c->mode : "");
}

static void list(FILE *f)
{
	fputs("Usage: attune [--plugin FILE]... [--machine TEXT] COMMAND [OPTION...]\n\n"
	      "Measures paged-attention kernels on this machine and writes the code that chooses "
	      "among them.\n\n",
	      f);
	for (size_t i = 0; i < COUNT(commands); i++) {
		char name[NAME];
		command_name(&commands[i], name);
		fprintf(f, "  %-20s %s\n", name, commands[i].about);
	}
	fputs(
	    "\n`attune COMMAND --help` lists the options of a command, with examples.\n"
	    "--plugin FILE adds the kernels of a shared object (attune_plugin.h), which then race "
	    "like\nattune's own; FILE:one,two adds these of them. It may be repeated.\n"
	    "--machine TEXT reads only times of the CPU whose name has this text; without it a "
	    "database\nwith times of several CPUs gives those of this machine's.\n"
	    "Exit status: 0 done, 1 a check failed, 2 bad usage or input, 3 no such device,\n"
	    "4 the machine is busy, 5 nothing was measured, 130 interrupted.\n",
	    f);
}

static int is_mode(const struct command *c, const char *word)
{
	return c->mode && c->run && !strncmp(word, "--", 2) && !strcmp(word + 2, c->mode);
}

/* Which of the modes of a command its arguments name; the option is removed from them. */
static const struct command *mode_of(const struct command *c, int *argc, char **argv)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		for (int k = 2; !strcmp(commands[i].name, c->name) && k < *argc; k++)
			if (is_mode(&commands[i], argv[k])) {
				for (; k < *argc; k++) /* the NULL behind them, too */
					argv[k] = argv[k + 1];
				--*argc;
				return &commands[i];
			}
	return c;
}

static const struct command *command_find(int *argc, char **argv)
{
	for (size_t i = 0; *argc > 1 && i < COUNT(commands); i++)
		if (!commands[i].mode && !strcmp(commands[i].name, argv[1]))
			return mode_of(&commands[i], argc, argv);
	return NULL;
}

/* The command that has a mode of that name; NULL: none. */
static const struct command *named_as_mode(const char *word)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (commands[i].mode && !strcmp(commands[i].mode, word))
			return &commands[i];
	return NULL;
}

static int unknown(const char *word)
{
	const struct command *c = named_as_mode(word);
	if (c)
		complain("\"%s\" is not a command; it is attune %s --%s", word, c->name, word);
	else if (*word)
		complain("\"%s\" is not a command", word);
	if (!c)
		list(stderr);
	return EXIT_USAGE;
}

/* A command fails if its output could not be written. */
static int flushed(int code)
{
	if (output_was_lost())
		return code ? code : EXIT_CHECK;
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	complain("standard output cannot be written: %s", strerror(errno));
	return code ? code : EXIT_CHECK;
}

/* A command that fails without a message gets one here. */
static int explained(const char *command, int code)
{
	if (code == EXIT_INTERRUPTED && !complaints())
		complain("%s: interrupted", command);
	else if (code != EXIT_DONE && !complaints())
		complain("%s: stopped without a reason: memory ran out, or this is a bug; please "
			 "report it",
			 command);
	return code;
}

static int is_option(const char *word, const char *option)
{
	const size_t n = strlen(option);
	return !strncmp(word, option, n) && strchr("=", word[n]);
}

/* Obeys the options that stand before the command, and removes them from the arguments. */
static int general_options(int *argc, char ***argv)
{
	for (;;) {
		const char *word = *argc > 1 ? (*argv)[1] : "";
		const int is_plugin = is_option(word, "--plugin");
		if (!is_plugin && !is_option(word, "--machine"))
			return 1;
		const char *inside = strchr(word, '='), *value = inside ? inside + 1 : (*argv)[2];
		const int used = inside ? 1 : 2;
		if (!value || !*value) {
			complain("%.*s needs %s", (int)strcspn(word, "="), word,
				 is_plugin ? "a file" : "a text");
			return 0;
		}
		if (is_plugin && !plugin_load(value))
			return 0;
		if (!is_plugin)
			store_machine(value);
		(*argv)[used] = (*argv)[0];
		*argv += used;
		*argc -= used;
	}
}

/* Messages of argp repeat arguments without escapes. */
static int arguments_are_text(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!text_keeps(TEXT_FREE, argv[i])) {
			complain("argument %d, \"%.60s\": it must be %s", i, argv[i],
				 text_rule_says(TEXT_FREE));
			return 0;
		}
	return 1;
}

int main(int argc, char **argv)
{
	if (!arguments_are_text(argc, argv))
		return EXIT_USAGE;
	if (!general_options(&argc, &argv))
		return EXIT_USAGE;
	const char *word = argc > 1 ? argv[1] : "";
	const struct command *c = command_find(&argc, argv);
	char name[NAME], full[NAME + 8];
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		list(stdout);
		return flushed(EXIT_DONE);
	}
	if (!strcmp(word, "--version")) {
		printf("attune %s\n", attune_version());
		return flushed(EXIT_DONE);
	}
	if (!c)
		return unknown(word);
	/* Beyond `ulimit -f` a write then fails, which is reported. */
	signal(SIGXFSZ, SIG_IGN);
	/* argp names the program by argv[0] in what it prints */
	command_name(c, name);
	snprintf(full, sizeof full, "attune %s", name);
	argv[1] = full;
	argp_err_exit_status = EXIT_USAGE;
	return explained(name, flushed(c->run(argc - 1, argv + 1)));
}
