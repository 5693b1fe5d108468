/* t_bridge.c - rows of an older source count as today's where `attune bridge` says so: by equal
 * machine code, by a race, for some flags, from another GPU. All on the CPU. */
#include "../harness/bridge.h"
#include "../harness/compile.h"
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
static char cpu_arch[16];

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

/* Folders with kernels/ as today's but for an edit of the CPU's qblock.c. */
static const struct {
	const char *name, *edit;
} trees[] = {
	{ "today", "" },
	{ "renamed", "s/list_tile/note_tile/g; $ a static inline int never_used(int x) { return x; }" },
	{ "changed", "s#1 / c->l.r.#2 / (2 * c->l[r])#" },
	{ "changed_64", "s#1 / c->l.r.#(HEAD_SIZE == 64 ? 2 : 1) / ((HEAD_SIZE == 64 ? 2 : 1) * c->l[r])#" },
	{ "wrong", "s#1 / c->l.r.#3 / c->l[r]#" },
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

/* Its exit code; `out` and `err` are what it wrote. */
static int bridge(const char *arguments)
{
	struct words w = { 0 };
	int status;
	word(&w, "attune bridge");
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
					 .dtype = ATTUNE_F32,
					 .kv_dtype = ATTUNE_F32,
					 .causal = 1,
					 .has_new_kv = 1,
					 .scale = 0.1f } };
	snprintf(s.model, sizeof s.model, "test-%d@1", head_size);
	s.batch_text = strdup(batch);
	s.batch = batch_parse(batch, error, sizeof error);
	assert_non_null(s.batch);
	return s;
}

static struct choice qblock(void)
{
	struct choice c = { .kernel = kernel_find(BACKEND_CPU, "qblock") };
	config_default(&c.config, c.kernel->space);
	return c;
}

static void add(struct store *s, long long run, const char *batch, int head_size)
{
	struct scenario sc = scenario_of(batch, head_size);
	const struct choice c = qblock();
	const struct measurement m = { .outcome = OUTCOME_OK,
				       .samples = 3,
				       .calls = 1,
				       .us = { 10, 11, 12 },
				       .median_us = 11,
				       .min_us = 10,
				       .q25_us = 10,
				       .q75_us = 12,
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
	snprintf(path, sizeof path, "%s/cpu/qblock.c", root);
	assert_true(source_identity_of(path, root, hex));
}

/* Rows of two head sizes that were measured with the tree's source; their store. */
static struct store *measured_with(const char *tree, const char *db, const char *gpu,
				   const char *arch)
{
	struct run_info info = { .device = { .name = "a test's",
					     .backend = strcmp(gpu, "cpu") ? BACKEND_GPU
									   : BACKEND_CPU,
					     .units = 4,
					     .lanes = 8,
					     .memory_bytes = 1 << 30 },
				 .toolkit = "cc 12",
				 .protocol = "rounds-rotating",
				 .command = "attune sweep" };
	char old[33], today[33], sql[200];
	snprintf(info.device.gpu, sizeof info.device.gpu, "%s", gpu);
	snprintf(info.device.arch, sizeof info.device.arch, "%s", arch);
	unlink(in_folder(db));
	struct store *s = store_open(in_folder(db), 0);
	assert_non_null(s);
	const long long run = store_begin_run(s, &info);
	assert_true(run > 0);
	add(s, run, "q40", 64);
	add(s, run, "q40", 128);
	add(s, run, "q100", 128);
	identity_in(tree, old);
	assert_true(source_identity(kernel_find(BACKEND_CPU, "qblock"), today));
	snprintf(sql, sizeof sql, "UPDATE code SET sources = replace(sources, '%s', '%s')", today, old);
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

/* How fresh the rows are, a digit each of enum freshness: those of 128, then of 64. */
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
	assert_true(store_each(s, gpu, NULL, keep_freshness, all));
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
	struct choice c = qblock();
	char text[MAX_PART_TEXT];
	struct store *s = store_open(in_folder(db), 1);
	choice_text(text, sizeof text, &c);
	const int has = store_has(s, "cpu", &sc, PHASE_PREFILL, text);
	store_close(s);
	batch_free(sc.batch);
	free(sc.batch_text);
	return has;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

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

/* First: no compiler was looked for yet. */
static void refused(void **state)
{
	(void)state;
	static const struct {
		const char *arguments, *said;
		int code;
	} rows[] = {
		{ "--from no-such-revision", "neither a folder nor a revision", 2 },
		{ "--from /", "has no kernels", 2 },
		{ "--kernel qblok --from renamed", "no kernel of the CPU", 2 },
		{ "--from renamed", "no C compiler", 2 },
	};
	store_close(measured_with("renamed", "refused.sqlite", "cpu", "scalar"));
	setenv("CC", "/nonexistent/cc", 1);
	assert_int_equal(chdir(folder), 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(bridge(arguments("refused.sqlite", rows[i].arguments)), rows[i].code);
		assert_non_null(strstr(err, rows[i].said));
		assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); /* one line */
		assert_string_equal(out, "");
	}
	unsetenv("CC");
	assert_string_equal(ask("refused.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

static void equal_code(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "equal.sqlite", "cpu", "scalar"));
	assert_string_equal(freshness_in("equal.sqlite"), "000");
	assert_false(is_stored("equal.sqlite", 64));
	assert_int_equal(bridge(arguments("equal.sqlite", from("renamed"))), 0);
	assert_string_equal(cell("verdict"), "bridged");
	assert_string_equal(cell("flag_sets"), "2");
	assert_string_equal(cell("equal"), "2");
	assert_string_equal(cell("rows_bridged"), "3");
	assert_string_equal(freshness_in("equal.sqlite"), "222");
	assert_true(is_stored("equal.sqlite", 64) && is_stored("equal.sqlite", 128));
	assert_string_equal(ask("equal.sqlite", "SELECT kernel, arch, flags, how, gpu FROM bridge"),
			    "qblock scalar  code ;");
	assert_string_equal(ask("equal.sqlite", "SELECT DISTINCT bridged FROM newest"), "code;");
	assert_int_equal(bridge(arguments("equal.sqlite", from("renamed"))), 0);
	assert_string_equal(cell("verdict"), ""); /* nothing is stale any more */
}

static void other_code(void **state)
{
	(void)state;
	store_close(measured_with("changed", "other.sqlite", "cpu", "scalar"));
	assert_int_equal(bridge(arguments("other.sqlite", from("changed"))), 0);
	assert_string_equal(cell("verdict"), "differs");
	assert_string_equal(cell("equal"), "0");
	assert_string_equal(freshness_in("other.sqlite"), "000");
	assert_string_equal(ask("other.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

static void some_flags(void **state)
{
	(void)state;
	store_close(measured_with("changed_64", "flags.sqlite", "cpu", "scalar"));
	assert_int_equal(bridge(arguments("flags.sqlite", from("changed_64"))), 0);
	assert_string_equal(cell("verdict"), "bridged in part");
	assert_string_equal(cell("equal"), "1");
	assert_string_equal(cell("rows_bridged"), "2");
	assert_string_equal(freshness_in("flags.sqlite"), "220");
	assert_string_equal(ask("flags.sqlite", "SELECT flags LIKE '%HEAD_SIZE=128 %' FROM bridge"),
			    "1;");
}

static void no_tree(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "none.sqlite", "cpu", "scalar"));
	assert_int_equal(bridge(arguments("none.sqlite", from("changed"))), 0);
	assert_string_equal(cell("verdict"), "no tree has it");
	assert_string_equal(freshness_in("none.sqlite"), "000");
	assert_int_equal(bridge(arguments("none.sqlite", "--dry-run --from renamed")), 0);
	assert_string_equal(cell("verdict"), "to compare");
	assert_string_equal(freshness_in("none.sqlite"), "000");
}

/* ATTUNE_SOURCE is a checkout: the text before an edit is that of a revision. */
static void revisions(void **state)
{
	(void)state;
	static const char commit[] = "git -c user.name=t -c user.email=t@localhost commit -qm";
	store_close(measured_with("renamed", "git.sqlite", "cpu", "scalar"));
	shell("cp today/kernels/cpu/qblock.c kept.c && cp renamed/kernels/cpu/qblock.c today/kernels/cpu && "
	      "cd today && git init -q . && git add . && %s renamed && "
	      "cp ../kept.c kernels/cpu/qblock.c && git add . && %s today",
	      commit, commit);
	assert_int_equal(bridge(arguments("git.sqlite", "--from HEAD")), 0);
	assert_string_equal(cell("verdict"), "no tree has it");
	assert_int_equal(bridge(arguments("git.sqlite", "--dry-run --from HEAD~1")), 0);
	assert_string_equal(cell("tree"), "HEAD~1");
	assert_int_equal(bridge(arguments("git.sqlite", "")), 0);
	assert_string_equal(cell("verdict"), "bridged");
	assert_string_equal(freshness_in("git.sqlite"), "222");
}

/* The machine's own CPU is the only one that can be raced on. */
static void raced(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "raced.sqlite", "cpu", cpu_arch));
	char *line = arguments("raced.sqlite", "--race --batches 3 --from renamed");
	assert_int_equal(bridge(line), 0);
	assert_string_equal(cell("how"), "race");
	assert_string_equal(cell("batches"), "3");
	assert_true(atof(cell("mean")) > 0.1 && atof(cell("mean")) < 10);
	assert_true(atof(cell("floor_mean")) > 0.1 && atof(cell("floor_mean")) < 10);
	assert_string_equal(cell("verdict"), "too few batches");
	assert_string_equal(ask("raced.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

/* Whoever is wrong is not raced. */
static void wrong(void **state)
{
	(void)state;
	store_close(measured_with("wrong", "wrong.sqlite", "cpu", cpu_arch));
	assert_int_equal(bridge(arguments("wrong.sqlite", "--race --batches 3 --from wrong")), 0);
	assert_string_equal(cell("verdict"), "does not run");
	assert_non_null(strstr(err, "old: wrong"));
}

static void no_device(void **state)
{
	(void)state;
	store_close(measured_with("renamed", "device.sqlite", "mi300", "gfx942"));
	setenv("ATTUNE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", 1);
	assert_int_equal(bridge(arguments("device.sqlite", "--race --from renamed")), 3);
	unsetenv("ATTUNE_HIP_LIBRARY");
	assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
	assert_string_equal(out, "");
}

/* ---- what races say ------------------------------------------------------------------------------------- */

static void judged(void **state)
{
	(void)state;
	static const struct {
		int n, off; /* so many of the batches are off by `by` */
		double all, by, noise;
		const char *verdict;
	} rows[] = {
		{ 30, 0, 1.000, 0, 0.001, "bridged" },
		{ 30, 0, 1.0049, 0, 0.001, "bridged" },
		{ 30, 0, 0.9951, 0, 0.001, "bridged" },
		{ 30, 0, 1.0051, 0, 0.001, "differs" },
		{ 30, 0, 0.9949, 0, 0.001, "differs" },
		{ 30, 1, 1.000, 1.02, 0.001, "bridged" }, /* one of 30 is beyond the 95th percentile */
		{ 30, 2, 1.000, 1.02, 0.001, "differs" },
		{ 60, 3, 1.000, 0.98, 0.001, "bridged" },
		{ 60, 4, 1.000, 0.98, 0.001, "differs" },
		{ 29, 0, 1.000, 0, 0.001, "too few batches" },
		{ 30, 0, 1.000, 0, 0.02, "too noisy here" },
		{ 0, 0, 1.000, 0, 0, "too few batches" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		double ratio[MOST_RACES], again[MOST_RACES];
		struct finding f = { 0 };
		for (int k = 0; k < rows[i].n; k++) {
			ratio[k] = k < rows[i].off ? rows[i].by : rows[i].all;
			again[k] = 1 + (k % 2 ? rows[i].noise : -rows[i].noise);
		}
		bridge_judge(&f, ratio, again, rows[i].n);
		if (strcmp(f.verdict, rows[i].verdict))
			fail_msg("row %zu: %s, not %s", i, f.verdict, rows[i].verdict);
	}
}

/* A row of table bridge, and what rows of head size 128, 128 and 64 are then. */
static void counted(void **state)
{
	(void)state;
	static const struct {
		const char *how, *flags, *gpu, *arch, *fresh, *bridged;
	} rows[] = {
		{ "code", "", "", "scalar", "222", "code;" },
		{ "code", "64", "", "scalar", "002", "-;code;" },
		{ "code", "", "", "avx2", "000", "-;" },
		{ "race", "", "cpu", "scalar", "222", "race;" },
		{ "race", "", "other", "scalar", "333", "race on other;" },
		{ "race", "128", "other", "scalar", "330", "-;race on other;" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		char old[33], today[33], flags[MAX_FLAGS] = "";
		struct store *s = measured_with("renamed", "counted.sqlite", "cpu", "scalar");
		const struct choice c = qblock();
		struct scenario sc = scenario_of("q40", atoi(rows[i].flags) ? atoi(rows[i].flags) : 64);
		if (*rows[i].flags)
			binary_flags(flags, sizeof flags, c.kernel, &c.config, &sc.shape);
		identity_in("renamed", old);
		assert_true(source_identity(c.kernel, today));
		const struct store_bridge_race race = { "m@1", "q1", "qblock", PHASE_PREFILL, 12, 1.001 };
		const int is_race = !strcmp(rows[i].how, "race");
		const struct store_bridge b = {
			.kernel = "qblock", .old = old, .today = today, .arch = rows[i].arch,
			.flags = flags, .how = rows[i].how, .gpu = rows[i].gpu, .toolkit = "cc 12",
			.commit = "abc", .batches = is_race, .mean = is_race ? 1.001 : NAN,
			.p95 = is_race ? 0.001 : NAN, .race = is_race ? &race : NULL };
		assert_true(store_add_bridge(s, &b) && store_add_bridge(s, &b)); /* again: in its place */
		assert_string_equal(freshness(s, "cpu"), rows[i].fresh);
		store_close(s);
		assert_string_equal(ask("counted.sqlite",
					"SELECT DISTINCT bridged FROM newest ORDER BY bridged"),
				    rows[i].bridged);
		assert_string_equal(ask("counted.sqlite", "SELECT count(*) FROM bridge"), "1;");
		assert_string_equal(ask("counted.sqlite", "SELECT count(*) FROM bridge_race"),
				    is_race ? "1;" : "0;");
		batch_free(sc.batch);
		free(sc.batch_text);
	}
}

/* ---- the group -------------------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
	char here[PATH_MAX];
	const char *given = getenv("ATTUNE_SOURCE");
	struct device cpu;
	(void)state;
	if (!realpath(given && *given ? given : "kernels", here) || !mkdtemp(folder) || device_open(&cpu, "cpu"))
		return -1;
	snprintf(cpu_arch, sizeof cpu_arch, "%s", cpu.info.arch);
	device_close(&cpu);
	setenv("ATTUNE_CACHE", in_folder("cache"), 1);
	for (size_t i = 0; i < COUNT(trees); i++)
		shell("mkdir %s && cp -r '%s' %s/kernels && sed -i '%s' %s/kernels/cpu/qblock.c",
		      trees[i].name, here, trees[i].name, trees[i].edit, trees[i].name);
	setenv("ATTUNE_SOURCE", in_folder("today/kernels"), 1);
	return 0;
}

static int remove_folder(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),   cmocka_unit_test(equal_code), cmocka_unit_test(other_code),
		cmocka_unit_test(some_flags), cmocka_unit_test(no_tree),   cmocka_unit_test(revisions),
		cmocka_unit_test(raced),     cmocka_unit_test(wrong),      cmocka_unit_test(no_device),
		cmocka_unit_test(judged),    cmocka_unit_test(counted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bridge", tests, make_folder, remove_folder);
}
