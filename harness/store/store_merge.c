/* SPDX-License-Identifier: Apache-2.0 */
/* store_merge.c - joins databases, and reduces one to the form that is committed to git. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

EMBED(store_merge_sql, "harness/store/merge.sql")
EMBED(store_compact_sql, "harness/store/compact.sql")

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
	if (!store_enter_wal(s))
		return 0;
	char *attach = sqlite3_mprintf("ATTACH %Q AS src", path);
	int ok = (attach && store_execute(s, attach)) || store_explain(s);
	sqlite3_free(attach);
	if (!ok)
		return 0;
	ok = store_begin(s);
	if (ok) {
		const long long before = store_number(s, COUNT_ROWS, "");
		ok = before >= 0 && (store_execute(s, store_merge_sql) || store_explain(s)) &&
		     store_merge_basis(s) && store_merge_bench(s) && store_merge_settled(s);
		*added = ok ? store_number(s, COUNT_ROWS, "") - before : 0;
		ok = store_end(s, ok && *added >= 0);
	}
	store_forget(s);
	return (store_execute(s, "DETACH src") || store_explain(s)) && ok;
}

/* ---- the committed form --------------------------------------------------------------------- */
/* Whether all sources of a build can be compared with today's. A kernel that this tool does not
 * have, such as a plug-in's, may be another tool's today. */
static int is_comparable(const struct dict *d, const struct dict_build *b)
{
	const enum backend backend = strcmp(d->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	const char *sources = b->sources;
	struct built_source one;
	char today[33];
	while (next_source(&sources, &one)) {
		const struct kernel *k = kernel_find(backend, one.kernel);
		if (!k || !source_identity(k, today))
			return 0;
	}
	return 1;
}

static int add_stale_builds(struct store *s, long long device)
{
	const struct dict *d = store_dict(s, device);
	int ok = d != NULL;
	for (long long id = 1; ok && id < d->builds; id++) {
		const struct dict_build *b = &d->build[id];
		if (b->sources && b->today == STALE && !strcmp(b->arch, d->arch) &&
		    is_comparable(d, b))
			ok = store_number(s, ADD_STALE, "ll", device, id) == 0;
	}
	return ok;
}

/* With SEGMENTS=fitted a choice stands for all numbers of segments. */
static int name_choice(struct store *s, const char *kernel, const char *text)
{
	char pattern[MAX_PART_TEXT];
	const char *fitted = strstr(text, " SEGMENTS=fitted");
	snprintf(pattern, sizeof pattern, "%s %.*s%s", kernel,
		 fitted ? (int)(fitted - text) : (int)strlen(text), text,
		 fitted ? " SEGMENTS=*" : "");
	return store_number(s, ADD_NAMED, "s", pattern) == 0;
}

static int name_config(struct store *s, const struct kernel *k, const struct config *c)
{
	char text[MAX_CHOICE_TEXT];
	config_text(text, sizeof text, c, k->space);
	return name_choice(s, k->name, text);
}

/* Lists in temp.named, for compact.sql, patterns of the choices of which all times stay: those that a
 * header names, and that are a kernel's default. */
static int list_named(struct store *s)
{
	struct config c;
	int ok = store_execute(s, "CREATE TEMP TABLE named (pattern TEXT PRIMARY KEY)") ||
		 store_explain(s);
	for (int i = 0; i < attune_num_selectors; i++)
		for (int k = 0; ok && k < attune_selectors[i].num_choices; k++)
			ok = name_choice(s, attune_selectors[i].choices[k].kernel,
					 attune_selectors[i].choices[k].text);
	for (const struct kernel *k = attune_kernels; ok && k->name; k++) {
		if (!k->selectable)
			continue;
		config_default(&c, k->space);
		ok = name_config(s, k, &c);
	}
	return ok;
}

/* Lists in temp.specific, for compact.sql, the kernels that only one architecture runs: portable rules
 * name none of them. */
static int list_specific(struct store *s)
{
	int ok = store_execute(s, "CREATE TEMP TABLE specific (kernel TEXT PRIMARY KEY)") ||
		 store_explain(s);
	for (const struct kernel *k = attune_kernels; ok && k->name; k++)
		if (k->space->is_arch_specific)
			ok = store_number(s, ADD_SPECIFIC, "s", k->name) == 0;
	return ok;
}

/* Table temp.light, for compact.sql, has a row if the database has fewer measurements than `light`. */
static int is_light(struct store *s, long long light)
{
	char sql[128];
	snprintf(
	    sql, sizeof sql,
	    "CREATE TEMP TABLE light AS SELECT 1 WHERE (SELECT count(*) FROM measurement) < %lld",
	    light);
	return store_execute(s, sql) || store_explain(s);
}

/* Lists the builds of older sources in table temp.stale, for compact.sql. */
static int list_stale(struct store *s)
{
	const int made = store_execute(s, "CREATE TEMP TABLE stale (device INTEGER, build INTEGER, "
					  "PRIMARY KEY (device, build))") ||
			 store_explain(s);
	sqlite3_stmt *st = made ? store_rows(s, SEALS, "") : NULL;
	int ok = st != NULL;
	while (store_next(s, st, &ok))
		ok = add_stale_builds(s, store_int(s, st, 0, 1, INT64_MAX));
	return ok;
}

/* The number of rows that compact.sql drops. */
static int count(struct store *s, const char *sql, long long *n)
{
	sqlite3_stmt *st = NULL;
	const int ok = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK &&
		       sqlite3_step(st) == SQLITE_ROW;
	*n = ok ? store_int(s, st, 0, 0, INT64_MAX) : 0;
	sqlite3_finalize(st);
	return ok || store_explain(s);
}

int store_compact(struct store *s, long long light, struct compacted *gone)
{
	gone->knows_sources = source_root() != NULL;
	if (!store_begin(s))
		return 0;
	int ok =
	    list_stale(s) && list_named(s) && list_specific(s) && is_light(s, light) &&
	    store_compact_bench(s) &&
	    count(s, "SELECT count(*) FROM superseded", &gone->superseded) &&
	    count(s,
		  "SELECT count(*) FROM measurement AS m JOIN race AS c ON c.id = m.race "
		  "JOIN run AS r ON r.id = c.run WHERE r.sources IN ('modified', 'unknown')",
		  &gone->modified) &&
	    count(s, "SELECT count(*) FROM sample", &gone->samples) &&
	    count(s,
		  "SELECT count(*) FROM reading AS g JOIN race AS c ON c.id = g.race JOIN run AS r "
		  "ON r.id = c.run WHERE r.protocol NOT LIKE '%-steady'",
		  &gone->readings) &&
	    (store_execute(s, store_compact_sql) || store_explain(s)) &&
	    count(s, "SELECT count(*) FROM temp.outdated WHERE NOT stays", &gone->stale) &&
	    count(s, "SELECT count(*) FROM temp.outdone", &gone->outdone) &&
	    (store_execute(s,
			   "DROP TABLE temp.outdated; DROP TABLE temp.stale; "
			   "DROP TABLE temp.benched; DROP TABLE temp.timed; "
			   "DROP TABLE temp.near; DROP TABLE temp.outdone; DROP TABLE temp.named; "
			   "DROP TABLE temp.specific; DROP TABLE temp.light") ||
	     store_explain(s));
	store_forget(s);
	ok = store_end(s, ok && store_seal(s));
	return ok && (store_execute(s, "VACUUM") || store_explain(s));
}
