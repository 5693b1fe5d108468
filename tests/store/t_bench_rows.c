/* SPDX-License-Identifier: Apache-2.0 */
/* t_bench_rows.c - table bench: what attune bench timed. Nothing learns from its rows, merge carries
 * them over, and compact keeps the newest of each policy with its run. */
#include "store_fixture.h"

static void time_policy(struct store *s, long long run, const char *policy, double us)
{
	struct scenario sc = scenario_of("q1s1k");
	const struct measurement m = measured(us);
	assert_true(store_bench(s, run, &sc, policy, "segmented", BACKEND_GPU, &m));
	scenario_done(&sc);
}

static struct store *with_bench(const char *name, char before[33], char after[33])
{
	struct store *s = fresh(name);
	const long long run = store_begin_run(s, &h200);
	add(s, run, "q1s1k", "segmented", 0, measured(10));
	assert_int_equal(store_hash(s, "h200", before), 1);
	time_policy(s, run, "attune", 12);
	time_policy(s, run, "attune", 11); /* in its place */
	time_policy(s, store_begin_run(s, &h200), "oracle", 10);
	time_policy(s, store_begin_run(s, &h200), "oracle", 9);
	assert_int_equal(store_hash(s, "h200", after), 1);
	return s;
}

#define TIMES                                                                                  \
	"SELECT policy, b.median / 1e3, b.outcome, b.sources LIKE '%segmented:%', s.batch"     \
	" FROM bench AS b JOIN run AS r ON r.id = b.run JOIN scenario AS s ON s.id = scenario" \
	" ORDER BY b.id"

static void nothing_learns_from_them(void **state)
{
	char before[33], after[33];
	struct kept_cells got = { 0 };
	(void)state;
	struct store *s = with_bench("learn.sqlite", before, after);
	assert_string_equal(before, after);
	assert_int_equal(store_each(s, "h200", keep_cell, &got), 1);
	assert_int_equal(got.n, 1);
	store_close(s);
}

static void they_are_merged(void **state)
{
	char before[33], after[33];
	long long added;
	(void)state;
	store_close(with_bench("from.sqlite", before, after));
	struct store *s = fresh("into.sqlite");
	add(s, store_begin_run(s, &h200), "q2s1k", "segmented", 0, measured(10));
	for (int i = 0; i < 2; i++) { /* nothing twice */
		assert_true(store_merge(s, in_folder("from.sqlite"), &added));
		assert_string_equal(ask(s, TIMES), "attune 12.0 ok 1 q1s1k;oracle 11.0 ok 1 q1s1k;"
						   "oracle 10.0 ok 1 q1s1k;");
	}
	store_close(s);
}

static void compact_keeps_the_newest(void **state)
{
	char before[33], after[33];
	struct compacted gone;
	(void)state;
	struct store *s = with_bench("compact.sqlite", before, after);
	assert_true(store_query(s, "UPDATE run SET sources = 'committed'", NULL, NULL));
	assert_true(store_compact(s, 0, &gone));
	assert_string_equal(ask(s, TIMES), "attune 12.0 ok 1 q1s1k;oracle 10.0 ok 1 q1s1k;");
	store_close(s);
	/* The seal is of these rows, too. */
	s = store_open(in_folder("compact.sqlite"), 0);
	assert_true(store_check(s));
	assert_true(store_query(s, "UPDATE bench SET median = median + 1", NULL, NULL));
	store_close(s);
	quiet();
	s = store_open(in_folder("compact.sqlite"), 1);
	const int sound = s && store_check(s);
	store_close(s);
	loud();
	assert_false(sound);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_learns_from_them),
		cmocka_unit_test(they_are_merged),
		cmocka_unit_test(compact_keeps_the_newest),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bench_rows", tests, make_folder, remove_folder);
}
