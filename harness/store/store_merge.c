/* store_merge.c - joins databases, and reduces one to the form that is committed to git. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

EMBED(store_merge_sql, "harness/store/merge.sql")
EMBED(store_compact_sql, "harness/store/compact.sql")

static int same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether `path` is a sound database of this version. */
static int is_readable(const char *path)
{
	struct store *other = store_open(path, 1);
	const int ok = other && store_check(other);
	if (other)
		store_close(other);
	return ok;
}

int store_merge(struct store *s, const char *path, long long *added)
{
	*added = 0;
	if (!is_readable(path))
		return 0;
	if (same_file(s->path, path)) {
		complain("%s: cannot be merged into itself", path);
		return 0;
	}
	char *attach = sqlite3_mprintf("ATTACH %Q AS src", path);
	if (!attach || !store_enter_wal(s) || !store_execute(s, attach)) {
		sqlite3_free(attach);
		return store_explain(s);
	}
	sqlite3_free(attach);
	int ok = store_begin(s);
	if (ok) {
		const long long before = store_number(s, COUNT_ROWS, "");
		ok = before >= 0 && (store_execute(s, store_merge_sql) || store_explain(s)) &&
		     store_merge_basis(s);
		*added = ok ? store_number(s, COUNT_ROWS, "") - before : 0;
		ok = store_end(s, ok && *added >= 0);
	}
	store_forget(s);
	return (store_execute(s, "DETACH src") || store_explain(s)) && ok;
}

/* Rows that compact.sql drops, counted before it runs. */
static int count(struct store *s, const char *sql, long long *n)
{
	sqlite3_stmt *st = NULL;
	const int ok = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK &&
		       sqlite3_step(st) == SQLITE_ROW;
	*n = ok ? store_int(s, st, 0, 0, INT64_MAX) : 0;
	sqlite3_finalize(st);
	return ok || store_explain(s);
}

int store_compact(struct store *s, struct compacted *gone)
{
	if (!store_begin(s))
		return 0;
	int ok =
	    count(s, "SELECT count(*) FROM measurement WHERE newest = 0", &gone->superseded) &&
	    count(s,
		  "SELECT count(*) FROM measurement AS m JOIN race AS c ON c.id = m.race "
		  "JOIN run AS r ON r.id = c.run WHERE r.sources IN ('modified', 'unknown')",
		  &gone->modified) &&
	    count(s, "SELECT count(*) FROM sample", &gone->samples) &&
	    count(s,
		  "SELECT count(*) FROM reading AS g JOIN race AS c ON c.id = g.race JOIN run AS r "
		  "ON r.id = c.run WHERE r.protocol NOT LIKE '%-steady'",
		  &gone->readings) &&
	    (store_execute(s, store_compact_sql) || store_explain(s));
	store_forget(s);
	ok = store_end(s, ok && store_seal(s));
	return ok && (store_execute(s, "VACUUM") || store_explain(s));
}
