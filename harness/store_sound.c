/* store_sound.c - whether a database holds what attune wrote: its tables, the values of its
 * columns, and the seal of its content. */
#include "store.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int store_damaged(struct store *s, const char *format, ...)
{
	char what[200];
	va_list ap;
	va_start(ap, format);
	vsnprintf(what, sizeof what, format, ap);
	va_end(ap);
	if (!s->is_damaged)
		complain("%s: damaged: %s; take the file from the last commit or a copy", s->path,
			 what);
	s->is_damaged = 1;
	return 0;
}

int store_is_damaged(const struct store *s)
{
	return s->is_damaged;
}

/* ---- columns ---------------------------------------------------------------------------- */
static void refuse(struct store *s, sqlite3_stmt *st, int column)
{
	store_damaged(s, "column '%.40s' of a row holds what attune does not write",
		      sqlite3_column_name(st, column));
}

const char *store_text(struct store *s, sqlite3_stmt *st, int column)
{
	const char *text = sqlite3_column_type(st, column) == SQLITE_TEXT
			       ? (const char *)sqlite3_column_text(st, column)
			       : NULL;
	if (text && strlen(text) == (size_t)sqlite3_column_bytes(st, column))
		return text;
	refuse(s, st, column);
	return "";
}

void store_copy(struct store *s, sqlite3_stmt *st, int column, char *to, size_t size)
{
	if ((size_t)snprintf(to, size, "%s", store_text(s, st, column)) >= size)
		refuse(s, st, column);
}

long long store_int(struct store *s, sqlite3_stmt *st, int column, long long lo, long long hi)
{
	const long long v = sqlite3_column_int64(st, column);
	if (sqlite3_column_type(st, column) == SQLITE_INTEGER && v >= lo && v <= hi)
		return v;
	refuse(s, st, column);
	return lo;
}

double store_real(struct store *s, sqlite3_stmt *st, int column, double lo, double hi)
{
	const int type = sqlite3_column_type(st, column);
	const double v = sqlite3_column_double(st, column);
	if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && v >= lo && v <= hi)
		return v;
	refuse(s, st, column);
	return NAN;
}

double store_maybe(struct store *s, sqlite3_stmt *st, int column, double lo, double hi)
{
	return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN
							      : store_real(s, st, column, lo, hi);
}

const unsigned char *store_blob(struct store *s, sqlite3_stmt *st, int column, int *bytes)
{
	const unsigned char *blob =
	    sqlite3_column_type(st, column) == SQLITE_BLOB ? sqlite3_column_blob(st, column) : NULL;
	*bytes = blob ? sqlite3_column_bytes(st, column) : 0;
	if (!blob)
		refuse(s, st, column);
	return blob;
}

/* ---- tables ------------------------------------------------------------------------------- */
/* The next character of SQL that is neither blank nor in a comment; 0 at the end. */
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

/* model: name and SQL of what has to be there; found: SQL by that name. */
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
		if (rc == SQLITE_DONE)
			return store_damaged(s, "'%.40s' is missing, which its version has", name);
		if (!says_the_same(store_text(s, found, 0), store_text(s, model, 1)))
			return store_damaged(s, "'%.40s' is not as its version has it", name);
	}
	return ok && rc == SQLITE_DONE;
}

int store_has_tables(struct store *s, const char *schema)
{
	sqlite3 *empty = NULL;
	int ok = sqlite3_open(":memory:", &empty) == SQLITE_OK &&
		 sqlite3_exec(empty, schema, NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_stmt *model =
	    ok ? prepare(empty, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL") : NULL;
	sqlite3_stmt *found = prepare(s->db, "SELECT sql FROM sqlite_schema WHERE name = ?1");
	if (!model)
		complain("%s: its tables cannot be compared: %s", s->path, sqlite3_errmsg(empty));
	else if (!found)
		store_explain(s);
	ok = model && found && compare(s, model, found);
	sqlite3_finalize(model);
	sqlite3_finalize(found);
	sqlite3_close(empty);
	return ok;
}

/* ---- the seal ------------------------------------------------------------------------------- */
int store_seal(struct store *s)
{
	sqlite3_stmt *st = store_rows(s, SEALS, "");
	int rc = st ? SQLITE_ROW : SQLITE_ERROR, ok = st != NULL;
	while (ok && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const long long device = store_int(s, st, 0, 1, INT64_MAX);
		char hash[33];
		ok = store_hash_device(s, device, 1, hash) &&
		     store_number(s, SEAL, "ls", device, hash) == 1;
	}
	if (ok && rc != SQLITE_DONE)
		ok = store_explain(s);
	sqlite3_reset(st);
	s->changes = sqlite3_total_changes64(s->db); /* the seal is of these */
	return ok;
}

/* A seal covers all values; without one, they must be such as attune writes. */
static int is_as_written(struct store *s, int has_seal)
{
	sqlite3_stmt *st = store_rows(s, SEALS, "");
	int rc = st ? SQLITE_ROW : SQLITE_ERROR, ok = st != NULL;
	while (ok && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		char sealed[33], hash[33];
		const long long device = store_int(s, st, 0, 1, INT64_MAX);
		if (!has_seal) {
			ok = store_can_read(s, device);
			continue;
		}
		store_copy(s, st, 1, sealed, sizeof sealed);
		ok = !s->is_damaged && store_hash_device(s, device, 1, hash) &&
		     (!strcmp(sealed, hash) ||
		      store_damaged(s, "its rows are not those that attune merge --compact left"));
	}
	if (ok && rc != SQLITE_DONE)
		ok = store_explain(s);
	sqlite3_reset(st);
	return ok;
}

/* ---- all of it -------------------------------------------------------------------------------- */
/* What a PRAGMA finds wrong is its first row; none, or "ok": nothing. */
static int finds_nothing(struct store *s, const char *pragma, const char *wrong)
{
	sqlite3_stmt *st = prepare(s->db, pragma);
	const int rc = st ? sqlite3_step(st) : SQLITE_ERROR;
	const char *found = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
	int ok = rc == SQLITE_DONE || (found && !strcmp(found, "ok"));
	if (!ok && rc == SQLITE_ROW)
		store_damaged(s, wrong, found ? (int)strcspn(found, "\n") : 0, found ? found : "");
	else if (!ok)
		store_explain(s);
	sqlite3_finalize(st);
	return ok;
}

int store_check(struct store *s)
{
	if (!finds_nothing(s, "PRAGMA quick_check(1)", "%.*s"))
		return 0;
	const long long seals = store_number(s, COUNT_SEALS, "");
	return seals >= 0 &&
	       (seals || finds_nothing(s, "PRAGMA foreign_key_check",
				       "rows of '%.*s' name what is not there")) &&
	       is_as_written(s, seals > 0);
}
