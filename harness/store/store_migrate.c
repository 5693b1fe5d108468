/* store_migrate.c - checks that a database has today's tables, and no trigger, view or virtual
 * table of others; migrates earlier versions: renames the old tables, creates new ones by
 * schema.sql, copies the rows by migrate_rows.sql. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/scratch/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EMBED(store_schema_sql, "harness/store/schema.sql")

/* Tables that are created with their first row. */
EMBED(store_basis_sql, "harness/store/basis.sql")
EMBED(store_resources_sql, "harness/store/resources.sql")
EMBED(store_migrate_aside_sql, "harness/store/migrate_aside.sql")
EMBED(store_migrate_rows_sql, "harness/store/migrate_rows.sql")

/* Added by version 2; version 1 had only the stage race, and no controls. */
static const char add_version_2[] =
    "ALTER TABLE scenario ADD COLUMN steps REAL NOT NULL DEFAULT 0;"
    "ALTER TABLE measurement ADD COLUMN stage TEXT NOT NULL DEFAULT 'race';"
    "CREATE TABLE control (run INTEGER, scenario INTEGER, phase TEXT, variant INTEGER, stage TEXT,"
    " median_us REAL, ratio REAL) STRICT;";
/* Added by version 4. */
static const char add_version_4[] =
    "CREATE TABLE ceiling (run INTEGER, name TEXT, detail TEXT, value REAL, unit TEXT) STRICT;";

/* The steps of a migration, and the versions that need them. */
static const struct {
	int first, last;
	const char *sql;
} steps[] = {
	{ 1, 1, add_version_2 },           { 1, 3, add_version_4 },
	{ 1, 5, store_migrate_aside_sql }, { 0, 5, store_schema_sql },
	{ 1, 5, store_migrate_rows_sql },
};

static void sql_digest(sqlite3_context *to, int n, sqlite3_value **v)
{
	const char *kernel = (const char *)sqlite3_value_text(v[0]);
	const char *text = (const char *)sqlite3_value_text(v[1]);
	(void)n;
	if (kernel && text)
		sqlite3_result_int64(to, store_choice_digest(kernel, strlen(kernel), text));
}

struct named_source {
	const char *kernel, *identity;
};

static int by_kernel(const void *a, const void *b)
{
	const struct named_source *x = a, *y = b;
	const int order = strcmp(x->kernel, y->kernel);
	return order ? order : strcmp(x->identity, y->identity);
}

/* In the form of table `code`: sorted, each source once. */
static void sources_text(char text[CODE_TEXT], const struct legacy_source *part[2], int parts)
{
	struct named_source v[2 * COUNT(part[0]->binary)];
	size_t n = 0, at = 0;
	for (int p = 0; p < parts; p++)
		for (size_t i = 0; i + 1 < COUNT(part[p]->binary) && part[p]->binary[i]; i += 2)
			v[n++] =
			    (struct named_source){ part[p]->binary[i], part[p]->binary[i + 1] };
	qsort(v, n, sizeof *v, by_kernel);
	for (size_t i = 0; i < n && at < CODE_TEXT; i++)
		if (!i || by_kernel(&v[i - 1], &v[i]))
			at += (size_t)snprintf(text + at, CODE_TEXT - at, "%s%s:%s", i ? " " : "",
					       v[i].kernel, v[i].identity);
}

static void sql_code(sqlite3_context *to, int n, sqlite3_value **v)
{
	char text[CODE_TEXT];
	const struct legacy_source *part[2];
	const char *old = (const char *)sqlite3_value_text(v[0]);
	const int parts = legacy_sources(old ? old : "", part);
	(void)n;
	if (parts)
		sources_text(text, part, parts);
	else
		snprintf(text, sizeof text, "text:%s", old && *old ? old : "none");
	sqlite3_result_text(to, text, -1, SQLITE_TRANSIENT);
}

int store_functions(struct store *s)
{
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
	return sqlite3_create_function(s->db, "choice_digest", 2, flags, NULL, sql_digest, NULL,
				       NULL) == SQLITE_OK &&
	       sqlite3_create_function(s->db, "old_code", 1, flags, NULL, sql_code, NULL, NULL) ==
		   SQLITE_OK;
}

/* Earlier versions stored rates; today bytes and operations are stored. */
static int fill_work(struct store *s)
{
	const struct dict *d = store_dict(s, 0);
	char error[200];
	int ok = d != NULL;
	for (long long i = 0; ok && i < d->scenarios; i++) {
		const struct store_cell *c = &d->scenario[i].cell;
		struct batch *b = batch_parse(c->batch, error, sizeof error);
		ok = b && store_work(s, c->scenario_id, &c->shape, &b->view);
		if (!b)
			complain("%s: scenario %lld, batch '%s': %s", s->path, c->scenario_id,
				 c->batch, error);
		if (b)
			batch_free(b);
	}
	store_forget(s);
	return ok;
}

/* Our SQL is right, so an SQL error means that tables are missing. */
static int explain(struct store *s, int from)
{
	return sqlite3_errcode(s->db) == SQLITE_ERROR
		   ? store_damaged(s, "its tables are not those of version %d", from)
		   : store_explain(s);
}

int store_migrate(struct store *s, int from)
{
	int ok = 1;
	for (size_t i = 0; ok && i < COUNT(steps); i++)
		if (from >= steps[i].first && from <= steps[i].last)
			ok = store_execute(s, steps[i].sql) || explain(s, from);
	return ok && (!from || fill_work(s));
}

/* ---- today's tables ---------------------------------------------------------------------- */
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
	return !strcmp(name, "basis") || !strcmp(name, "resources");
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
	const char *const sql[] = { store_schema_sql, store_basis_sql, store_resources_sql };
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

/* Tables and indices of others run nothing and may stay. Views of earlier versions have the names
 * of today's. */
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

int store_schema_is_sound(struct store *s, int is_current)
{
	sqlite3 *model = open_model(s);
	const int ok = model && runs_nothing(s, model) && (!is_current || is_like(s, model));
	sqlite3_close(model);
	return ok;
}
