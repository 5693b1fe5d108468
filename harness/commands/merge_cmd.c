/* SPDX-License-Identifier: Apache-2.0 */
/* merge_cmd.c - attune merge: joins results databases, such as the shards of a sweep. */
#include "commands.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct paths {
	char **v;
	int n, compact;
};

enum { OPT_COMPACT = 256 };
static const struct argp_option rows[] = {
	{ "compact", OPT_COMPACT, NULL, 0,
	  "reduces OUT to the form that is committed to git, and prints what was dropped", 0 },
	{ 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
	struct paths *p = state->input;
	(void)arg;
	if (key == OPT_COMPACT) {
		p->compact = 1;
		return 0;
	}
	if (key == ARGP_KEY_ARGS) {
		p->v = state->argv + state->next;
		p->n = state->argc - state->next;
		return 0;
	}
	if (key == ARGP_KEY_NO_ARGS)
		argp_error(state, "name the database to write, then those to add");
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = rows,
	.parser = on_option,
	.args_doc = "OUT [IN...]",
	.doc =
	    "Adds the measurements of the databases IN to OUT, which is created if absent.\v"
	    "Nothing is added twice, so merging again changes nothing. If several databases have a "
	    "time of the same choice, batch and pass, that of the last one named counts.\n\n"
	    "A run has hashes of the sources that it was built from. merge looks for the commit "
	    "that has these hashes. A run without such a commit counts as one on modified "
	    "sources.\n\n"
	    "--compact keeps the newest row of each variant, scenario, phase and pass, failures "
	    "too. It drops:\n"
	    "  raw samples, and rows that newer ones replace\n"
	    "  runs on modified sources\n"
	    "  rows of older kernel sources that no bridge keeps (attune show --stale)\n"
	    "  times of choices that are hardly ever within 5 % of the fastest, in databases of\n"
	    "  100000 times and more\n"
	    "Of these choices each kernel's fastest time in a scenario and phase stays. All times "
	    "stay of default choices and of those that a header names. "
	    "Make bridges before (attune merge --bridge): dropped rows are lost. A time of older "
	    "sources stays if it is the fastest of a scenario and phase: by it attune induce knows "
	    "that the fastest kernel has no time by today's sources. Rows of kernels that this "
	    "tool does not have stay, too.\n\n"
	    "attune merge --contribute adds this machine's measurements to the project's. attune "
	    "merge --bridge keeps times after a change of a kernel's source. attune merge --settled "
	    "adds files of what the library settled. Each has a --help.\n\n"
	    "Example, three shards of a sweep on three machines:\n"
	    "  attune merge results/h200.sqlite shard1.sqlite shard2.sqlite shard3.sqlite\n"
	    "  attune merge --compact results/h200.sqlite\n",
};

static int compact(struct store *s)
{
	struct compacted gone;
	if (!store_compact(s, COMPACT_LIGHT, &gone))
		return 0;
	fprintf(
	    stderr,
	    "compact dropped %lld replaced rows, %lld rows of modified sources, %lld rows of older "
	    "kernel sources, %lld rows of choices that no rule picks, the samples of %lld rows and "
	    "%lld readings\n",
	    gone.superseded, gone.modified, gone.stale, gone.outdone, gone.samples, gone.readings);
	if (!gone.knows_sources)
		complain("no kernel sources found to compare with, so rows of older ones stay; set "
			 "ATTUNE_SOURCE to the kernels folder");
	return 1;
}

/* Adds the databases IN. *merged: how many. An exit code. */
static int merge(struct store *out, const struct paths *p, int *merged)
{
	if (!store_check(out))
		return EXIT_USAGE;
	for (*merged = 0; *merged < p->n - 1; ++*merged) {
		const char *path = p->v[1 + *merged];
		long long added;
		if (!store_merge(out, path, &added))
			return EXIT_USAGE;
		fprintf(stderr, "%s: %lld measurements added\n", path, added);
	}
	return provenance_find(out) && (!p->compact || compact(out)) ? EXIT_DONE : EXIT_USAGE;
}

int cmd_merge(int argc, char **argv)
{
	struct paths p = { 0 };
	int merged = 0;
	options_parse(&argp, argc, argv, &p);
	const int is_new = access(p.v[0], F_OK) && errno == ENOENT;
	struct store *out = store_open(p.v[0], 0);
	int code = EXIT_USAGE;
	if (out && is_new && p.n == 1)
		complain("%s: there is no such database, and none is named to add to it", p.v[0]);
	else if (out)
		code = merge(out, &p, &merged);
	store_close(out);
	if (is_new && !merged)
		store_remove(p.v[0]);
	return code;
}
