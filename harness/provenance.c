/* provenance.c - who measured, with what, on which device: a run's row, and whether a
 * database is of this device. */
#include "sweep.h"
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

long long provenance_run(struct store *store, const struct hello *hello,
			 const struct protocol *protocol, const char *command)
{
	struct run_info run = { .device = hello->info,
				.dram_gbps = hello->dram_gbps,
				.fma_tflops = hello->fma_tflops };
	read_line("git describe --always --dirty --abbrev=12 2>/dev/null", run.commit,
		  sizeof run.commit);
	snprintf(run.toolkit, sizeof run.toolkit, "%s",
		 jit_version(hello->info.backend, hello->info.arch));
	snprintf(run.protocol, sizeof run.protocol, "%s", protocol->name);
	snprintf(run.command, sizeof run.command, "%s", command);
	return store_begin_run(store, &run);
}

struct newest {
	const struct device_info *mine;
	const struct protocol *protocol;
	int same;
};

static int compare(void *arg, int columns, const char *const *names, const char *const *cells)
{
	struct newest *n = arg;
	char units[16];
	(void)columns, (void)names;
	snprintf(units, sizeof units, "%d", n->mine->units);
	n->same = !strcmp(cells[0], n->mine->name) && !strcmp(cells[1], n->mine->arch) &&
		  !strcmp(cells[2], units) && !strcmp(cells[3], n->protocol->name);
	return 0;
}

int provenance_same(struct store *store, const struct device_info *mine,
		    const struct protocol *protocol)
{
	struct newest n = { .mine = mine, .protocol = protocol };
	char sql[400];
	snprintf(sql, sizeof sql,
		 "SELECT d.name, d.arch, d.units, r.protocol FROM measurement AS m "
		 "JOIN run AS r ON r.id = m.run JOIN device AS d ON d.id = r.device "
		 "WHERE d.gpu = '%s' ORDER BY r.id DESC LIMIT 1",
		 mine->gpu);
	return store_query(store, sql, compare, &n) && n.same;
}

static int keep_name(void *arg, int columns, const char *const *names, const char *const *cells)
{
	(void)columns, (void)names;
	snprintf(arg, 32, "%s", cells[0]);
	return 0;
}

int provenance_fits(struct store *store, const char *db, const struct device_info *mine,
		    const struct protocol *protocol)
{
	char sql[400], other[32] = "";
	snprintf(sql, sizeof sql,
		 "SELECT r.protocol FROM run AS r JOIN device AS d ON d.id = r.device "
		 "WHERE d.gpu = '%s' AND r.protocol <> '%s' AND EXISTS "
		 "(SELECT 1 FROM measurement AS m WHERE m.run = r.id) LIMIT 1",
		 mine->gpu, protocol->name);
	if (!store_query(store, sql, keep_name, other))
		return 0;
	if (*other)
		complain("%s holds times by protocol '%s', which those by '%s' cannot be compared "
			 "with; --db names another database",
			 db, other, protocol->name);
	return !*other;
}
