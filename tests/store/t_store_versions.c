/* SPDX-License-Identifier: Apache-2.0 */
/* t_store_versions.c - labels and versions of the results database: version 8 is migrated, other
 * versions and other files are refused. */
#include "store_fixture.h"
#include "harness/base/base.h"
#include <sqlite3.h>

EMBED(version_8_sql, "tests/store/version_8.sql")

static void execute(const char *path, const char *sql)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void labels(void **state)
{
	(void)state;
	struct store *s = fresh("labels.sqlite");
	struct scenario sc = scenario_of("q1s1k");
	add(s, store_begin_run(s, &h200), "q1s1k", "segmented", 0, measured(10));
	strcpy(sc.split, "heldout");
	assert_int_equal(store_scenario(s, &sc), 1);
	assert_string_equal(ask(s, "SELECT split FROM timings"), "heldout;");
	sc.shape.window = 0;
	assert_int_equal(store_scenario(s, &sc), 1);
	assert_string_equal(ask(s, "SELECT count(*), count(DISTINCT \"window\") FROM scenario"),
			    "2 2;");
	scenario_done(&sc);
	store_close(s);
}

static void versions(void **state)
{
	(void)state;
	const char *path = in_folder("version.sqlite");
	fclose(fopen(path, "w")); /* version 0: an empty file */
	quiet();
	assert_null(store_open(path, 1));
	assert_int_equal(loud(), 1);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	assert_string_equal(ask(s, "PRAGMA user_version"), "9;");
	static const struct {
		const char *set, *says;
	} others[] = { { "PRAGMA user_version = 10", "version 10, but this attune knows up to 9" },
		       { "PRAGMA user_version = 5", "version 5, from before the first release" } };
	store_close(s);
	for (int i = 0; i < 4; i++) {
		execute(path, others[i / 2].set);
		quiet();
		assert_null(store_open(path, i % 2));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, others[i / 2].says));
	}
}

/* Rows of version 8, as its views had them. */
static void migration(void **state)
{
	(void)state;
	static const struct {
		const char *sql, *is;
	} rows[] = {
		{ "SELECT plan, outcome, median_us, round(min_us, 3), ci_us, round(ratio, 4), "
		  "newest"
		  " FROM history ORDER BY race_id, variant_id",
		  "decode: segmented BLOCK_M=16 SEGMENTS=4 EARLY=1 ok 11.0 9.999 0.25 1.0 0;"
		  "decode: segmented BLOCK_M=16 SEGMENTS=32 EARLY=1 ok 12.346 12.334 - 1.1223 1;"
		  "decode: qblock BLOCK_M=192 ok 5.5 5.5 - 0.0067 1;"
		  "decode: mine PREFILL_SEGMENTS=2 DECODE_SEGMENTS=3 wrong - - - - 1;"
		  "decode: segmented BLOCK_M=16 SEGMENTS=4 EARLY=1 ok 147676.483 147233.454 - 1.0 "
		  "1;"
		  "decode: mine SEGMENTS=08 ok 0.001 0.0 - 1.0001 1;"
		  "decode: mine noisy 10.5 10.5 - 0.9999 1;"
		  "prefill: qblock BLOCK_M=192 || decode: segmented BLOCK_M=16 SEGMENTS=4 EARLY=1"
		  " ok 40.0 39.88 - 242.514 1;" },
		/* the reference alone has a ratio of 1, and a fast choice's ratio keeps its digits */
		{ "SELECT count(*) FROM history WHERE ratio = 1", "2;" },
		{ "SELECT round(ratio, 8) FROM history WHERE kernel = 'qblock'", "0.006677;" },
		{ "SELECT sm_mhz_before, sm_mhz_after, power_w FROM history"
		  " GROUP BY race_id ORDER BY race_id",
		  "1980 1965 285.233;1980 - -;1900 1905 250.25;" },
		{ "SELECT detail, stopped, samples, flags FROM history WHERE detail IS NOT NULL",
		  "sequence 1, token 3 - - -DHEAD_SIZE=128;" },
		{ "SELECT median, ratio FROM control", "11000 1012346;" },
		{ "SELECT old FROM bridge_race", "11000;" },
		{ "SELECT policy, median, ci FROM bench", "attune 10500 251;other - -;" },
		{ "SELECT (SELECT count(*) FROM family), (SELECT count(*) FROM choice),"
		  " (SELECT count(*) FROM sample), (SELECT count(*) FROM seal)",
		  "5 6 1 1;" },
		{ "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'old_*'", "0;" },
	};
	const char *path = in_folder("eight.sqlite");
	execute(path, version_8_sql);
	quiet();
	struct store *s = store_open(path, 1); /* one that only reads migrates it, too */
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "had version 8, and now has version 9"));
	assert_non_null(s);
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_string_equal(ask(s, rows[i].sql), rows[i].is);
	assert_int_equal(store_check(s), 1);
	assert_string_equal(ask(s, "PRAGMA user_version"), "9;");
	assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
	assert_string_equal(ask(s, "PRAGMA foreign_keys"), "1;");
	store_close(s);
	quiet();
	s = store_open(path, 0);
	assert_int_equal(loud(), 0);
	store_close(s);
}

/* A migration that is killed leaves version 8 or version 9, with all rows. */
static void migration_killed(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		const char *path = in_folder("killed.sqlite");
		store_remove(path);
		execute(path, version_8_sql);
		const pid_t pid = fork();
		if (!pid) {
			quiet();
			store_close(store_open(path, 0));
			_exit(0);
		}
		usleep((useconds_t)(1 + i) * 700);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		quiet();
		struct store *s = store_open(path, 1);
		loud();
		assert_non_null(s);
		assert_string_equal(ask(s, "SELECT count(*), total(median_us) FROM history"),
				    "8 147755.83;");
		assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
		store_close(s);
	}
}

static int one_text(void *to, int n, char **cells, char **names)
{
	(void)n, (void)names;
	snprintf(to, 40000, "%s", cells[0]);
	return 0;
}

/* What cannot become version 9 keeps its tables. */
static void migration_refused(void **state)
{
	(void)state;
	static const struct {
		const char *sql, *says;
	} rows[] = {
		{ "DROP VIEW best", "not those of version 8" },
		{ "ALTER TABLE measurement RENAME COLUMN below TO beneath",
		  "not those of version 8" },
		{ "PRAGMA ignore_check_constraints = 1; UPDATE measurement SET median = -5, below "
		  "= 9",
		  "not those of version 8" },
		{ "UPDATE choice SET text = 'a' || char(10)", "family" },
		{ "UPDATE measurement SET build = 99", "missing rows" },
		{ "CREATE TRIGGER mine AFTER INSERT ON race BEGIN SELECT 1; END", "trigger" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *path = in_folder("refused.sqlite");
		char tables[2][40000];
		static const char all[] = "SELECT group_concat(sql) FROM sqlite_schema";
		sqlite3 *db;
		unlink(path);
		execute(path, version_8_sql);
		execute(path, rows[i].sql);
		for (int after = 0; after < 2; after++) {
			assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
			assert_int_equal(sqlite3_exec(db, all, one_text, tables[after], NULL), 0);
			sqlite3_close(db);
			if (after)
				break;
			quiet();
			assert_null(store_open(path, (int)i % 2));
			loud();
			if (!strstr(said, rows[i].says))
				fail_msg("%s: %s", rows[i].sql, said);
		}
		assert_string_equal(tables[0], tables[1]);
	}
}

static void not_ours(void **state)
{
	(void)state;
	const char *path = in_folder("not_ours.sqlite");
	FILE *f = fopen(path, "w");
	for (int i = 0; i < 100; i++)
		fputs("this is no database at all\n", f);
	fclose(f);
	quiet();
	assert_null(store_open(path, 0));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "not an SQLite database"));
	quiet();
	assert_null(store_open(in_folder("absent.sqlite"), 1));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "No such file"));
	quiet();
	assert_null(store_open("/nowhere/at/all.sqlite", 0));
	assert_int_equal(loud(), 1);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(labels),
		cmocka_unit_test(versions),
		cmocka_unit_test(migration),
		cmocka_unit_test(migration_killed),
		cmocka_unit_test(migration_refused),
		cmocka_unit_test(not_ours),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_versions", t, make_folder, remove_folder);
}
