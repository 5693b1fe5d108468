/* store_sound.c - checks that a database holds only what attune wrote: the values of its columns,
 * and the seal, a hash of its rows. */
#include "handle.h"
#include "store.h"
#include <string.h>

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
	s->changes = sqlite3_total_changes64(s->db); /* the seal covers these */
	return ok;
}

/* A seal covers all values; without one, each must be a value that attune writes. */
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
