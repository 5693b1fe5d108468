/* t_store_versions.c - labels and versions of the results database: other versions and other files are
 * refused. */
#include "store_fixture.h"
#include <sqlite3.h>

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
	assert_string_equal(ask(s, "PRAGMA user_version"), "8;");
	static const struct {
		const char *set, *says;
	} others[] = { { "PRAGMA user_version = 9", "version 9, but this attune knows up to 8" },
		       { "PRAGMA user_version = 5", "version 5, from before the first release" } };
	store_close(s);
	for (int i = 0; i < 4; i++) {
		sqlite3 *db;
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, others[i / 2].set, NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		quiet();
		assert_null(store_open(path, i % 2));
		assert_int_equal(loud(), 1);
		assert_non_null(strstr(said, others[i / 2].says));
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
		cmocka_unit_test(not_ours),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_versions", t, make_folder, remove_folder);
}
