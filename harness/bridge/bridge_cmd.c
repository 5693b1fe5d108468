/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_cmd.c - attune merge --bridge: lets rows of a changed source count as today's, if the change
 * left the machine code equal. */
#include "bridge.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAMES = 64 };
enum { OPT_DB = 256, OPT_GPU, OPT_FROM, OPT_DRY_RUN, OPT_FORMAT };

struct request {
	struct bridges bridges;
	struct trees trees;
	char *from[MOST_NAMES];
	int num_from, dry_run;
	enum format format;
	char gpu[GPU_NAME];
};

static const struct argp_option options[] = {
	{ "db", OPT_DB, "FILE", 0, "the database (required)", 0 },
	{ "from", OPT_FROM, "REV|DIR", 0,
	  "a git revision, or a folder with kernels/, that may have old sources; may be repeated "
	  "(all commits that touch the kernels, until each old source is found)",
	  0 },
	{ "gpu", OPT_GPU, "NAME", 0,
	  "rows of this GPU, or of cpu (default: the database's only one)", 0 },
	{ "dry-run", OPT_DRY_RUN, NULL, 0, "lists what would be compared; stores nothing", 0 },
	{ "format", OPT_FORMAT, "table|tsv|json", 0, "of the output (table)", 0 },
	{ 0 }
};

static const char about[] =
    "Lets rows count as today's although a kernel's source has changed since.\v"
    "A row is stale if the source of one of its binaries is not today's. For each such source "
    "the old text is searched in the given trees; then both texts are compiled with the "
    "database's flags. If all machine code is equal, except for names and debug data, a bridge "
    "is stored for the source, else one for each set of flags with equal code. This needs the "
    "compiler, but no GPU. Where earlier bridges lead from a source to a later one, that one is "
    "compared, too, and serves its rows as well. Binaries stay in the cache, and each bridge "
    "is stored when it is found, so that an interrupted run continues where it stopped. attune "
    "merge --compact drops stale rows, which can then no longer be bridged.\n\n"
    "Examples, after an edit that should not change the code, and for all old sources:\n"
    "  attune merge --bridge --db results/h200.sqlite --from HEAD~1\n"
    "  attune merge --bridge --db results/h200.sqlite\n";

/* ---- options --------------------------------------------------------------------------- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct request *r = state->input;
	const char *asked;
	switch (key) {
	case OPT_DB: r->bridges.db = arg; return 0;
	case OPT_GPU:
		gpu_option(&asked, arg, state);
		snprintf(r->gpu, sizeof r->gpu, "%s", asked);
		return 0;
	case OPT_FROM:
		if (r->num_from == MOST_NAMES)
			argp_error(state, "more than %d trees", MOST_NAMES);
		r->from[r->num_from++] = arg;
		return 0;
	case OPT_DRY_RUN: r->dry_run = 1; return 0;
	case OPT_FORMAT:
		if (!format_parse(arg, &r->format))
			argp_error(state, "--format %s: table, tsv or json", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "\"%s\" is no option", arg); return 0;
	case ARGP_KEY_END:
		if (!r->bridges.db)
			argp_error(state, "name the database with --db");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the GPU, the trees ---------------------------------------------------- */

static int keep_gpu(void *arg, int n, const char *const *names, const char *const *cells)
{
	struct request *r = arg;
	(void)n, (void)names;
	if (*r->gpu) {
		complain("%s: has rows of %s and %s; name one with --gpu", r->bridges.db, r->gpu,
			 cells[0]);
		*r->gpu = '\0';
		return 0;
	}
	snprintf(r->gpu, sizeof r->gpu, "%s", cells[0]);
	return 1;
}

/* The GPU of --gpu, or the database's only one; 0 + complain. */
static int find_gpu(struct request *r)
{
	if (*r->gpu)
		return 1;
	const int asked = store_query(r->bridges.store,
				      "SELECT DISTINCT gpu FROM device ORDER BY id", keep_gpu, r);
	if (asked && !*r->gpu && !complaints())
		complain("%s: has no measurements", r->bridges.db);
	return asked && *r->gpu;
}

static int find_trees(struct request *r)
{
	int ok = 1;
	for (int i = 0; i < r->num_from && ok; i++)
		ok = trees_add(&r->trees, r->from[i]);
	if (ok && !r->num_from)
		ok = trees_add_history(&r->trees);
	return ok && bridges_find(&r->bridges, &r->trees);
}

static int open_all(struct request *r)
{
	struct bridges *b = &r->bridges;
	if (access(b->db, F_OK)) { /* which opening it for writing would create */
		complain("%s: cannot be opened: %s", b->db, strerror(errno));
		return 0;
	}
	b->store = store_open(b->db, r->dry_run);
	if (!b->store || !find_gpu(r))
		return 0;
	b->gpu = r->gpu;
	b->backend = strcmp(r->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	provenance_commit(b->commit);
	if (!source_root()) {
		complain("no sources of kernels: name the kernels folder in ATTUNE_SOURCE");
		return 0;
	}
	return bridges_read(b) && (!b->n || find_trees(r));
}

/* ---- the table -------------------------------------------------------------------------- */

static void print(const struct request *r, const struct finding *f)
{
	static const char *const columns[] = { "kernel",       "old",       "rows",  "builds",
					       "tree",         "flag_sets", "equal", "refused",
					       "rows_bridged", "result" };
	struct table *t = table_new(r->format, columns, COUNT(columns));
	for (int i = 0; i < r->bridges.n; i++) {
		const struct old_source *s = &r->bridges.v[i];
		table_text(t, s->name);
		table_text(t, s->identity);
		table_number(t, (double)s->rows, 0);
		table_number(t, s->builds, 0);
		table_text(t, s->tree);
		table_number(t, s->sets, 0);
		table_number(t, f[i].compared ? f[i].equal : NAN, 0);
		table_number(t, f[i].compared ? f[i].refused : NAN, 0);
		table_number(t, f[i].compared ? (double)f[i].bridged : NAN, 0);
		table_text(t, f[i].result);
		table_end_row(t);
	}
	table_print(t, stdout);
}

/* Why a source cannot be compared; NULL: it can. */
static const char *obstacle(const struct old_source *s)
{
	if (!strcmp(s->name, "text"))
		return "no commit explains it";
	if (!s->kernel)
		return "no such kernel today";
	return s->root ? NULL : "no tree has it";
}

static int compare(struct request *r, struct finding *f)
{
	int code = EXIT_DONE;
	for (int i = 0; i < r->bridges.n && !code; i++) {
		struct old_source *s = &r->bridges.v[i];
		f[i].result = obstacle(s);
		if (f[i].result || r->dry_run) {
			f[i].result = f[i].result ? f[i].result : "to compare";
			continue;
		}
		if (!bridge_by_code(&r->bridges, s, &f[i]))
			code = interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
		else
			fprintf(stderr, "%s %.8s: %d of %d flag sets equal, %lld rows bridged\n",
				s->name, s->identity, f[i].equal, s->sets, f[i].bridged);
	}
	return code;
}

static int run(struct request *r)
{
	if (!open_all(r))
		return interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
	struct finding *f = calloc((size_t)r->bridges.n + 1, sizeof *f);
	if (!f) {
		complain("out of memory");
		return EXIT_CHECK;
	}
	const int code = compare(r, f);
	if (code == EXIT_DONE || code == EXIT_INTERRUPTED)
		print(r, f);
	free(f);
	return code;
}

int cmd_bridge(int argc, char **argv)
{
	const struct argp argp = { .options = options, .parser = parse, .doc = about };
	struct request r = { 0 };
	options_parse(&argp, argc, argv, &r);
	catch_signals();
	const int code = run(&r);
	bridges_free(&r.bridges);
	trees_free(&r.trees);
	store_close(r.bridges.store);
	return code;
}
