/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - tables in memory, filled by C and asked in SQL. */
#include "scratch.h"
#include "harness/base/base.h"
#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 64 };

struct scratch {
	sqlite3 *db;
	sqlite3_stmt *insert; /* into the table of the last scratch_add */
	char table[64];
	int failed; /* a row is missing: all queries fail */
};

int sqlite_harden(sqlite3 *db)
{
	return sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) == SQLITE_OK &&
	       sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) == SQLITE_OK;
}

struct scratch *scratch_new(const char *schema)
{
	struct scratch *s = calloc(1, sizeof *s);
	if (!s || sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE, NULL) ||
	    !sqlite_harden(s->db))
		complain("tables in memory: out of memory");
	else if (scratch_also(s, schema))
		return s;
	scratch_free(s);
	return NULL;
}

int scratch_also(struct scratch *s, const char *schema)
{
	const int done = !sqlite3_exec(s->db, schema, NULL, NULL, NULL);
	if (!done)
		complain("tables in memory: %s", sqlite3_errmsg(s->db));
	return done;
}

int scratch_attach(struct scratch *s, const char *path, const char *as)
{
	char *sql = sqlite3_mprintf("ATTACH %Q AS %s", path, as);
	const int done = sql && !sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	if (!done)
		complain("%s: %s", path, sqlite3_errmsg(s->db));
	sqlite3_free(sql);
	return done;
}

struct pairs {
	struct scratch_pair *v;
	int n, room;
};

static void take_pair(sqlite3_context *c, int n, sqlite3_value **value)
{
	struct pairs *p = sqlite3_aggregate_context(c, sizeof *p);
	(void)n;
	if (!p || sqlite3_value_type(value[0]) == SQLITE_NULL)
		return;
	if (!array_grow(&p->v, p->n, &p->room, sizeof *p->v)) {
		sqlite3_result_error_nomem(c);
		return;
	}
	p->v[p->n++] =
	    (struct scratch_pair){ sqlite3_value_double(value[0]), sqlite3_value_int64(value[1]) };
}

static void answer_pairs(sqlite3_context *c)
{
	struct pairs *p = sqlite3_aggregate_context(c, 0);
	if (p && p->n) {
		scratch_aggregate *answer = sqlite3_user_data(c);
		const double v = (*answer)(p->v, p->n);
		if (isfinite(v))
			sqlite3_result_double(c, v);
	}
	if (p)
		free(p->v);
}

int scratch_also_aggregate(struct scratch *s, const char *name, scratch_aggregate answer)
{
	scratch_aggregate *kept = malloc(sizeof *kept);
	if (kept)
		*kept = answer;
	if (kept && !sqlite3_create_function_v2(
			s->db, name, 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, kept,
			NULL, take_pair, answer_pairs, free))
		return 1;
	complain("tables in memory: out of memory");
	return 0;
}

void scratch_free(struct scratch *s)
{
	if (!s)
		return;
	sqlite3_finalize(s->insert);
	sqlite3_close(s->db);
	free(s);
}

static int prepare_insert(struct scratch *s, const char *table, int n)
{
	char sql[64 + 64 + 2 * MAX_VALUES];
	if (!strcmp(s->table, table))
		return 1;
	int at = snprintf(sql, sizeof sql, "INSERT INTO %s VALUES(?", table);
	for (int i = 1; i < n; i++)
		at += snprintf(sql + at, sizeof sql - (size_t)at, ",?");
	snprintf(sql + at, sizeof sql - (size_t)at, ")");
	sqlite3_finalize(s->insert);
	s->insert = NULL;
	snprintf(s->table, sizeof s->table, "%s", table);
	if (!sqlite3_prepare_v2(s->db, sql, -1, &s->insert, NULL))
		return 1;
	s->table[0] = '\0';
	return 0;
}

/* Returns a code of SQLite. */
static int bind(struct scratch *s, int i, char type, va_list *ap)
{
	if (type == 'i')
		return sqlite3_bind_int(s->insert, i, va_arg(*ap, int));
	if (type == 's')
		return sqlite3_bind_text(s->insert, i, va_arg(*ap, const char *), -1,
					 SQLITE_TRANSIENT);
	const double v = va_arg(*ap, double);
	return isfinite(v) ? sqlite3_bind_double(s->insert, i, v) : sqlite3_bind_null(s->insert, i);
}

int scratch_add(struct scratch *s, const char *table, const char *types, ...)
{
	va_list ap;
	if (s->failed)
		return 0;
	int done = prepare_insert(s, table, (int)strlen(types));
	va_start(ap, types);
	for (int i = 0; done && types[i]; i++)
		done = bind(s, i + 1, types[i], &ap) == SQLITE_OK;
	va_end(ap);
	done = done && sqlite3_step(s->insert) == SQLITE_DONE;
	if (!done)
		complain("tables in memory: %s: %s", table, sqlite3_errmsg(s->db));
	s->failed = !done;
	sqlite3_reset(s->insert);
	return done;
}

/* 0: the caller wants no more rows, or no memory. */
static int tell(sqlite3_stmt *stmt, int statement, scratch_row row, void *arg)
{
	struct scratch_value v[MAX_VALUES];
	const int n =
	    sqlite3_column_count(stmt) < MAX_VALUES ? sqlite3_column_count(stmt) : MAX_VALUES;
	for (int i = 0; i < n; i++) {
		const int type = sqlite3_column_type(stmt, i);
		v[i] = (struct scratch_value){
			.name = sqlite3_column_name(stmt, i),
			.text =
			    type == SQLITE_TEXT ? (const char *)sqlite3_column_text(stmt, i) : NULL,
			.real = sqlite3_column_double(stmt, i),
			.integer = sqlite3_column_int64(stmt, i),
			.is_null = type == SQLITE_NULL,
			.is_real = type == SQLITE_FLOAT,
		};
		if (!v[i].name || (type == SQLITE_TEXT && !v[i].text)) {
			complain("tables in memory: out of memory");
			return 0;
		}
	}
	return row(arg, statement, v, n);
}

int scratch_ask(struct scratch *s, const char *name, const char *sql, scratch_row row, void *arg)
{
	if (s->failed)
		return 0;
	int code = sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL), going = 1;
	for (int statement = 0; *sql && code == SQLITE_OK && going;) {
		sqlite3_stmt *stmt;
		code = sqlite3_prepare_v2(s->db, sql, -1, &stmt, &sql);
		if (code != SQLITE_OK || !stmt)
			continue;
		while (going && (code = sqlite3_step(stmt)) == SQLITE_ROW)
			going = tell(stmt, statement, row, arg);
		statement += sqlite3_column_count(stmt) > 0;
		code = sqlite3_finalize(stmt);
	}
	if (code != SQLITE_OK)
		complain("%s: %s", name, sqlite3_errmsg(s->db));
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return code == SQLITE_OK && going;
}
