/* store_values.c - reads the columns of a row. A value that attune does not write is damage, which
 * is reported once per handle. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int store_damaged(struct store *s, const char *format, ...)
{
	char what[320];
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
	return s->is_damaged || s->is_unclear;
}

/* ---- columns ---------------------------------------------------------------------------- */
static void refuse(struct store *s, sqlite3_stmt *st, int column)
{
	store_damaged(s, "column '%.40s' of a row holds a value that attune does not write",
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
