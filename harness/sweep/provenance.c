/* provenance.c - writes a run's row (commit, device, protocol), and checks whether a database's
 * times are of this device and protocol. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/machine/this_cpu.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_line(const char *command, char *line, size_t size)
{
	FILE *f = popen(command, "r");
	line[0] = '\0';
	if (f && fgets(line, (int)size, f))
		line[strcspn(line, "\n")] = '\0';
	if (f)
		pclose(f);
}

static void card_id(char id[17], const struct device_info *d)
{
	static const unsigned char none[sizeof d->uuid];
	id[0] = '\0';
	if (memcmp(d->uuid, none, sizeof none))
		anonymous_id(id, d->uuid, sizeof d->uuid);
}

/* ---- the state of the sources ------------------------------------------------------------ */
/* The first line that git prints about the checkout of the kernels' sources; "": git fails. The
 * working directory and the environment of a git hook may name another repository, so they do not
 * count. The path is in the environment, where the shell does not interpret it. */
static void git(const char *arguments, char *line, size_t size)
{
	char command[400];
	line[0] = '\0';
	if (!source_root() || setenv("ATTUNE_CHECKOUT", source_root(), 1))
		return;
	snprintf(command, sizeof command,
		 "env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE git -C \"$ATTUNE_CHECKOUT\" %s "
		 "2>/dev/null",
		 arguments);
	read_line(command, line, size);
}

/* Whether the sources are in a checkout of attune. A repository around an unpacked archive is not
 * one. */
static int have_git(void)
{
	char folder[16], file[16];
	git("rev-parse --show-prefix", folder, sizeof folder);
	git("ls-files kernels.def", file, sizeof file);
	return !strcmp(folder, "kernels/") && !strcmp(file, "kernels.def");
}

/* Ignores results/ and generated/: tuning writes them. */
static const char *state_of_sources(void)
{
	char line[64];
	if (!have_git())
		return "unknown";
	git("status --porcelain --untracked-files=no -- ':/' ':(top,exclude)results' "
	    "':(top,exclude)generated'",
	    line, sizeof line);
	return *line ? "modified" : "committed";
}

void provenance_commit(char commit[48])
{
	commit[0] = '\0';
	if (have_git())
		git("describe --always --dirty --abbrev=12", commit, 48);
}

long long provenance_run(struct store *store, const struct hello *hello,
			 const struct protocol *protocol, const char *command)
{
	struct run_info run = { .device = hello->info,
				.dram_gbps = hello->dram_gbps,
				.fma_tflops = hello->fma_tflops };
	provenance_commit(run.commit);
	snprintf(run.toolkit, sizeof run.toolkit, "%s",
		 jit_version(hello->info.backend, hello->info.arch));
	snprintf(run.protocol, sizeof run.protocol, "%s", protocol->name);
	snprintf(run.command, sizeof run.command, "%s", command);
	snprintf(run.sources, sizeof run.sources, "%s", state_of_sources());
	if (!*run.commit)
		remark("%s: no checkout of git: the times are stored without a commit",
		       source_root() ? source_root() : "the kernels' sources");
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
