/* SPDX-License-Identifier: Apache-2.0 */
/* store_sound.c - checks that a database holds only what attune wrote: the values of its columns,
 * its texts, and the seal, a hash of its rows. */
#include "handle.h"
#include "store.h"
#include "harness/base/text_rule.h"
#include <stdio.h>
#include <string.h>

/* ---- the seal ------------------------------------------------------------------------------- */
int store_seal(struct store *s)
{
	sqlite3_stmt *st = store_rows(s, SEALS, "");
	int ok = st != NULL;
	while (store_next(s, st, &ok)) {
		const long long device = store_int(s, st, 0, 1, INT64_MAX);
		char hash[33];
		ok = store_hash_device(s, device, 1, hash) &&
		     store_number(s, SEAL, "ls", device, hash) == 1;
	}
	s->changes = sqlite3_total_changes64(s->db); /* the seal covers these */
	return ok;
}

/* A seal covers all values; without one, each must be a value that attune writes. */
static int is_as_written(struct store *s, int has_seal)
{
	sqlite3_stmt *st = store_rows(s, SEALS, "");
	int ok = st != NULL;
	while (store_next(s, st, &ok)) {
		char sealed[33], hash[33];
		const long long device = store_int(s, st, 0, 1, INT64_MAX);
		if (!has_seal) {
			ok = store_can_read(s, device) && store_can_read_settled(s, device);
			continue;
		}
		store_copy(s, st, 1, sealed, sizeof sealed);
		ok = !s->is_damaged && store_hash_device(s, device, 1, hash) &&
		     (!strcmp(sealed, hash) ||
		      store_damaged(s, "its rows are not those that attune merge --compact left"));
	}
	return ok;
}

/* ---- the check ------------------------------------------------------------------------------ */
int store_finds_nothing(struct store *s, const char *pragma, const char *wrong)
{
	sqlite3_stmt *st = NULL;
	const int rc = sqlite3_prepare_v2(s->db, pragma, -1, &st, NULL) == SQLITE_OK
			   ? sqlite3_step(st)
			   : SQLITE_ERROR;
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
	if (!store_finds_nothing(s, "PRAGMA quick_check(1)", "%.*s"))
		return 0;
	const long long seals = store_number(s, COUNT_SEALS, "");
	return seals >= 0 &&
	       (seals || store_finds_nothing(s, "PRAGMA foreign_key_check",
					     "rows of '%.*s' refer to missing rows")) &&
	       is_as_written(s, seals > 0);
}

/* ---- texts ------------------------------------------------------------------------- */
/* Checks all texts of a database when it is opened, each by the rule of its column
 * (base/text_rule.h). What is read later can then be printed, and written to headers and pictures.
 * SQLite may read a text from an index in place of its table, so indices are compared with their
 * tables, too. */

/* All TEXT columns. */
static const struct column {
	const char *table, *name;
	enum text_rule rule;
} columns[] = {
	// clang-format off
	{ "device",      "gpu",       TEXT_WORD },
	{ "device",      "name",      TEXT_PRINTED },
	{ "device",      "arch",      TEXT_NAME },
	{ "device",      "machine",   TEXT_NAME },
	{ "run",         "uid",       TEXT_NAME },
	{ "run",         "card",      TEXT_NAME },
	{ "run",         "driver",    TEXT_PRINTED },
	{ "run",         "built",     TEXT_NAME },
	{ "run",         "compiled",  TEXT_NAME },
	{ "run",         "commit_id", TEXT_NAME },
	{ "run",         "sources",   TEXT_CHOICE },
	{ "run",         "toolkit",   TEXT_PRINTED },
	{ "run",         "protocol",  TEXT_NAME },
	{ "run",         "command",   TEXT_FREE },
	{ "run",         "started",   TEXT_NAME },
	{ "scenario",    "model",     TEXT_NAME },
	{ "scenario",    "batch",     TEXT_BATCH },
	{ "scenario",    "dtype",     TEXT_WORD },
	{ "scenario",    "kv_dtype",  TEXT_WORD },
	{ "scenario",    "layout",    TEXT_WORD },
	{ "scenario",    "set_name",  TEXT_FREE },
	{ "scenario",    "split",     TEXT_NAME },
	{ "phase",       "name",      TEXT_WORD },
	{ "family",      "kernel",    TEXT_WORD },
	{ "family",      "text",      TEXT_CHOICE },
	{ "variant",     "how",       TEXT_PRINTED },
	{ "code",        "sources",   TEXT_CHOICE },
	{ "build",       "arch",      TEXT_NAME },
	{ "build",       "flags",     TEXT_CHOICE },
	{ "stage",       "name",      TEXT_WORD },
	{ "stage",       "pass",      TEXT_WORD },
	{ "ending",      "outcome",   TEXT_WORD },
	{ "ending",      "stopped",   TEXT_NAME },
	{ "failure",     "detail",    TEXT_FREE },
	{ "ceiling",     "name",      TEXT_NAME },
	{ "ceiling",     "detail",    TEXT_CHOICE },
	{ "ceiling",     "unit",      TEXT_PRINTED },
	{ "bridge",      "kernel",    TEXT_WORD },
	{ "bridge",      "old",       TEXT_NAME },
	{ "bridge",      "new",       TEXT_NAME },
	{ "bridge",      "arch",      TEXT_NAME },
	{ "bridge",      "flags",     TEXT_CHOICE },
	{ "bridge",      "how",       TEXT_WORD },
	{ "bridge",      "gpu",       TEXT_WORD },
	{ "bridge",      "toolkit",   TEXT_PRINTED },
	{ "bridge",      "commit_id", TEXT_NAME },
	{ "bridge_race", "model",     TEXT_NAME },
	{ "bridge_race", "batch",     TEXT_BATCH },
	{ "bridge_race", "choice",    TEXT_CHOICE },
	{ "seal",        "hash",      TEXT_HEX },
	{ "basis",       "header",    TEXT_WORD },
	{ "basis",       "incumbent", TEXT_WORD },
	{ "basis",       "rules",     TEXT_LINES },
	{ "basis",       "prior",     TEXT_WORD },
	{ "bench",       "policy",    TEXT_NAME },
	{ "bench",       "plan",      TEXT_PRINTED },
	{ "bench",       "sources",   TEXT_CHOICE },
	{ "bench",       "outcome",   TEXT_WORD },
	{ "settled",     "protocol",  TEXT_NAME },
	{ "settled",     "kind",      TEXT_WORD },
	{ "settled",     "batch",     TEXT_BATCH },
	{ "settled_name", "text",     TEXT_PRINTED },
	{ "settled_name", "code",     TEXT_CHOICE },
	{ "settled_member", "way",    TEXT_NAME },
	{ "resources",   "gpu",       TEXT_WORD },
	{ "resources",   "arch",      TEXT_NAME },
	{ "resources",   "compiler",  TEXT_PRINTED },
	{ "resources",   "kernel",    TEXT_WORD },
	{ "resources",   "flags",     TEXT_CHOICE },
	{ "resources",   "source",    TEXT_CHOICE },
	{ "resources",   "outcome",   TEXT_WORD },
	{ "resources",   "why",       TEXT_FREE },
	// clang-format on
};

enum { SHOWN = 40, BEFORE = 16 /* bytes before the fault */ };

static int refuse(struct store *s, const struct column *c, sqlite3_stmt *st, size_t at)
{
	const char *text = (const char *)sqlite3_column_text(st, 1);
	return store_damaged(s, "table %s, column %s, row %s: \"%.*s\", byte %zu: it must be %s",
			     c->table, c->name, sqlite3_column_text(st, 0), SHOWN,
			     text ? text + (at > BEFORE ? at - BEFORE : 0) : "", at + 1,
			     text_rule_says(c->rule));
}

static int check_row(struct store *s, const struct column *c, sqlite3_stmt *st)
{
	const int type = sqlite3_column_type(st, 1);
	if (type == SQLITE_NULL)
		return 1;
	const char *text = (const char *)sqlite3_column_text(st, 1);
	const size_t n = (size_t)sqlite3_column_bytes(st, 1);
	const size_t at = text && type == SQLITE_TEXT ? text_fault(c->rule, text, n) : 0;
	return (text && type == SQLITE_TEXT && at == n) || refuse(s, c, st, at);
}

/* The SQL that names a row; four tables have no row ids. */
static const char *key_of(const char *table)
{
	return !strcmp(table, "failure")          ? "race || ' ' || variant"
	       : !strcmp(table, "bridge_race")    ? "bridge"
	       : !strcmp(table, "basis")          ? "device"
	       : !strcmp(table, "settled_member") ? "settled || ' ' || nr"
						  : "rowid";
}

/* Some tables are created with their first row. */
static int is_there(struct store *s, const struct column *c)
{
	return sqlite3_table_column_metadata(s->db, "main", c->table, c->name, NULL, NULL, NULL,
					     NULL, NULL) == SQLITE_OK;
}

static int check_column(struct store *s, const struct column *c)
{
	char sql[160];
	sqlite3_stmt *st = NULL;
	int rc, ok = 1;
	snprintf(sql, sizeof sql, "SELECT %s, %s FROM main.%s NOT INDEXED", key_of(c->table),
		 c->name, c->table);
	rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
	while (ok && rc != SQLITE_DONE && (rc = st ? sqlite3_step(st) : rc) == SQLITE_ROW)
		ok = check_row(s, c, st);
	if (ok && rc != SQLITE_DONE)
		ok = store_explain(s);
	sqlite3_finalize(st);
	return ok;
}

/* Without CHECK constraints: the functions that read those values say better what is wrong. */
static int indices_are_sound(struct store *s, const char *table)
{
	char sql[80];
	snprintf(sql, sizeof sql, "PRAGMA main.integrity_check('%s')", table);
	return (store_execute(s, "PRAGMA ignore_check_constraints = 1") || store_explain(s)) &&
	       store_finds_nothing(s, sql, "%.*s") &&
	       (store_execute(s, "PRAGMA ignore_check_constraints = 0") || store_explain(s));
}

int store_texts_are_sound(struct store *s)
{
	const char *table = ""; /* the last one */
	int ok = 1;
	for (const struct column *c = columns; ok && c < columns + COUNT(columns); c++) {
		if (!is_there(s, c))
			continue;
		ok = check_column(s, c) &&
		     (!strcmp(c->table, table) || indices_are_sound(s, c->table));
		table = c->table;
	}
	return ok;
}
