/* main.c - attune: the table of subcommands. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/bridge/bridge.h"
#include "harness/commands/commands.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

// clang-format off
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{ "tune",      cmd_tune,      "rules of this machine, installed where they beat those in force" },
	{ "check",     cmd_check,     "whether the rules still fit after an update of the driver, say" },
	{ "contribute", cmd_contribute, "what this machine measured, checked, into the project's results" },
	{ "devices",   cmd_devices,   "what is here: backends, names, limits, measured ceilings" },
	{ "scenarios", cmd_scenarios, "lists or generates scenarios" },
	{ "sweep",     cmd_sweep,     "measures kernels on scenarios into a database; resumes" },
	{ "merge",     cmd_merge,     "joins databases, such as the shards of a sweep" },
	{ "bridge",    cmd_bridge,    "rows of an older source that is as fast count as today's" },
	{ "induce",    cmd_induce,    "database to header: the code that chooses" },
	{ "confirm",   cmd_confirm,   "measures what was picked once more, for numbers that judge" },
	{ "eval",      cmd_eval,      "regret of a header and of baselines on a database" },
	{ "refine",    cmd_refine,    "new scenarios where the trees are least sure" },
	{ "show",      cmd_show,      "best variants, one scenario's ranking, why a leaf was chosen" },
	{ "diff",      cmd_diff,      "what changed between two databases or headers" },
	{ "ladder",    cmd_ladder,    "what each step from the first kernel to the tuned choice brings" },
	{ "plot",      cmd_plot,      "latency curves and others, SVG and PNG" },
	{ "bench",     cmd_bench,     "the tuned library against its baselines, side by side" },
};
// clang-format on

static void list(FILE *f)
{
	fputs("Usage: attune COMMAND [OPTION...]\n\n"
	      "Measures paged-attention kernels on this machine and writes the code that chooses "
	      "among them.\n\n",
	      f);
	for (size_t i = 0; i < COUNT(commands); i++)
		fprintf(f, "  %-11s %s\n", commands[i].name, commands[i].about);
	fputs("\n`attune COMMAND --help` has the options of a command, with examples.\n"
	      "Exit status: 0 done, 1 a check failed, 2 bad usage or input, 3 no such device, "
	      "4 the machine is busy, "
	      "130 interrupted.\n",
	      f);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* What was said is worth nothing when it could not be written. */
static int flushed(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	complain("standard output cannot be written: %s", strerror(errno));
	return code ? code : EXIT_CHECK;
}

/* Whoever runs a command must learn why it stopped. */
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

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	const struct command *c = command_find(word);
	char name[32];
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		list(stdout);
		return flushed(EXIT_DONE);
	}
	if (!strcmp(word, "--version")) {
		printf("attune %s\n", attune_version());
		return flushed(EXIT_DONE);
	}
	if (!c) {
		if (argc > 1)
			complain("\"%s\" is no command", word);
		list(stderr);
		return EXIT_USAGE;
	}
	/* argp names the program by argv[0] in what it prints */
	snprintf(name, sizeof name, "attune %s", c->name);
	argv[1] = name;
	argp_err_exit_status = EXIT_USAGE;
	return explained(c->name, flushed(c->run(argc - 1, argv + 1)));
}
