/* SPDX-License-Identifier: Apache-2.0 */
/* same_schema.h - compares the schema of a database with that of a new one. */
#ifndef TESTS_STORE_SAME_SCHEMA_H
#define TESTS_STORE_SAME_SCHEMA_H

#include <stdio.h>
#include "store_fixture.h"

static int keep_long(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	snprintf(arg, 40000, "%s", cells[0]);
	return 1;
}

static void long_text(struct store *s, const char *sql, char text[40000])
{
	assert_true(store_query(s, sql, keep_long, text));
}

static void same_schema(struct store *s)
{
	static const char all[] = "SELECT group_concat(sql, '') FROM (SELECT sql FROM "
				  "sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name)";
	char schema[2][40000];
	struct store *t = fresh("new.sqlite");
	long_text(s, all, schema[0]);
	long_text(t, all, schema[1]);
	assert_string_equal(schema[0], schema[1]);
	store_close(t);
	assert_string_equal(ask(s, "PRAGMA user_version"), "9;");
	assert_string_equal(ask(s, "PRAGMA foreign_key_check"), "");
	assert_string_equal(ask(s, "PRAGMA integrity_check"), "ok;");
	assert_string_equal(ask(s, "PRAGMA foreign_keys"), "1;");
}

#endif
