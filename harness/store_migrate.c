/* store_migrate.c - brings a database of an earlier version to today's schema. Its tables step
 * aside, schema.sql makes new ones, migrate_rows.sql copies the rows. */
#include "legacy_sources.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>

EMBED(store_schema_sql, "harness/schema.sql")

EMBED(store_migrate_1_sql, "harness/migrate_1.sql")
EMBED(store_migrate_3_sql, "harness/migrate_3.sql")
EMBED(store_migrate_aside_sql, "harness/migrate_aside.sql")
EMBED(store_migrate_rows_sql, "harness/migrate_rows.sql")

/* A step, and the versions that take it. */
static const struct {
	int first, last;
	const char *sql;
} steps[] = {
	{ 1, 1, store_migrate_1_sql },     { 1, 3, store_migrate_3_sql },
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

/* As table `code` has it: sorted, each once. */
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

/* Earlier versions kept rates; today's keep what they follow from. */
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

/* SQL of ours is right; what it does not find is not there. */
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

int store_is_current(struct store *s)
{
	return store_has_tables(s, store_schema_sql);
}
