/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_rows.h - databases with rows of an older source, trees with its text, and `attune
 * merge --bridge` with its output. */
#ifndef TESTS_STORE_BRIDGE_ROWS_H
#define TESTS_STORE_BRIDGE_ROWS_H

#include "harness/bridge/bridge.h"
#include "harness/compile/compilers.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/t_bridge.XXXXXX";
static char cpu_arch[16], cpu_name[80];

static const char *in_folder(const char *name)
{
	static char path[16][128]; /* valid for the next fifteen calls */
	static int turn;
	char *p = path[turn++ % 16];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char line[PATH_MAX + 600];
	int n = snprintf(line, sizeof line, "cd %s && ", folder);
	va_list ap;
	va_start(ap, format);
	vsnprintf(line + n, sizeof line - (size_t)n, format, ap);
	va_end(ap);
	if (system(line))
		fail_msg("%s", line);
}

/* Folders with today's kernels/ except for an edit of the CPU's qblock.c. */
static const struct {
	const char *name, *edit;
} trees[] = {
	{ "today", "" },
	{ "renamed",
	  "s/list_tile/note_tile/g; $ a static inline int never_used(int x) { return x; }" },
	{ "changed", "s#1 / c->l.r.#2 / (2 * c->l[r])#" },
	{ "changed_64",
	  "s#1 / c->l.r.#(HEAD_SIZE == 64 ? 2 : 1) / ((HEAD_SIZE == 64 ? 2 : 1) * c->l[r])#" },
};

/* ---- the command ----------------------------------------------------------------------------- */

static char out[8000], err[4000];

static void read_back(const char *name, char *text, size_t size)
{
	FILE *f = fopen(in_folder(name), "r");
	assert_non_null(f);
	text[fread(text, 1, size - 1, f)] = '\0';
	fclose(f);
}

/* Its exit code; `out` and `err` hold its output. */
static int bridge(const char *arguments)
{
	struct words w = { 0 };
	int status;
	word(&w, "attune merge --bridge");
	split(&w, arguments);
	fflush(NULL);
	const pid_t pid = fork();
	if (!pid) {
		const int flags = O_RDWR | O_CREAT | O_TRUNC;
		dup2(open(in_folder("out"), flags, 0600), 1);
		dup2(open(in_folder("err"), flags, 0600), 2);
		const int code = cmd_bridge(w.n, w.v);
		fflush(NULL);
		_exit(code);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	words_free(&w);
	read_back("out", out, sizeof out);
	read_back("err", err, sizeof err);
	return WEXITSTATUS(status);
}

/* A cell of the table that it printed as TSV, of the first row. */
static const char *cell(const char *column)
{
	static char copy[sizeof out], *head, *row;
	char *name, *value;
	memcpy(copy, out, sizeof copy);
	row = copy;
	head = strsep(&row, "\n");
	while (head && row && (name = strsep(&head, "\t")) && (value = strsep(&row, "\t\n")))
		if (!strcmp(name, column))
			return value;
	return "";
}

/* ---- databases ------------------------------------------------------------------------------------ */

/* The kernel of all rows, and where its source lies in the trees. */
static struct measured_kernel {
	enum backend backend;
	const char *name, *source;
	enum attune_dtype dtype;
} measured = { BACKEND_CPU, "qblock", "cpu/qblock.c", ATTUNE_F32 };

static struct scenario scenario_of(const char *batch, int head_size)
{
	char error[160];
	struct scenario s = { .set = "steps",
			      .split = "train",
			      .weight = 1,
			      .seed = 7,
			      .shape = { .num_query_heads = 4,
					 .num_kv_heads = 2,
					 .head_size = head_size,
					 .page_size = 16,
					 .dtype = measured.dtype,
					 .kv_dtype = measured.dtype,
					 .causal = 1,
					 .has_new_kv = 1,
					 .scale = 0.1f } };
	snprintf(s.model, sizeof s.model, "test-%d@1", head_size);
	s.batch_text = strdup(batch);
	s.batch = batch_parse(batch, error, sizeof error);
	assert_non_null(s.batch);
	return s;
}

static struct choice measured_choice(void)
{
	struct choice c = { .kernel = kernel_find(measured.backend, measured.name) };
	config_default(&c.config, c.kernel->space);
	return c;
}

static void add(struct store *s, long long run, const char *batch, int head_size)
{
	struct scenario sc = scenario_of(batch, head_size);
	const struct choice c = measured_choice();
	const struct measurement m = { .outcome = OUTCOME_OK,
				       .samples = 3,
				       .calls = 1,
				       .us = { 10, 11, 12 },
				       .median_us = 11,
				       .min_us = 10,
				       .ci_us = NAN,
				       .ratio = 1 };
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c.kernel, &c.config, &sc.shape);
	assert_true(store_measurement(s, run, &sc, PHASE_PREFILL, &c, flags, &m, -1, -1));
	batch_free(sc.batch);
	free(sc.batch_text);
}

static void identity_in(const char *tree, char hex[33])
{
	char path[200], root[160];
	snprintf(root, sizeof root, "%s/kernels", in_folder(tree));
	snprintf(path, sizeof path, "%s/%s", root, measured.source);
	assert_true(source_identity_of(path, root, hex));
}

/* Rows of two head sizes that were measured with the tree's source; their store. */
static struct store *measured_with(const char *tree, const char *db, const char *gpu,
				   const char *arch)
{
	struct run_info info = { .device = { .name = "a test's",
					     .backend =
						 strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU,
					     .units = 4,
					     .lanes = 8,
					     .memory_bytes = 1 << 30 },
				 .toolkit = "cc 12",
				 .protocol = "rounds-rotating",
				 .command = "attune sweep" };
	char old[33], today[33], sql[200];
	snprintf(info.device.gpu, sizeof info.device.gpu, "%s", gpu);
	snprintf(info.device.arch, sizeof info.device.arch, "%s", arch);
	if (!strcmp(gpu, "cpu"))
		snprintf(info.device.name, sizeof info.device.name, "%s", cpu_name);
	unlink(in_folder(db));
	struct store *s = store_open(in_folder(db), 0);
	assert_non_null(s);
	const long long run = store_begin_run(s, &info);
	assert_true(run > 0);
	add(s, run, "q40", 64);
	add(s, run, "q40", 128);
	add(s, run, "q100", 128);
	identity_in(tree, old);
	assert_true(source_identity(measured_choice().kernel, today));
	snprintf(sql, sizeof sql, "UPDATE code SET sources = replace(sources, '%s', '%s')", today,
		 old);
	assert_true(store_query(s, sql, NULL, NULL));
	store_close(s);
	s = store_open(in_folder(db), 0);
	assert_non_null(s);
	return s;
}

static int keep_text(void *arg, int n, const char *const *names, const char *const *cells)
{
	char *all = arg;
	(void)names;
	for (int i = 0; i < n; i++)
		strcat(strcat(all, cells[i] ? cells[i] : "-"), i < n - 1 ? " " : ";");
	return 1;
}

static const char *ask(const char *db, const char *sql)
{
	static char all[2000];
	struct store *s = store_open(in_folder(db), 1);
	assert_non_null(s);
	all[0] = '\0';
	assert_true(store_query(s, sql, keep_text, all));
	store_close(s);
	return all;
}

/* The freshness of the rows, a digit each of enum freshness: head size 128, then 64. */
static int keep_freshness(void *arg, const struct store_cell *c)
{
	char *all = arg;
	snprintf(all + strlen(all), 8, "%d", c->today);
	return 1;
}

static const char *freshness(struct store *s, const char *gpu)
{
	static char all[64];
	all[0] = '\0';
	assert_true(store_each(s, gpu, keep_freshness, all));
	return all;
}

static const char *freshness_in(const char *db)
{
	struct store *s = store_open(in_folder(db), 1);
	assert_non_null(s);
	const char *all = freshness(s, "cpu");
	store_close(s);
	return all;
}

/* Whether a sweep would leave the row alone. */
static int is_stored(const char *db, int head_size)
{
	struct scenario sc = scenario_of("q40", head_size);
	struct choice c = measured_choice();
	char text[MAX_PART_TEXT];
	struct store *s = store_open(in_folder(db), 1);
	choice_text(text, sizeof text, &c);
	const int has = store_has(s, "cpu", &sc, PHASE_PREFILL, text);
	store_close(s);
	batch_free(sc.batch);
	free(sc.batch_text);
	return has;
}

/* ---- its arguments, and the group ------------------------------------------------------------ */

static char *arguments(const char *db, const char *more)
{
	static char text[600];
	snprintf(text, sizeof text, "--db %s --format tsv %s", in_folder(db), more);
	return text;
}

static char *from(const char *tree)
{
	static char text[200];
	snprintf(text, sizeof text, "--from %s", in_folder(tree));
	return text;
}

static int make_folder(void **state)
{
	char here[PATH_MAX];
	const char *given = getenv("ATTUNE_SOURCE");
	struct device cpu;
	(void)state;
	if (!realpath(given && *given ? given : "kernels", here) || !mkdtemp(folder) ||
	    device_open(&cpu, "cpu"))
		return -1;
	snprintf(cpu_arch, sizeof cpu_arch, "%s", cpu.info.arch);
	snprintf(cpu_name, sizeof cpu_name, "%s", cpu.info.name);
	device_close(&cpu);
	setenv("ATTUNE_LOCKS", folder, 1);
	setenv("ATTUNE_PROC", folder, 1); /* a machine without processes */
	setenv("ATTUNE_CACHE", in_folder("cache"), 1);
	for (size_t i = 0; i < COUNT(trees); i++)
		shell("mkdir %s && cp -r '%s' %s/kernels && sed -i '%s' %s/kernels/cpu/qblock.c",
		      trees[i].name, here, trees[i].name, trees[i].edit, trees[i].name);
	setenv("ATTUNE_SOURCE", in_folder("today/kernels"), 1);
	return chdir(folder);
}

static int remove_folder(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

#endif
