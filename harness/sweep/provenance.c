/* provenance.c - writes a run's row (hashes of sources, device, protocol), finds the commit of such
 * hashes, and checks whether a database's times are of this device and protocol. */
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
/* What git prints about the checkout of the kernels' sources; the caller frees it. NULL: nothing. The
 * working directory and the environment of a git hook may name another repository, so they do not
 * count. The path is in the environment, where the shell does not interpret it. */
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
	if (f && getdelim(&text, &size, '\0', f) < 0) {
		free(text);
		text = NULL;
	}
	if (f)
		pclose(f);
	return text;
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

/* Runs of equal hashes, whose commit is looked for. */
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

/* Gives `commit` to those that have its hashes; returns how many still have none. */
static int match(struct unfound_list *l, const char *commit)
{
	char command[120], built[SOURCES_HASH], compiled[SOURCES_HASH];
	int left = 0;
	snprintf(command, sizeof command,
		 "ls-tree -r --full-tree %s kernels harness tuner Makefile", commit);
	char *listing = git(command);
	const int is_known = listing &&
			     listing_hash(listing, built_parts, NUM_BUILT_PARTS, built) &&
			     listing_hash(listing, compiled_parts, NUM_COMPILED_PARTS, compiled);
	free(listing);
	for (int i = 0; i < l->n; i++) {
		struct unfound *u = &l->v[i];
		if (!*u->commit && is_known && !strcmp(u->built, built) &&
		    !strcmp(u->compiled, compiled))
			snprintf(u->commit, sizeof u->commit, "%.12s", commit);
		left += !*u->commit;
	}
	return left;
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
	char *commits = ok && l.n && have_git()
			    ? git("rev-list HEAD -- :/kernels :/harness :/tuner :/Makefile")
			    : NULL;
	char *save = NULL, *commit = commits ? strtok_r(commits, "\n", &save) : NULL;
	while (commit && match(&l, commit))
		commit = strtok_r(NULL, "\n", &save);
	for (int i = 0; commits && ok && i < l.n; i++)
		ok = store_set_commit(store, l.v[i].built, l.v[i].compiled, l.v[i].commit);
	if (ok && l.n && !commits)
		remark("%s: no checkout of git: the commits of %d runs stay unknown",
		       source_root() ? source_root() : "the kernels' sources", l.n);
	free(commits);
	free(l.v);
	return ok;
}

/* ---- a run -------------------------------------------------------------------------------- */
/* Of the kernels that are compiled from now on; "": they cannot be read. */
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
