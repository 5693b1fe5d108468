/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - opens and closes the SQLite database of all measurements.
 *
 * schema.sql defines the database, migrate.sql migrates an older one, merge.sql joins two.
 * While it is written a database is in WAL mode: each measurement is one committed transaction,
 * which a kill cannot undo and readers do not wait for. Closed, it is a single file again. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 9, MIGRATES = 8 /* a version that becomes VERSION */ };
enum { APPLICATION = 0x6174746e /* "attn" */ };

static int pragma(struct store *s, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int value = -1;
	if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		value = (int)store_int(s, st, 0, INT32_MIN, INT32_MAX);
	sqlite3_finalize(st);
	return value;
}

/* The version; 0: an empty file; -1 + complain: not an attune database. */
static int version_of(struct store *s)
{
	/* in this order: another process may be creating it */
	const int objects = pragma(s, "SELECT count(*) FROM sqlite_schema");
	const int version = pragma(s, "PRAGMA user_version");
	const int application = pragma(s, "PRAGMA application_id");
	if (objects < 0) /* the other two may be negative */
		return store_explain(s) - 1;
	if (application != APPLICATION && (objects || version)) {
		complain("%s: an SQLite database, but not one of attune's", s->path);
		return -1;
	}
	if (version < 0)
		return store_damaged(s, "its version is %d", version) - 1;
	if (version > VERSION) {
		complain("%s: has version %d, but this attune knows up to %d; update attune",
			 s->path, version, VERSION);
		return -1;
	}
	return version;
}

/* Creates the tables, or makes them of those of an older version, in one transaction: of two
 * processes that open a file, one does it, and a kill leaves the file as it was. */
static int create(struct store *s)
{
	char stamp[96];
	snprintf(stamp, sizeof stamp, "PRAGMA application_id = %d; PRAGMA user_version = %d",
		 APPLICATION, VERSION);
	if (store_number(s, BEGIN, "") < 0)
		return 0;
	const int version = version_of(s);
	const int made = version == 0          ? store_create(s)
			 : version == MIGRATES ? store_migrate(s)
					       : version == VERSION;
	const int ok = made && (store_execute(s, stamp) || store_explain(s));
	return store_number(s, ok ? COMMIT : ROLLBACK, "") == 0 && ok;
}

/* Foreign keys are off meanwhile: rows refer to tables that are not yet filled, and the names of
 * renamed tables stay in them. */
static int migrate(struct store *s)
{
	const int ok =
	    (store_execute(s, "PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = 1") ||
	     store_explain(s)) &&
	    create(s) && (store_execute(s, "VACUUM") || store_explain(s));
	if (ok)
		complain("%s: had version %d, and now has version %d", s->path, MIGRATES, VERSION);
	return ok && (store_execute(s, "PRAGMA legacy_alter_table = 0; PRAGMA foreign_keys = ON") ||
		      store_explain(s));
}

/* Another handle migrates the file: this one only reads. */
static int migrate_for(struct store *s)
{
	struct store *writer = store_open(s->path, 0);
	store_close(writer);
	return writer != NULL;
}

static int settle(struct store *s, int readonly)
{
	int version = version_of(s);
	if (version < 0)
		return 0;
	if (!readonly && sqlite3_db_readonly(s->db, "main") == 1) {
		complain("%s: cannot be written: the file or its folder is read-only", s->path);
		return 0;
	}
	if (version == MIGRATES) {
		if (!(readonly ? migrate_for(s) : migrate(s)))
			return 0;
		version = version_of(s);
	}
	if (version == VERSION)
		return store_schema_is_sound(s) && store_texts_are_sound(s);
	if (!version && !readonly)
		return create(s);
	if (!version)
		complain("%s: is empty", s->path);
	else
		complain("%s: has version %d, from before the first release; this attune reads %d: "
			 "measure again",
			 s->path, version, VERSION);
	return 0;
}

/* A writer that was killed leaves the database in WAL mode, or a journal that never counted. Nothing
 * is lost, but in a read-only folder such a database cannot be read. So the next process that opens
 * it for writing leaves a single file, even if it has nothing to write. */
static int tidy(struct store *s)
{
	sqlite3_stmt *st = NULL;
	char *journal = sqlite3_mprintf("%s-journal", s->path);
	const int is_wal =
	    sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW && !strcmp(store_text(s, st, 0), "wal");
	sqlite3_finalize(st);
	const int is_left = is_wal || (journal && !access(journal, F_OK));
	sqlite3_free(journal);
	return !is_left || store_enter_wal(s);
}

/* Refuses names for which SQLite opens no file: it would keep the database in memory, and what was
 * measured would be lost. Refuses a pipe and the like, too: SQLite would wait for its other end. */
static int is_a_file(const char *path)
{
	struct stat st;
	if (!*path || *path == ':' || !strncmp(path, "file:", 5)) {
		complain("\"%s\" is not a database file%s%s", path,
			 *path ? "; for a file of this name write ./" : "", path);
		return 0;
	}
	if (stat(path, &st) || S_ISREG(st.st_mode))
		return 1; /* absent: SQLite creates or refuses it */
	complain("%s: %s, not a database file", path,
		 S_ISDIR(st.st_mode)    ? "a folder"
		 : S_ISFIFO(st.st_mode) ? "a pipe"
					: "a device or socket");
	return 0;
}

struct store *store_open(const char *path, int readonly)
{
	if (!is_a_file(path))
		return NULL;
	struct store *s = calloc(1, sizeof *s);
	if (s) {
		s->stage = "race";
		s->readonly = readonly;
	}
	if (!s || !(s->path = strdup(path))) {
		complain("%s: out of memory", path);
		free(s);
		return NULL;
	}
	const int flags =
	    SQLITE_OPEN_NOMUTEX /* a handle is for one thread */ |
	    (readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK || !sqlite_harden(s->db) ||
	    sqlite3_busy_timeout(s->db, PATIENCE_MS) != SQLITE_OK ||
	    !store_execute(s, "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL"))
		store_explain(s);
	else if (settle(s, readonly) && (readonly || tidy(s)))
		return s;
	store_close(s);
	return NULL;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_forget(s);
	for (int i = 0; i < NUM_QUERIES; i++)
		sqlite3_finalize(s->st[i]);
	/* Fails while others have it open; the last to close succeeds. */
	if (s->wal) {
		sqlite3_busy_timeout(s->db, 0);
		store_execute(s, "PRAGMA journal_mode = DELETE");
	}
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

void store_remove(const char *path)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
	for (size_t i = 0; i < COUNT(ends); i++) {
		char *file = sqlite3_mprintf("%s%s", path, ends[i]);
		if (file)
			unlink(file);
		sqlite3_free(file);
	}
}
