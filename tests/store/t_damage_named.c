/* SPDX-License-Identifier: Apache-2.0 */
/* t_damage_named.c - databases with one named fault each, and files that are no databases: every
 * reading command refuses them in one line that names the fault. */
#include "damage_fixture.h"
#include <sqlite3.h>

/* tuner/data has a struct kept_cells, too */
int cmd_eval(int, char **);
int cmd_show(int, char **);
int cmd_induce(int, char **);
int cmd_diff(int, char **);
int cmd_plot(int, char **);
int cmd_confirm(int, char **);

/* ---- damage by name ---------------------------------------------------------------------------- */
#define IGNORING "PRAGMA ignore_check_constraints = 1; PRAGMA foreign_keys = 0; "
#define LOOSE(table, from, to)                                                                    \
	IGNORING "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '" from \
		 "', '" to "') WHERE name = '" table "'; PRAGMA writable_schema = RESET; "

/* Changes a column of a table, but not the index of it, which keeps the text of before. */
#define HIDDEN(before, after)                                                                    \
	"UPDATE device SET name = " before "; CREATE INDEX by_name ON device (name); PRAGMA "    \
	"writable_schema = 1; CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name " \
	"= 'by_name'; DELETE FROM sqlite_schema WHERE name = 'by_name'; PRAGMA writable_schema " \
	"= RESET; UPDATE device SET name = " after "; PRAGMA writable_schema = 1; INSERT INTO "  \
	"main.sqlite_schema SELECT * FROM kept"

/* Of a database without a seal: by the values alone. */
static const struct {
	const char *name, *sql, *says;
} named[] = {
	{ "kv_dtype BF17", IGNORING "UPDATE scenario SET kv_dtype = 'BF17'", "BF17" },
	{ "layout XYZ", IGNORING "UPDATE scenario SET layout = 'XYZ'", "XYZ" },
	{ "packed rows in another layout",
	  "UPDATE scenario SET layout = 'CLASSIC', model = model || '+packed'", "packed" },
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
	{ "no such binary", IGNORING "UPDATE measurement SET ran = 99", "build" },
	{ "no such build", IGNORING "UPDATE ran SET build = 99 WHERE id = 1", "build" },
	{ "an unknown outcome", IGNORING "UPDATE ending SET outcome = 'fine' WHERE outcome = 'ok'",
	  "fine" },
	{ "a median of 0", IGNORING "UPDATE measurement SET median = 0, below = 0 WHERE median > 0",
	  "median" },
	{ "ok without a time", "UPDATE measurement SET median = NULL, below = NULL",
	  "outcome 'ok'" },
	{ "a least time below 0", IGNORING "UPDATE measurement SET below = 1000 WHERE median > 0",
	  "below" },
	{ "an unknown way to run parts", IGNORING "UPDATE variant SET how = '|||' WHERE how <> ''",
	  "|||" },
	{ "a NULL kernel",
	  LOOSE("family", "kernel TEXT NOT NULL CHECK (kernel <> '''')",
		"kernel TEXT") "UPDATE family SET kernel = NULL",
	  "damaged" },
	{ "a NULL batch",
	  LOOSE("scenario", "batch           TEXT NOT NULL CHECK (batch <> '''')",
		"batch TEXT") "UPDATE scenario SET batch = NULL",
	  "damaged" },
	{ "a column renamed in the schema's text", LOOSE("race", "mhz_before", "mhz_beforf"),
	  "damaged" },
	{ "a view with another number", LOOSE("noise", "20000", "20001"), "'noise'" },
	{ "a view that is gone", "DROP VIEW failures", "'failures'" },
	{ "a line feed in a name", "UPDATE device SET name = 'x' || char(10) || '!touch x'",
	  "table device, column name, row 1" },
	{ "a line feed that an index hides", HIDDEN("'x'", "'x' || char(10) || '!touch x'"),
	  "by_name" },
	{ "a line feed in an index alone", HIDDEN("'x' || char(10) || '!touch x'", "'x'"),
	  "by_name" },
	{ "a virtual table of others",
	  "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema VALUES ('table', 'mine', 'mine', "
	  "0, 'CREATE VIRTUAL TABLE mine USING others(1)')",
	  "DROP table \"mine\"" },
	{ "a virtual table that looks like another",
	  "PRAGMA writable_schema = 1; INSERT INTO sqlite_schema VALUES ('table', 'mine', 'mine', "
	  "2, 'CREATE VIRTUAL TABLE mine USING others(1)')",
	  "DROP table \"mine\"" },
	{ "a trigger of others", "CREATE TRIGGER mine AFTER INSERT ON run BEGIN SELECT 1; END",
	  "DROP trigger \"mine\"" },
	{ "a view of others", "CREATE VIEW \"my \"\"own\" AS SELECT 1",
	  "DROP view \"my \"\"own\"" },
	{ "a view whose name would end a shell's text",
	  "CREATE VIEW \"x\"\"'; touch pwned; '\" AS SELECT 1", "own; remove it: DROP it in" },
	{ "a view in the place of a table",
	  "DROP TABLE reading; CREATE VIEW reading AS SELECT 1 AS race", "DROP view \"reading\"" },
	{ "version -1", "PRAGMA user_version = -1", "version is -1" },
	{ "version 10", "PRAGMA user_version = 10", "version 10" },
	{ "version 8 by label", "PRAGMA user_version = 8", "not those of version 8" },
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
	sqlite3 *db; /* the store lets nobody edit the schema */
	if (sqlite3_open(path, &db) || sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
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
		commands_refuse(named[i].name, path, NULL);
		quiet();
		unsigned long long rows;
		const int ok = read_rows(path, &rows);
		loud();
		if (ok || !strstr(said, named[i].says))
			fail_msg("%s: %s", named[i].name, ok ? "read" : said);
	}
}

/* The DROP frees the file. Tables and indices of others stay, and what the schema holds cannot run
 * functions that act on more than their arguments. */
static void others_schema(void **state)
{
	(void)state;
	struct store *s =
	    store_open(damaged_by("open.sqlite",
				  "CREATE TRIGGER mine AFTER INSERT ON run BEGIN SELECT 1; END; "
				  "DROP trigger \"mine\"; CREATE TABLE notes (text); "
				  "CREATE INDEX by_protocol ON run (protocol)"),
		       0);
	assert_non_null(s);
	quiet();
	assert_false(store_query(
	    s, "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = sql", NULL, NULL));
	loud();
	assert_string_equal(ask(s, "PRAGMA trusted_schema"), "0;");
	store_close(s);
}

/* A sweep checks its database before it begins, and before --dry-run prints anything. */
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

/* What attune merge --bridge reads. */
static int touch_use(void *arg, const struct store_use *use)
{
	*(size_t *)arg += strlen(use->kernel);
	return 1;
}

static void sources_of_lost_scenarios(void **state)
{
	size_t sum = 0;
	(void)state;
	struct store *s =
	    store_open(damaged_by("open.sqlite", IGNORING "DELETE FROM scenario WHERE id = 1"), 1);
	assert_non_null(s);
	quiet();
	const int ok = store_uses(s, "h200", touch_use, &sum);
	assert_int_equal(loud(), 1);
	assert_false(ok);
	assert_non_null(strstr(said, "a row refers to a missing row"));
	store_close(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_damage),
		cmocka_unit_test(others_schema),
		cmocka_unit_test(sources_of_lost_scenarios),
		cmocka_unit_test(sweeps_refuse),
		cmocka_unit_test(other_files),
		cmocka_unit_test(wal_in_a_readonly_folder),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("damage_named", tests, make_all, remove_folder);
}
