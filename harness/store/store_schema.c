/* SPDX-License-Identifier: Apache-2.0 */
/* store_schema.c - creates today's tables, makes them of those of version 8, and checks that a
 * database has them, and no trigger, view or virtual table of others. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include <string.h>

EMBED(store_schema_sql, "harness/store/schema.sql")
EMBED(store_migrate_sql, "harness/store/migrate.sql")

/* Tables that are created with their first row. */
EMBED(store_basis_sql, "harness/store/basis.sql")
EMBED(store_bench_sql, "harness/store/bench.sql")
EMBED(store_resources_sql, "harness/store/resources.sql")
EMBED(store_settled_sql, "harness/store/settled.sql")

int store_create(struct store *s)
{
	return store_execute(s, store_schema_sql) || store_explain(s);
}

/* The next character that is neither blank nor in a comment; 0 at the end. */
static char next(const char **sql)
{
	const char *c = *sql;
	for (;;)
		if (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')
			c++;
		else if (c[0] == '-' && c[1] == '-')
			c += strcspn(c, "\n");
		else
			break;
	*sql = c + !!*c;
	return *c;
}

static int says_the_same(const char *a, const char *b)
{
	char x, y;
	do {
		x = next(&a);
		y = next(&b);
	} while (x == y && x);
	return x == y;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	return sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK ? st : NULL;
}

/* Created with its first row. */
static int may_be_missing(const char *name)
{
	static const char *const names[] = { "basis",   "bench",          "resources",
					     "settled", "settled_member", "settled_name" };
	size_t i = 0;
	while (i < COUNT(names) && strcmp(name, names[i]))
		i++;
	return i < COUNT(names);
}

/* model: names and SQL of the required tables, views and indices; found: SQL by name. */
static int compare(struct store *s, sqlite3_stmt *model, sqlite3_stmt *found)
{
	int rc, ok = 1;
	while (ok && (rc = sqlite3_step(model)) == SQLITE_ROW) {
		const char *name = store_text(s, model, 0);
		sqlite3_reset(found);
		ok = sqlite3_bind_text(found, 1, name, -1, SQLITE_TRANSIENT) == SQLITE_OK;
		rc = ok ? sqlite3_step(found) : SQLITE_ERROR;
		if (rc != SQLITE_ROW && rc != SQLITE_DONE)
			return store_explain(s);
		if (rc == SQLITE_DONE && may_be_missing(name))
			continue;
		if (rc == SQLITE_DONE)
			return store_damaged(s, "its version has '%.40s', which is missing", name);
		if (!says_the_same(store_text(s, found, 0), store_text(s, model, 1)))
			return store_damaged(s, "'%.40s' differs from that of its version", name);
	}
	return ok && rc == SQLITE_DONE;
}

/* Today's tables in memory; NULL + complain. */
static sqlite3 *open_model(struct store *s)
{
	const char *const sql[] = { store_schema_sql, store_basis_sql, store_bench_sql,
				    store_resources_sql, store_settled_sql };
	sqlite3 *model = NULL;
	int ok = sqlite3_open(":memory:", &model) == SQLITE_OK && sqlite_harden(model);
	for (size_t i = 0; ok && i < COUNT(sql); i++)
		ok = sqlite3_exec(model, sql[i], NULL, NULL, NULL) == SQLITE_OK;
	if (ok)
		return model;
	complain("%s: its tables cannot be compared: %s", s->path, sqlite3_errmsg(model));
	sqlite3_close(model);
	return NULL;
}

/* Tables, views and indices are as in the model, except for comments and blanks. */
static int is_like(struct store *s, sqlite3 *db)
{
	sqlite3_stmt *model =
	    prepare(db, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
	sqlite3_stmt *found = prepare(s->db, "SELECT sql FROM sqlite_schema WHERE name = ?1");
	const int ok = model && found ? compare(s, model, found) : store_explain(s);
	sqlite3_finalize(model);
	sqlite3_finalize(found);
	return ok;
}

/* The name is from the file. With a quote in it the command would end early in a shell, so it is
 * not printed. */
static int refuse_foreign(struct store *s, const char *type, const char *name)
{
	char *drop = sqlite3_mprintf("sqlite3 FILE 'DROP %s \"%w\";'", type, name);
	complain("%s: it has the %s '%.60s', which is not attune's and could run SQL of its own; "
		 "remove it: %s",
		 s->path, type, name, drop && !strchr(name, '\'') ? drop : "DROP it in sqlite3");
	sqlite3_free(drop);
	return 0;
}

/* Tables and indices of others run nothing and may stay. */
static int runs_nothing(struct store *s, sqlite3 *db)
{
	sqlite3_stmt *ours =
	    prepare(db, "SELECT 1 FROM sqlite_schema WHERE type = ?1 AND name = ?2");
	sqlite3_stmt *st =
	    prepare(s->db, "SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', "
			   "'view') OR (type = 'table' AND (rootpage = 0 OR sql LIKE "
			   "'%virtual%'))");
	int rc = SQLITE_ERROR, ok = 1;
	while (ok && ours && st && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *type = store_text(s, st, 0), *name = store_text(s, st, 1);
		sqlite3_reset(ours);
		sqlite3_bind_text(ours, 1, type, -1, SQLITE_TRANSIENT);
		sqlite3_bind_text(ours, 2, name, -1, SQLITE_TRANSIENT);
		ok = !s->is_damaged &&
		     (sqlite3_step(ours) == SQLITE_ROW || refuse_foreign(s, type, name));
	}
	if (ok && rc != SQLITE_DONE)
		ok = store_explain(s);
	sqlite3_finalize(ours);
	sqlite3_finalize(st);
	return ok;
}

int store_schema_is_sound(struct store *s)
{
	sqlite3 *model = open_model(s);
	const int ok = model && runs_nothing(s, model) && is_like(s, model);
	sqlite3_close(model);
	return ok;
}

/* ---- migration ------------------------------------------------------------------------------ */
/* Version 8 without its views, and with the tables that change under other names. */
static const char set_aside[] =
    "DROP VIEW noise; DROP VIEW failures; DROP VIEW regret; DROP VIEW best; DROP VIEW fastest;"
    "DROP VIEW confirmed; DROP VIEW timings; DROP VIEW newest; DROP VIEW history;"
    "ALTER TABLE choice RENAME TO old_choice; ALTER TABLE race RENAME TO old_race;"
    "ALTER TABLE measurement RENAME TO old_measurement;"
    "ALTER TABLE reading RENAME TO old_reading; ALTER TABLE control RENAME TO old_control;";
static const char bench_times[] =
    "UPDATE bench SET (median, ci) = (max(1, round(median / 1e3)), round(ci / 1e3))";

int store_migrate(struct store *s)
{
	sqlite3 *model = open_model(s);
	const int has_bench = store_has_bench(s);
	const long long seals = store_number(s, COUNT_SEALS, "");
	const int known = model && has_bench >= 0 && seals >= 0 && runs_nothing(s, model);
	sqlite3_close(model);
	if (!known || !store_name_functions(s))
		return 0;
	/* our SQL is right, so an error means that tables or values are not those of version 8 */
	if (!store_execute(s, set_aside) || !store_execute(s, store_schema_sql) ||
	    !store_execute(s, store_migrate_sql) || (has_bench && !store_execute(s, bench_times)))
		return (sqlite3_errcode(s->db) & 0xff) == SQLITE_ERROR ||
			       (sqlite3_errcode(s->db) & 0xff) == SQLITE_CONSTRAINT
			   ? store_damaged(s, "its tables are not those of version 8: %s",
					   sqlite3_errmsg(s->db))
			   : store_explain(s);
	return store_schema_is_sound(s) && store_texts_are_sound(s) &&
	       store_finds_nothing(s, "PRAGMA foreign_key_check",
				   "rows of '%.*s' refer to missing rows") &&
	       (!seals || store_seal(s));
}
