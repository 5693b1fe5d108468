/* t_store_versions.c - labels and versions of the results database: older versions are migrated when
 * they are opened for writing; other files are refused. */
#include "same_schema.h"

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
	assert_string_equal(ask(s, "PRAGMA user_version"), "6;");
	assert_true(store_query(s, "PRAGMA user_version = 7", NULL, NULL));
	store_close(s);
	for (int readonly = 0; readonly < 2; readonly++) {
		quiet();
		assert_null(store_open(path, readonly));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, "version 7"));
	}
}

/* An older database from a text; `more` changes it further. It is refused for reading, with the
 * command that brings it up to date. */
static const char *older(const char *name, const char *text, const char *more)
{
	const char *path = in_folder(name);
	char command[900];
	snprintf(command, sizeof command, "sqlite3 %s <tests/store/%s && sqlite3 %s \"%s\"", path,
		 text, path, more);
	assert_int_equal(system(command), 0);
	quiet();
	assert_null(store_open(path, 1));
	assert_int_equal(loud(), 1);
	assert_non_null(strstr(said, "bring it up to date with: attune merge"));
	return path;
}

static void version_1(void **state)
{
	(void)state;
	struct store *s = store_open(older("v1.sqlite", "store_v1.sql", ""), 0);
	assert_non_null(s);
	assert_string_equal(
	    ask(s,
		"SELECT batch, split, weight, steps, plan, outcome, median_us, iqr_us, ci_us, "
		"round(joules, 6), samples, stage, pass, detail FROM timings ORDER BY median_us"),
	    "q1s1k train 2.5 0.0 segmented TILE_SIZE=16 wrong - - - - - race A out[3] = 1;"
	    "q1s1k train 2.5 0.0 decode: segmented TILE_SIZE=16 ok 10.0 0.0 0.5 0.004 3 race A -;"
	    "q1s1k train 2.5 0.0 decode: segmented TILE_SIZE=32 ok 20.0 - - - 1 race A -;");
	assert_string_equal(ask(s, "SELECT DISTINCT source FROM history"), "text:f00d;");
	same_schema(s);
	store_close(s);
}

static const char rows_of_5[] =
    "SELECT plan, outcome, median_us, min_us, ratio, stage, pass, newest, power_w, sm_mhz_after, "
    "detail FROM history ORDER BY run_id, race_id, variant_id";
static const char are_rows_of_5[] =
    "decode: ring BLOCK_M=8 SEGMENTS=4 ok 11.0 10.0 1.0 race A 0 400.0 1980.0 -;"
    "decode: naive wrong - - - race A 1 400.0 1980.0 out[3] = 1, want 2;"
    "decode: ring BLOCK_M=8 SEGMENTS=4 ok 10.5 10.0 0.75 complete A 1 300.0 1965.0 -;"
    "prefill: qblock BLOCK_M=16 | decode: ring BLOCK_M=8 SEGMENTS=4 ok 100.0 100.0 1.0 race A 1 - "
    "- -;"
    "prefill: naive || decode: ring BLOCK_M=8 SEGMENTS=4 ok 90.0 90.0 1.0 b B 1 - - -;"
    "decode: ring BLOCK_M=8 SEGMENTS=4 ok 8.0 8.0 1.0 early E 1 - 1980.0 -;";

static void version_5(void **state)
{
	(void)state;
	struct store *s = store_open(older("v5.sqlite", "store_v5.sql", ""), 0);
	struct store_cell c;
	struct kept_cells got = { 0 };
	assert_non_null(s);
	assert_string_equal(ask(s, rows_of_5), are_rows_of_5);
	same_schema(s);
	/* the hashes of commit decedb2's text are known, of one kernel and of a pair */
	assert_string_equal(ask(s, "SELECT sources GLOB 'reduce:* ring:*', "
				   "sources GLOB 'qblock:* reduce:* ring:*', "
				   "sources = 'text:ffffffffffffffffffffffffffffffff' FROM code "
				   "ORDER BY sources GLOB 'text*', sources GLOB 'qblock*'"),
			    "1 0 0;0 1 0;0 0 1;");
	assert_string_equal(ask(s, "SELECT commit_id, sources FROM run ORDER BY id"),
			    "0123abcd-dirty modified before 6;0123abcd committed;");
	assert_string_equal(ask(s, "SELECT gpu, memory_gib, machine FROM device"), "h200 140 ;");
	assert_string_equal(ask(s, "SELECT median, ratio FROM control"), "11000000 1.01;");
	assert_string_equal(ask(s, "SELECT calls, rejected, length(us) FROM sample LIMIT 1"),
			    "10 1 12;");
	assert_string_equal(ask(s, "SELECT name, value FROM ceiling"), "read 4000.0;");
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 5);
	c = got.v[1];
	assert_true(c.gbps > 0 && c.scenario_id == 3);
	store_close(s);
}

/* Before version 5, times of sweep --early were of pass A; before 4, there were no ceilings. */
static void versions_2_to_4(void **state)
{
	static const char early[] =
	    "UPDATE measurement SET stage = 'refine' WHERE stage = 'early';";
	(void)state;
	for (int version = 2; version <= 4; version++) {
		char more[300], name[20];
		snprintf(name, sizeof name, "v%d.sqlite", version);
		snprintf(more, sizeof more, "%s %s PRAGMA user_version = %d", early,
			 version < 4 ? "DROP TABLE ceiling;" : "", version);
		struct store *s = store_open(older(name, "store_v5.sql", more), 0);
		assert_non_null(s);
		assert_string_equal(ask(s, rows_of_5), are_rows_of_5);
		assert_string_equal(ask(s, "SELECT count(*) FROM ceiling"),
				    version < 4 ? "0;" : "1;");
		same_schema(s);
		store_close(s);
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
		cmocka_unit_test(labels),          cmocka_unit_test(versions),
		cmocka_unit_test(not_ours),        cmocka_unit_test(version_1),
		cmocka_unit_test(versions_2_to_4), cmocka_unit_test(version_5),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_versions", t, make_folder, remove_folder);
}
