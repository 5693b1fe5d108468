/* SPDX-License-Identifier: Apache-2.0 */
/* t_ceilings.c - ceilings of a device in the results database: rows come back as they went in,
 * bad rows are refused whole, and databases older than the table work as before. */
#include <stdio.h>
#include "tests/store/store_fixture.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"

struct listed {
	char text[400];
	int n, stop_at;
};

static int list_ceiling(void *arg, const struct ceiling *c)
{
	struct listed *l = arg;
	char row[120];
	snprintf(row, sizeof row, "%s %s %g %s;", c->name, c->detail, c->value, c->unit);
	strcat(l->text, row);
	return ++l->n != l->stop_at;
}

static const struct ceiling some_ceilings[] = {
	{ "read", "path=async kib=64 blocks=132", "GB/s", 4586 },
	{ "cold", "mib=0.5 path=loads kib=64 blocks=132", "us", 1.75 },
};

/* Those of the newest run that has any, in the order of measurement. */
static void ceilings(void **state)
{
	(void)state;
	struct store *s = fresh("ceilings.sqlite"), *other;
	struct listed l = { .n = 0 }, none = { .n = 0 }, first = { .stop_at = 1 };
	long long added;
	assert_int_equal(store_each_ceiling(s, "h200", list_ceiling, &none), 1);
	assert_int_equal(store_ceilings(s, store_begin_run(s, &h200), some_ceilings, 1), 1);
	assert_int_equal(store_ceilings(s, store_begin_run(s, &h200), some_ceilings, 2), 1);
	assert_true(store_begin_run(s, &h200) > 0); /* one that measures no ceilings */
	assert_int_equal(store_each_ceiling(s, "h200", list_ceiling, &l), 1);
	assert_string_equal(l.text, "read path=async kib=64 blocks=132 4586 GB/s;"
				    "cold mib=0.5 path=loads kib=64 blocks=132 1.75 us;");
	assert_int_equal(store_each_ceiling(s, "h200", list_ceiling, &first), 1);
	assert_int_equal(first.n, 1);
	assert_int_equal(store_each_ceiling(s, "h100", list_ceiling, &none), 1);
	assert_int_equal(none.n, 0);
	store_close(s);

	other = fresh("others.sqlite"); /* merged twice, they are there once */
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_merge(other, in_folder("ceilings.sqlite"), &added), 1);
	assert_string_equal(ask(other, "SELECT count(*), count(DISTINCT run) FROM ceiling"),
			    "3 2;");
	store_close(other);
}

static void bad_ceilings(void **state)
{
	static const struct ceiling bad[] = {
		{ "read", "kib=64", "GB/s", 0 },        { "read", "kib=64", "GB/s", NAN },
		{ "read", "kib=64", "GB/s", INFINITY }, { "read", "kib=64", "MB/s", 10 },
		{ "", "kib=64", "GB/s", 10 },
	};
	(void)state;
	struct store *s = fresh("bad_ceilings.sqlite");
	const long long run = store_begin_run(s, &h200);
	for (size_t i = 0; i < COUNT(bad); i++) {
		const struct ceiling both[] = { some_ceilings[0], bad[i] };
		quiet();
		const int stored = store_ceilings(s, run, both, 2);
		assert_int_equal(loud(), 1);
		assert_int_equal(stored, 0);
	}
	assert_string_equal(ask(s, "SELECT count(*) FROM ceiling"), "0;");
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(ceilings),
		cmocka_unit_test(bad_ceilings),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("ceilings", t, make_folder, remove_folder);
}
