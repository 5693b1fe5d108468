/* t_damage.c - damaged databases: whatever a bit, a page or a value becomes, readers say so in a
 * line and return; nothing crashes, hangs or is read as something else. */
#include <stdio.h>
#include "store_fixture.h"
#include "harness/base/base.h"
#include "harness/commands/commands.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"

/* tuner.h has a struct kept_cells, too */
int cmd_eval(int, char **);
int cmd_show(int, char **);
int cmd_induce(int, char **);
int cmd_diff(int, char **);
int cmd_plot(int, char **);
int cmd_refine(int, char **);
int cmd_confirm(int, char **);

enum { FLIPS = 500, PAGES = 60, CUTS = 40, PAGE = 512, PATIENCE_S = 20 };

/* What a child found. */
enum found { SAME, REFUSED, OTHER_ROWS, SILENT, TALKATIVE, NUM_FOUND };
static const char *const found_names[NUM_FOUND] = { "read", "refused", "read as other rows",
						    "refused without a word",
						    "refused in many lines" };

/* ---- the database ----------------------------------------------------------------------- */
static void add_plan(struct store *s, long long run, const char *batch, double us)
{
	struct scenario sc = scenario_of(batch);
	const struct measurement m = measured(us);
	char prefill[MAX_PART_TEXT], decode[MAX_PART_TEXT], plan[2 * MAX_PART_TEXT + 32];
	const struct choice a = choice_at("qblock", 0), b = choice_at("segmented", 1);
	choice_text(prefill, sizeof prefill, &a);
	choice_text(decode, sizeof decode, &b);
	parts_text(plan, sizeof plan, prefill, decode, ATTUNE_STREAMS);
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &m), 1);
	scenario_done(&sc);
}

static void add_control(struct store *s, long long run, const char *batch, double us, double ratio)
{
	struct scenario sc = scenario_of(batch);
	assert_int_equal(store_control(s, run, &sc, "decode", "segmented X=1", us, ratio), 1);
	scenario_done(&sc);
}

static void add_failure(struct store *s, long long run, const char *batch)
{
	struct measurement m = { .outcome = OUTCOME_WRONG };
	snprintf(m.detail, sizeof m.detail, "sequence 1, token 3: 0.5, not 0.25");
	add(s, run, batch, "segmented", 3, m);
}

static void make(const char *name, int is_sealed)
{
	static const char *const batches[] = { "q1s1k", "8q1s2k", "2q1s4k", "3q1s512_q64" };
	static const struct ceiling ceiling = { "read", "path=async kib=64", "GB/s", 4000 };
	struct store *s = fresh(name);
	struct compacted gone;
	for (int turn = 0; turn < 2; turn++) { /* the second supersedes the first */
		const long long run = store_begin_run(s, &h200);
		for (size_t i = 0; i < COUNT(batches); i++) {
			for (int point = 0; point < 3; point++)
				add(s, run, batches[i], "segmented", point,
				    measured(10 + 3 * (double)i + point));
			add_failure(s, run, batches[i]);
			add_control(s, run, batches[i], 15 + 100 * (double)i,
				    1.01 + 0.01 * (double)i);
		}
		add_plan(s, run, batches[3], 40);
		assert_int_equal(store_ceilings(s, run, &ceiling, 1), 1);
	}
	assert_true(
	    store_query(s,
			"INSERT INTO bridge (kernel, old, new, arch, flags, how, gpu, batches,"
			" toolkit, commit_id) VALUES ('segmented', 'a', 'b', 'sm_90', '', 'code',"
			" '', 0, 'nvrtc', 'c')",
			NULL, NULL));
	assert_true(!is_sealed || store_compact(s, &gone));
	store_close(s);
	s = store_open(in_folder(name), 0); /* small pages: few bits that mean nothing */
	assert_non_null(s);
	assert_true(store_query(s, "PRAGMA page_size = 512; VACUUM", NULL, NULL));
	store_close(s);
}

/* A path that stays. */
static const char *stays(char path[128], const char *name)
{
	snprintf(path, 128, "%s", in_folder(name));
	return path;
}

/* ---- a reader ----------------------------------------------------------------------------- */
static unsigned long long scrambled(unsigned long long x)
{
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

static unsigned long long of_text(const char *text)
{
	unsigned long long x = 1469598103934665603ull;
	for (; *text; text++)
		x = scrambled(x ^ (unsigned char)*text);
	return x;
}

/* Adds up the rows, all but their ids. */
static int add_cell(void *arg, const struct store_cell *c)
{
	char text[2000];
	const attune_shape *h = &c->shape;
	snprintf(text, sizeof text,
		 "%s %s %s %s %s %s %s %s %s %s %s %d %d %d %d %d %d %d %d %d %llu %a %a %a "
		 "%a %a %a %a %a %a %a %a %a %c %s %s %d",
		 c->gpu, c->model, c->set, c->split, c->batch, c->outcome, c->protocol, c->dtype,
		 c->layout, c->phase, c->kernel, h->num_query_heads, h->num_kv_heads, h->head_size,
		 h->page_size, (int)h->dtype, (int)h->kv_dtype, h->causal, h->window,
		 h->has_sinks + 2 * h->has_alibi, c->seed, (double)h->scale, (double)h->softcap,
		 c->weight, c->median_us, c->min_us, c->iqr_us, c->ci_us, c->ratio, c->gbps,
		 c->tflops, c->joules, 0.0, c->pass, c->stage, c->stopped ? c->stopped : "-",
		 c->samples);
	*(unsigned long long *)arg += of_text(text) ^ scrambled(of_text(c->choice) + c->today);
	return 1;
}

/* A call that fails says why, in one to three lines. */
static int step(int (*call)(const char *, unsigned long long *), const char *path,
		unsigned long long *rows, enum found *found)
{
	quiet();
	const int ok = call(path, rows);
	const int lines = loud();
	if (ok)
		return 1;
	if (*found == SAME || *found == REFUSED)
		*found = lines < 1 ? SILENT : lines > 3 ? TALKATIVE : REFUSED;
	return 0;
}

static int check(const char *path, unsigned long long *rows)
{
	struct store *s = store_open(path, 1);
	const int ok = s && store_check(s);
	(void)rows;
	store_close(s);
	return ok;
}

static int read_rows(const char *path, unsigned long long *rows)
{
	struct store *s = store_open(path, 1);
	struct noise noise;
	struct run_info run;
	char hash[33];
	*rows = 0;
	const int ok = s && store_each(s, "h200", NULL, add_cell, rows) &&
		       store_noise(s, "h200", &noise) && store_device(s, "h200", &run) &&
		       store_hash(s, "h200", hash);
	for (int i = 0; ok && i < 3; i++)
		*rows += scrambled((unsigned)noise.pairs[i] + (unsigned)(1e6 * noise.floor[i]));
	*rows += ok ? of_text(run.device.name) + (unsigned)run.device.units + of_text(hash) : 0;
	store_close(s);
	return ok;
}

static int merge(const char *path, unsigned long long *rows)
{
	const char *into = in_folder("into.sqlite");
	long long added;
	unlink(into);
	unlink(in_folder("into.sqlite-wal"));
	struct store *s = store_open(into, 0);
	const int ok = s && store_merge(s, path, &added);
	(void)rows;
	store_close(s);
	return ok;
}

/* In a child: the exit code is what it found. with_merge: the slow one, which syncs a disk. */
static void read_all(const char *path, unsigned long long expected, int with_merge)
{
	unsigned long long rows = 0;
	enum found found = SAME;
	alarm(PATIENCE_S);
	const int sound = step(check, path, &rows, &found);
	const int readable = step(read_rows, path, &rows, &found);
	if (with_merge)
		step(merge, path, &rows, &found);
	_exit(found <= REFUSED && sound && readable && expected && rows != expected ? OTHER_ROWS
										    : (int)found);
}

/* expected: the sum of the rows; 0: any. */
static enum found find(const char *path, unsigned long long expected, int with_merge)
{
	int status;
	const pid_t pid = fork();
	if (!pid)
		read_all(path, expected, with_merge);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("%s: %s", path, strsignal(WTERMSIG(status)));
	return (enum found)WEXITSTATUS(status);
}

/* ---- random damage -------------------------------------------------------------------------- */
static unsigned char *bytes_of(const char *name, size_t *n)
{
	FILE *f = fopen(in_folder(name), "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	unsigned char *bytes = malloc(*n);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *n, f), *n);
	fclose(f);
	return bytes;
}

static void write_bytes(const char *path, const unsigned char *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* As many copies, each damaged by one random number; of a sealed one, what is read is right. */
static void random_damage(const char *name, int copies, int is_sealed,
			  size_t (*damage)(unsigned char *, size_t, unsigned long long))
{
	unsigned long long expected = 0, dice = 1;
	char place[128];
	const char *path = stays(place, "copy.sqlite");
	int count[NUM_FOUND] = { 0 };
	size_t n;
	unsigned char *whole = bytes_of(name, &n), *copy = malloc(n);
	assert_non_null(copy);
	assert_true(read_rows(in_folder(name), &expected));
	for (int i = 0; i < copies; i++) {
		memcpy(copy, whole, n);
		write_bytes(path, copy, damage(copy, n, scrambled(dice += 0x9e3779b97f4a7c15ull)));
		const enum found found = find(path, is_sealed ? expected : 0, i % 4 == 0);
		if (found > REFUSED)
			fail_msg("%s, copy %d: %s: %s", name, i, found_names[found], said);
		count[found]++;
	}
	free(whole);
	free(copy);
	print_message("# %s: of %d copies %d are refused\n", name, copies, count[REFUSED]);
	assert_true(count[REFUSED] > 0);
}

static size_t flip_a_bit(unsigned char *bytes, size_t n, unsigned long long dice)
{
	bytes[dice / 8 % n] ^= (unsigned char)(1 << dice % 8);
	return n;
}

static size_t zero_a_page(unsigned char *bytes, size_t n, unsigned long long dice)
{
	memset(bytes + dice % (n / PAGE) * PAGE, 0, PAGE);
	return n;
}

static size_t cut_off(unsigned char *bytes, size_t n, unsigned long long dice)
{
	(void)bytes;
	return dice % n;
}

static void flipped_bits(void **state)
{
	(void)state;
	random_damage("sealed.sqlite", FLIPS / 2, 1, flip_a_bit);
	random_damage("open.sqlite", FLIPS / 2, 0, flip_a_bit);
}

static void lost_pages(void **state)
{
	(void)state;
	random_damage("sealed.sqlite", PAGES / 2, 1, zero_a_page);
	random_damage("open.sqlite", PAGES / 2, 0, zero_a_page);
	random_damage("sealed.sqlite", CUTS, 1, cut_off);
}

/* ---- the seal --------------------------------------------------------------------------------- */
/* Any value that is read and becomes another legal one. */
static void every_value_is_sealed(void **state)
{
	static const char *const edits[] = {
		"UPDATE measurement SET median = median + 1 WHERE race = (SELECT max(race) FROM "
		"measurement)",
		"UPDATE measurement SET ratio = ratio + 1 WHERE race = (SELECT max(race) FROM "
		"measurement)",
		"UPDATE measurement SET newest = 0 WHERE race = (SELECT max(race) FROM "
		"measurement)",
		"UPDATE race SET power_w = power_w + 1",
		"UPDATE race SET stage = 6",
		"UPDATE scenario SET split = 'heldout' WHERE id = 2",
		"UPDATE scenario SET steps = 7 WHERE id = 2",
		"UPDATE scenario SET weight = 1 WHERE id = 2",
		"UPDATE work SET flops = flops + 1",
		"UPDATE control SET ratio = 1.5",
		"UPDATE device SET units = 131",
		"UPDATE device SET l2_bytes = 1",
		"UPDATE run SET dram_gbps = 1 WHERE id = 2",
		"UPDATE ceiling SET value = 1",
		"UPDATE bridge SET new = 'd'",
		"UPDATE choice SET text = 'X=2' WHERE id = 1",
		"UPDATE code SET sources = sources || '1'",
		"UPDATE build SET flags = flags || ' -DX'",
		"UPDATE ending SET stopped = 'slow' WHERE outcome = 'ok'",
		"DELETE FROM measurement WHERE race = (SELECT max(race) FROM measurement)",
		"UPDATE seal SET hash = upper(hash)",
		"UPDATE seal SET device = 7",
	};
	size_t n;
	unsigned char *whole = bytes_of("sealed.sqlite", &n);
	char place[128];
	const char *path = stays(place, "edited.sqlite");
	(void)state;
	write_bytes(path, whole, n);
	assert_int_equal(find(path, 0, 1), SAME);
	for (size_t i = 0; i < COUNT(edits); i++) {
		unsigned long long none;
		write_bytes(path, whole, n);
		struct store *s = store_open(path, 0);
		assert_non_null(s);
		assert_true(store_query(s, "PRAGMA foreign_keys = OFF", NULL, NULL));
		assert_true(store_query(s, edits[i], NULL, NULL));
		store_close(s);
		quiet();
		const int ok = check(path, &none);
		if (loud() != 1 || ok || !strstr(said, "damaged"))
			fail_msg("%s: %s", edits[i], ok ? "not noticed" : said);
	}
	free(whole);
}

/* What attune itself writes removes the seal; looking, and writing what is there, does not. */
static void writes_remove_the_seal(void **state)
{
	size_t n;
	unsigned char *whole = bytes_of("sealed.sqlite", &n);
	char place[128];
	const char *path = stays(place, "written.sqlite");
	(void)state;
	write_bytes(path, whole, n);
	free(whole);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	struct scenario sc = scenario_of("q1s1k");
	assert_int_equal(store_scenario(s, &sc), 1); /* as it is */
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "1;");
	sc.weight = 9;
	assert_int_equal(store_scenario(s, &sc), 1);
	scenario_done(&sc);
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "0;");
	assert_int_equal(store_check(s), 1);
	struct compacted gone;
	assert_int_equal(store_compact(s, &gone), 1);
	assert_string_equal(ask(s, "SELECT count(*) FROM seal"), "1;");
	assert_int_equal(store_check(s), 1);
	store_close(s);
}

/* ---- damage by name ---------------------------------------------------------------------------- */
#define IGNORING "PRAGMA ignore_check_constraints = 1; PRAGMA foreign_keys = 0; "
#define LOOSE(table, from, to)                                                                    \
	IGNORING "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '" from \
		 "', '" to "') WHERE name = '" table "'; PRAGMA writable_schema = RESET; "

/* Of a database without a seal: by the values alone. */
static const struct {
	const char *name, *sql, *says;
} named[] = {
	{ "kv_dtype BF17", IGNORING "UPDATE scenario SET kv_dtype = 'BF17'", "BF17" },
	{ "layout XYZ", IGNORING "UPDATE scenario SET layout = 'XYZ'", "XYZ" },
	{ "num_kv_heads 0", IGNORING "UPDATE scenario SET num_kv_heads = 0", "num_kv_heads" },
	{ "head_size 4096", "UPDATE scenario SET head_size = 4096", "head_size" },
	{ "page_size 2^40", "UPDATE scenario SET page_size = 1 << 40", "page_size" },
	{ "five heads over two", "UPDATE scenario SET num_kv_heads = 2, num_query_heads = 5",
	  "multiple" },
	{ "a batch that is none", "UPDATE scenario SET batch = batch || 'x'", "batch" },
	{ "a long model name", "UPDATE scenario SET model = printf('%.200c', 'm') WHERE id = 1",
	  "too long" },
	{ "a text with a NUL", "UPDATE scenario SET set_name = 'a' || char(0) || 'b'", "set_name" },
	{ "infinite bytes", "UPDATE work SET bytes = 9e999", "work" },
	{ "negative bytes", IGNORING "UPDATE work SET bytes = -1", "work" },
	{ "an infinite weight", IGNORING "UPDATE scenario SET weight = 9e999", "weight" },
	{ "units 0", IGNORING "UPDATE device SET units = 0", "units" },
	{ "a long gpu", "UPDATE run SET protocol = printf('%.99c', 'p')", "protocol" },
	{ "phase 9",
	  IGNORING "UPDATE race SET phase = 9 WHERE id = (SELECT max(race) FROM measurement)",
	  "phase" },
	{ "stage 9",
	  IGNORING "UPDATE race SET stage = 9 WHERE id = (SELECT max(race) FROM measurement)",
	  "name" },
	{ "an unknown stage", "UPDATE stage SET name = 'rice' WHERE id = 1", "rice" },
	{ "no such variant", IGNORING "UPDATE measurement SET variant = 99 WHERE variant = 1",
	  "variant" },
	{ "no such build", IGNORING "UPDATE measurement SET build = 99", "build" },
	{ "an unknown outcome", IGNORING "UPDATE ending SET outcome = 'fine' WHERE outcome = 'ok'",
	  "fine" },
	{ "a median of 0", IGNORING "UPDATE measurement SET median = 0, below = 0 WHERE median > 0",
	  "median" },
	{ "ok without a time", "UPDATE measurement SET samples = NULL, median = NULL, below = NULL",
	  "outcome 'ok'" },
	{ "a least time below 0", IGNORING "UPDATE measurement SET below = median WHERE median > 0",
	  "least time" },
	{ "an unknown way to run parts", IGNORING "UPDATE variant SET how = '|||' WHERE how <> ''",
	  "|||" },
	{ "a NULL kernel",
	  LOOSE("choice", "kernel TEXT NOT NULL CHECK (kernel <> '''')",
		"kernel TEXT") "UPDATE choice SET kernel = NULL",
	  "damaged" },
	{ "a NULL batch",
	  LOOSE("scenario", "batch           TEXT NOT NULL CHECK (batch <> '''')",
		"batch TEXT") "UPDATE scenario SET batch = NULL",
	  "damaged" },
	{ "a column renamed in the schema's text", LOOSE("race", "mhz_before", "mhz_beforf"),
	  "damaged" },
	{ "a view with another number", LOOSE("noise", "20000000", "20000001"), "'noise'" },
	{ "a view that is gone", "DROP VIEW failures", "'failures'" },
	{ "version -1", "PRAGMA user_version = -1", "version is -1" },
	{ "version 7", "PRAGMA user_version = 7", "version 7" },
	{ "version 5 by label", "PRAGMA user_version = 5", "version 5" },
};

/* A copy of a database after some SQL; its path. */
static const char *damaged_by(const char *of, const char *sql)
{
	size_t n;
	static char place[128];
	unsigned char *whole = bytes_of(of, &n);
	const char *path = stays(place, "named.sqlite");
	write_bytes(path, whole, n);
	free(whole);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	if (!store_query(s, sql, NULL, NULL))
		fail_msg("%s", sql);
	store_close(s);
	return path;
}

static int call(int (*command)(int, char **), const char *words)
{
	char line[400], *argv[24] = { "attune" }, *save = NULL;
	int argc = 1, status;
	const pid_t pid = fork();
	if (!pid) {
		snprintf(line, sizeof line, "%s", words);
		for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save))
			argv[argc++] = w;
		alarm(PATIENCE_S);
		if (!freopen(in_folder("stdout"), "w", stdout))
			_exit(99);
		const int code = command(argc, argv);
		fflush(NULL);
		_exit(code);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Each reading command, %s: the database. */
static const struct {
	const char *name, *words;
	int (*command)(int, char **);
} commands[] = {
	{ "eval", "--gpu h200 --db %s", cmd_eval },
	{ "show", "--gpu h200 --db %s --best", cmd_show },
	{ "induce", "--gpu h200 --db %s --out %s.h", cmd_induce },
	{ "diff", "--gpu h200 %s %s", cmd_diff },
	{ "plot", "--gpu h200 --db %s --out /tmp", cmd_plot },
	{ "refine", "--gpu h200 --db %s", cmd_refine },
	{ "confirm", "--gpu h200 --db %s --dry-run", cmd_confirm },
	{ "merge", "/tmp/none/into.sqlite", cmd_merge }, /* replaced by one into the folder */
};

/* Exit 2 and a line of each command. */
static void commands_refuse(const char *name, const char *path, const char *says)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		char words[400];
		snprintf(words, sizeof words, commands[i].words, path, path);
		if (commands[i].command == cmd_merge)
			snprintf(words, sizeof words, "%s %s", in_folder("into.sqlite"), path);
		unlink(in_folder("into.sqlite"));
		quiet();
		const int code = call(commands[i].command, words);
		const int lines = loud();
		if (code != EXIT_USAGE || lines != 1 || strstr(said, "not an error") ||
		    (says && !strstr(said, says)))
			fail_msg("%s, %s: exit %d, %d lines: %s", name, commands[i].name, code,
				 lines, said);
	}
}

static void named_damage(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(named); i++) {
		const char *path = damaged_by("open.sqlite", named[i].sql);
		const enum found found = find(path, 0, 1);
		if (found != REFUSED)
			fail_msg("%s: %s", named[i].name, found_names[found]);
		if (!strstr(named[i].name,
			    "version 5")) /* merge brings it up to date, or says so */
			commands_refuse(named[i].name, path, NULL);
		quiet();
		unsigned long long rows;
		const int ok = read_rows(path, &rows);
		loud();
		const int is_old = strstr(named[i].name, "version 5") != NULL;
		if (ok || !strstr(said, named[i].says))
			fail_msg("%s: %s", named[i].name, ok ? "read" : said);
		if (!is_old)
			continue;
		quiet();
		assert_null(store_open(path, 0));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, "not those of version 5"));
	}
}

/* A database of version 5 under other labels. */
static void other_labels(void **state)
{
	static const int labels[] = { 1, 6 };
	char place[128], words[300];
	const char *path = stays(place, "v5.sqlite");
	(void)state;
	for (size_t i = 0; i < COUNT(labels); i++) {
		unlink(path);
		snprintf(
		    words, sizeof words,
		    "(cat tests/store/store_v5.sql; echo 'PRAGMA application_id = 1635021934; PRAGMA "
		    "user_version = %d;') | sqlite3 %s",
		    labels[i], path);
		assert_int_equal(system(words), 0);
		for (int readonly = 0; readonly < 2; readonly++) {
			quiet();
			struct store *s = store_open(path, readonly);
			assert_int_equal(loud(), 1);
			assert_null(s);
			if (!strstr(said, labels[i] == 6 ? "damaged"
					  : readonly     ? "has version 1"
							 : "not those of version 1"))
				fail_msg("labelled %d: %s", labels[i], said);
		}
	}
}

/* A sweep looks at its database before it begins, and before it says what it would do. */
static void sweeps_refuse(void **state)
{
	char words[300];
	(void)state;
	for (int dry = 0; dry < 2; dry++) {
		snprintf(words, sizeof words, "--gpu cpu --preset smoke --batch q1s64 --db %s%s",
			 damaged_by("sealed.sqlite", "UPDATE measurement SET median = median + 1 "
						     "WHERE median IS NOT NULL"),
			 dry ? " --dry-run" : "");
		quiet();
		const int code = call(cmd_sweep, words);
		loud();
		assert_int_equal(code, EXIT_USAGE);
		assert_non_null(strstr(said, "damaged"));
	}
}

/* ---- files that are no databases ------------------------------------------------------------------ */
static void other_files(void **state)
{
	char place[2][128];
	const char *pipe = stays(place[0], "pipe"), *dir = stays(place[1], "dir.sqlite");
	(void)state;
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	static const char *const says[] = { "a pipe", "a folder" };
	const char *const paths[] = { pipe, dir };
	for (size_t i = 0; i < COUNT(paths); i++) {
		assert_int_equal(find(paths[i], 0, 1), REFUSED);
		for (size_t k = 0; k < COUNT(commands); k++) {
			char words[400];
			if (commands[k].command ==
			    cmd_diff) /* of headers then, which may be pipes */
				continue;
			snprintf(words, sizeof words, commands[k].words, paths[i], paths[i]);
			if (commands[k].command == cmd_merge)
				snprintf(words, sizeof words, "%s", paths[i]);
			quiet();
			const int code = call(commands[k].command, words);
			assert_int_equal(loud(), 1);
			assert_int_equal(code, EXIT_USAGE);
			assert_non_null(strstr(said, says[i]));
		}
	}
}

/* A database that a writer left in WAL mode, in a folder where its helper files cannot be made. */
static int read_as_nobody(void)
{
	char place[2][128];
	const char *dir = stays(place[0], "locked"), *path = stays(place[1], "locked/w.sqlite");
	int status;
	const pid_t pid = fork();
	if (!pid) {
		alarm(PATIENCE_S);
		if (!geteuid() && (setgid(65534) || setuid(65534)))
			_exit(99);
		struct store *s = store_open(path, 1);
		_exit(s != NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void wal_in_a_readonly_folder(void **state)
{
	size_t n;
	char place[2][128];
	const char *dir = stays(place[0], "locked"), *path = stays(place[1], "locked/w.sqlite");
	unsigned char *whole = bytes_of("open.sqlite", &n);
	(void)state;
	whole[18] = whole[19] = 2; /* WAL */
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	write_bytes(path, whole, n);
	free(whole);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(dir, 0555), 0);
	quiet();
	const int opened = read_as_nobody();
	assert_int_equal(loud(), 1);
	assert_int_equal(opened, 0);
	assert_non_null(strstr(said, "folder"));
	assert_null(strstr(said, "cannot be written"));
}

static int make_all(void **state)
{
	if (make_folder(state))
		return -1;
	make("sealed.sqlite", 1);
	make("open.sqlite", 0);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(flipped_bits),
		cmocka_unit_test(lost_pages),
		cmocka_unit_test(every_value_is_sealed),
		cmocka_unit_test(writes_remove_the_seal),
		cmocka_unit_test(named_damage),
		cmocka_unit_test(other_labels),
		cmocka_unit_test(sweeps_refuse),
		cmocka_unit_test(other_files),
		cmocka_unit_test(wal_in_a_readonly_folder),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("damage", tests, make_all, remove_folder);
}
