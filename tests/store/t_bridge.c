/* SPDX-License-Identifier: Apache-2.0 */
/* t_bridge.c - `attune merge --bridge` by machine code: rows of an older source count as today's where
 * the code is equal, for all flags or for some, and by named revisions. On the CPU. */
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include "bridge_rows.h"

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
		{ "--from renamed", "no C compiler", 2 },
	};
	store_close(measured_with("renamed", "refused.sqlite", "cpu", "scalar"));
	setenv("CC", "/nonexistent/cc", 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(bridge(arguments("refused.sqlite", rows[i].arguments)),
				 rows[i].code);
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
	assert_string_equal(cell("result"), "bridged");
	assert_string_equal(cell("flag_sets"), "2");
	assert_string_equal(cell("equal"), "2");
	assert_string_equal(cell("rows_bridged"), "3");
	assert_string_equal(freshness_in("equal.sqlite"), "222");
	assert_true(is_stored("equal.sqlite", 64) && is_stored("equal.sqlite", 128));
	assert_string_equal(ask("equal.sqlite", "SELECT kernel, arch, flags, how, gpu FROM bridge"),
			    "qblock scalar  code ;");
	assert_string_equal(ask("equal.sqlite", "SELECT DISTINCT bridged FROM newest"), "code;");
	assert_int_equal(bridge(arguments("equal.sqlite", from("renamed"))), 0);
	assert_string_equal(cell("result"), ""); /* nothing is stale any more */
}

static void other_code(void **state)
{
	(void)state;
	store_close(measured_with("changed", "other.sqlite", "cpu", "scalar"));
	assert_int_equal(bridge(arguments("other.sqlite", from("changed"))), 0);
	assert_string_equal(cell("result"), "differs");
	assert_string_equal(cell("equal"), "0");
	assert_string_equal(freshness_in("other.sqlite"), "000");
	assert_string_equal(ask("other.sqlite", "SELECT count(*) FROM bridge"), "0;");
}

static void some_flags(void **state)
{
	(void)state;
	store_close(measured_with("changed_64", "flags.sqlite", "cpu", "scalar"));
	assert_int_equal(bridge(arguments("flags.sqlite", from("changed_64"))), 0);
	assert_string_equal(cell("result"), "bridged in part");
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
	assert_string_equal(cell("result"), "no tree has it");
	assert_string_equal(freshness_in("none.sqlite"), "000");
	assert_int_equal(bridge(arguments("none.sqlite", "--dry-run --from renamed")), 0);
	assert_string_equal(cell("result"), "to compare");
	assert_string_equal(freshness_in("none.sqlite"), "000");
}

/* ATTUNE_SOURCE is a checkout: the text before an edit is that of a revision. */
static void revisions(void **state)
{
	(void)state;
	static const char commit[] = "git -c user.name=t -c user.email=t@localhost commit -qm";
	store_close(measured_with("renamed", "git.sqlite", "cpu", "scalar"));
	shell("cp today/kernels/cpu/qblock.c kept.c && cp renamed/kernels/cpu/qblock.c "
	      "today/kernels/cpu && "
	      "cd today && git init -q . && git add . && %s renamed && "
	      "cp ../kept.c kernels/cpu/qblock.c && git add . && %s today",
	      commit, commit);
	assert_int_equal(bridge(arguments("git.sqlite", "--from HEAD")), 0);
	assert_string_equal(cell("result"), "no tree has it");
	assert_int_equal(bridge(arguments("git.sqlite", "--dry-run --from HEAD~1")), 0);
	assert_string_equal(cell("tree"), "HEAD~1");
	assert_int_equal(bridge(arguments("git.sqlite", "")), 0);
	assert_string_equal(cell("result"), "bridged");
	assert_string_equal(freshness_in("git.sqlite"), "222");
}

/* Stores a bridge between the sources of two trees. head_size: of the flags; 0: all flags. */
static void add_bridge(const char *db, const char *from, const char *to, const char *how,
		       int head_size, const char *gpu, const char *arch)
{
	char old[33], new[33], flags[MAX_FLAGS] = "", sql[MAX_FLAGS + 400];
	const struct choice c = measured_choice();
	struct scenario sc = scenario_of("q40", head_size ? head_size : 64);
	if (head_size)
		binary_flags(flags, sizeof flags, c.kernel, &c.config, &sc.shape);
	identity_in(from, old);
	identity_in(to, new);
	snprintf(sql, sizeof sql,
		 "INSERT INTO bridge (kernel, old, new, arch, flags, how, gpu, batches, toolkit, "
		 "commit_id) VALUES ('qblock', '%s', '%s', '%s', '%s', '%s', '%s', 0, 'cc', '')",
		 old, new, arch, flags, how, gpu);
	struct store *s = store_open(in_folder(db), 0);
	assert_true(s && store_query(s, sql, NULL, NULL));
	store_close(s);
	batch_free(sc.batch);
	free(sc.batch_text);
}

/* A row of table bridge, and the state of rows of head size 128, 128 and 64. */
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
		{ "race", "", "other", "scalar", "222", "race on other;" },
		{ "race", "128", "other", "scalar", "220", "-;race on other;" },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct store *s = measured_with("renamed", "counted.sqlite", "cpu", "scalar");
		store_close(s);
		add_bridge("counted.sqlite", "renamed", "today", rows[i].how, atoi(rows[i].flags),
			   rows[i].gpu, rows[i].arch);
		s = store_open(in_folder("counted.sqlite"), 1);
		assert_string_equal(freshness(s, "cpu"), rows[i].fresh);
		store_close(s);
		assert_string_equal(
		    ask("counted.sqlite", "SELECT DISTINCT bridged FROM newest ORDER BY bridged"),
		    rows[i].bridged);
	}
}

/* Rows that a stored race carries to the source of a tree, whose code equals today's. */
static void behind_a_race(void **state)
{
	(void)state;
	store_close(measured_with("changed", "chain.sqlite", "cpu", "scalar"));
	add_bridge("chain.sqlite", "changed", "renamed", "race", 0, "other", "scalar");
	assert_string_equal(freshness_in("chain.sqlite"), "000");
	assert_int_equal(bridge(arguments("chain.sqlite", from("renamed"))), 0);
	assert_non_null(strstr(out, "\t3\tbridged\n"));
	assert_string_equal(freshness_in("chain.sqlite"), "222");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),       cmocka_unit_test(equal_code),
		cmocka_unit_test(other_code),    cmocka_unit_test(some_flags),
		cmocka_unit_test(no_tree),       cmocka_unit_test(revisions),
		cmocka_unit_test(behind_a_race), cmocka_unit_test(counted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bridge", tests, make_folder, remove_folder);
}
