/* SPDX-License-Identifier: Apache-2.0 */
/* provenance.c - writes a run's row (hashes of its sources, device, protocol), finds the commit that
 * has these hashes, and checks whether a database's times are of this device and protocol. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/base/sources_hash.h"
#include "harness/machine/machine.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void card_id(char id[17], const struct device_info *d)
{
	static const unsigned char none[sizeof d->uuid];
	id[0] = '\0';
	if (memcmp(d->uuid, none, sizeof none))
		anonymous_id(id, d->uuid, sizeof d->uuid);
}

/* ---- the commit of the sources ----------------------------------------------------------- */
/* What git prints about the checkout of the kernels' sources; the caller frees it. NULL: nothing, or
 * git failed. The working directory and the environment of a git hook may name another repository, so
 * they do not count. The path is in the environment, where the shell does not interpret it. */
static char *git(const char *arguments)
{
	char command[400], *text = NULL;
	size_t size = 0;
	if (!source_root() || setenv("ATTUNE_CHECKOUT", source_root(), 1))
		return NULL;
	snprintf(command, sizeof command,
		 "env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE git -C \"$ATTUNE_CHECKOUT\" %s "
		 "2>/dev/null",
		 arguments);
	FILE *f = popen(command, "r");
	const int got = f && getdelim(&text, &size, '\0', f) > 0;
	const int failed = f && pclose(f);
	if (got && !failed)
		return text;
	free(text);
	return NULL;
}

static int git_says(const char *arguments, const char *line)
{
	char *text = git(arguments);
	const int same = text && !strcmp(text, line);
	free(text);
	return same;
}

/* Whether the sources are in a checkout of attune. A repository around an unpacked archive is not
 * one. */
static int have_git(void)
{
	return git_says("rev-parse --show-prefix", "kernels/\n") &&
	       git_says("ls-files kernels.def", "kernels.def\n");
}

void provenance_commit(char commit[48])
{
	char *text = have_git() ? git("describe --always --dirty --abbrev=12") : NULL;
	snprintf(commit, 48, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	free(text);
}

/* The hashes of runs without a commit; commit "": none is found. */
struct unfound {
	char built[SOURCES_HASH], compiled[SOURCES_HASH], commit[SOURCES_HASH];
};
struct unfound_list {
	struct unfound *v;
	int n, room, failed;
};

static int note_unfound(void *arg, int columns, const char *const *names, const char *const *cells)
{
	struct unfound_list *l = arg;
	(void)columns, (void)names;
	if (!array_grow(&l->v, l->n, &l->room, sizeof *l->v)) {
		l->failed = 1;
		return 0;
	}
	struct unfound *u = &l->v[l->n++];
	*u = (struct unfound){ .commit = "" };
	snprintf(u->built, sizeof u->built, "%s", cells[0] ? cells[0] : "");
	snprintf(u->compiled, sizeof u->compiled, "%s", cells[1] ? cells[1] : "");
	return 1;
}

/* Gives a commit to the runs that have the hashes of its files. */
static void match(struct unfound_list *l, const char *commit, const char *files)
{
	char built[SOURCES_HASH], compiled[SOURCES_HASH];
	if (!listing_hash(files, built_parts, NUM_BUILT_PARTS, built) ||
	    !listing_hash(files, compiled_parts, NUM_COMPILED_PARTS, compiled))
		return;
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].built, built) && !strcmp(l->v[i].compiled, compiled))
			snprintf(l->v[i].commit, sizeof l->v->commit, "%.12s", commit);
}

/* All commits that change sources, the oldest first, in one output of git: a process for each would
 * take seconds. fast-export drops "--", and takes ":/NAME" for a commit. NULL: git failed. */
static char *history(void)
{
	return have_git() ? git("fast-export --no-data --full-tree --show-original-ids "
				"--reencode=no HEAD ':(top)kernels' ':(top)harness' ':(top)tuner' "
				"':(top)Makefile'")
			  : NULL;
}

/* Of each commit git writes its id, "data " with the length of its message, the message, a line for
 * each file, and an empty line. */
static void match_all(struct unfound_list *l, char *text)
{
	static const char id[] = "\noriginal-oid ", length[] = "\ndata ";
	const char *const end = text + strlen(text);
	char *at = text;
	while ((at = strstr(at, id))) {
		const char *commit = at + strlen(id);
		char *files = strstr(at, length);
		const unsigned long long message =
		    files ? strtoull(files + strlen(length), &files, 10) : 0;
		if (!files || message >= (unsigned long long)(end - files))
			return;
		files += 1 + message;
		at = strstr(files, "\n\n");
		if (at)
			*at++ = '\0';
		match(l, commit, files);
		if (!at)
			return;
	}
}

int provenance_find(struct store *store)
{
	struct unfound_list l = { .v = NULL };
	int ok =
	    store_query(store,
			"SELECT DISTINCT built, compiled FROM run WHERE built <> '' AND sources IN "
			"('unknown', 'modified')",
			note_unfound, &l) &&
	    !l.failed;
	char *commits = ok && l.n ? history() : NULL;
	if (commits)
		match_all(&l, commits);
	for (int i = 0; commits && ok && i < l.n; i++)
		ok = store_set_commit(store, l.v[i].built, l.v[i].compiled, l.v[i].commit);
	if (ok && l.n && !commits)
		remark("%s: git lists no commits of it, so runs stay without a commit",
		       source_root() ? source_root() : "the kernels' sources");
	free(commits);
	free(l.v);
	return ok;
}

/* ---- a run -------------------------------------------------------------------------------- */
/* The hash of the kernels that this process will compile; "": they cannot be read. */
static void hash_compiled(char hash[SOURCES_HASH])
{
	char top[PATH_MAX];
	hash[0] = '\0';
	if (source_root() && snprintf(top, sizeof top, "%s/..", source_root()) < (int)sizeof top)
		sources_hash(top, compiled_parts, NUM_COMPILED_PARTS, hash);
}

long long provenance_run(struct store *store, const struct hello *hello,
			 const struct protocol *protocol, const char *command)
{
	struct run_info run = { .device = hello->info,
				.dram_gbps = hello->dram_gbps,
				.fma_tflops = hello->fma_tflops };
	snprintf(run.toolkit, sizeof run.toolkit, "%s",
		 jit_version(hello->info.backend, hello->info.arch));
	snprintf(run.protocol, sizeof run.protocol, "%s", protocol->name);
	snprintf(run.command, sizeof run.command, "%s", command);
	snprintf(run.built, sizeof run.built, "%s", built_from());
	hash_compiled(run.compiled);
	card_id(run.card, &hello->info);
	if (hello->info.backend == BACKEND_CPU)
		machine_id(run.machine);
	return store_begin_run(store, &run);
}

struct newest {
	const struct device_info *mine;
	const struct protocol *protocol;
	char machine[17];
	int same;
};

/* A cell is NULL where the database is damaged. */
static int is(const char *cell, const char *text)
{
	return cell && !strcmp(cell, text);
}

static int compare(void *arg, int columns, const char *const *names, const char *const *cells)
{
	struct newest *n = arg;
	char units[16];
	(void)columns, (void)names;
	snprintf(units, sizeof units, "%d", n->mine->units);
	n->same = is(cells[0], n->mine->name) && is(cells[1], n->mine->arch) &&
		  is(cells[2], units) && is(cells[3], n->protocol->name) &&
		  is(cells[4], n->machine);
	return 0;
}

int provenance_same(struct store *store, const struct device_info *mine,
		    const struct protocol *protocol)
{
	struct newest n = { .mine = mine, .protocol = protocol };
	char sql[480];
	if (mine->backend == BACKEND_CPU)
		machine_id(n.machine);
	snprintf(
	    sql, sizeof sql,
	    "SELECT d.name, d.arch, d.units, r.protocol, d.machine FROM run AS r "
	    "JOIN device AS d ON d.id = r.device WHERE d.gpu = '%s' AND EXISTS (SELECT 1 FROM race "
	    "AS c JOIN measurement AS m ON m.race = c.id WHERE c.run = r.id) ORDER BY r.id DESC "
	    "LIMIT 1",
	    mine->gpu);
	return store_query(store, sql, compare, &n) && n.same;
}

static int keep_name(void *arg, int columns, const char *const *names, const char *const *cells)
{
	(void)columns, (void)names;
	snprintf(arg, 32, "%s", cells[0] ? cells[0] : "?");
	return 0;
}

int provenance_fits(struct store *store, const char *db, const struct device_info *mine,
		    const struct protocol *protocol)
{
	char sql[480], other[32] = "";
	snprintf(
	    sql, sizeof sql,
	    "SELECT r.protocol FROM run AS r JOIN device AS d ON d.id = r.device "
	    "WHERE d.gpu = '%s' AND r.protocol <> '%s' AND EXISTS "
	    "(SELECT 1 FROM race AS c JOIN measurement AS m ON m.race = c.id WHERE c.run = r.id) "
	    "LIMIT 1",
	    mine->gpu, protocol->name);
	if (!store_query(store, sql, keep_name, other))
		return 0;
	if (*other)
		complain(
		    "%s holds times by protocol '%s', which are not comparable with times by '%s'; "
		    "--db names another database",
		    db, other, protocol->name);
	return !*other;
}
