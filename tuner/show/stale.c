/* SPDX-License-Identifier: Apache-2.0 */
/* stale.c - `attune show --stale`: counts the newest rows of a database that were measured with older
 * kernel sources. stale.sql has the counts. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scratch/scratch.h"
#include "harness/store/store.h"
#include "kernels/device/shared/gpu_names.h"
#include "tuner/data/data.h"
#include <limits.h>
#include <stdio.h>

EMBED(stale_tables, "tuner/show/stale.sql")

enum { MOST_ROWS = 20 };
static const char *const of_counts[] = { "kernel", "set",     "split",        "rows",
					 "stale",  "fastest", "rows_of_these" };
static const char *const of_rows[] = { "model",   "page_size", "batch", "phase",
				       "kernel",  "variant",   "pass",  "median_us",
				       "fastest", "set",       "split", "stale_rows_of_part" };

static int add_old(void *arg, const struct store_use *u)
{
	char source[160];
	snprintf(source, sizeof source, " %s:%s ", u->kernel, u->identity);
	return scratch_add(arg, "old", "sss", source, u->arch, u->flags);
}

static int print(struct scratch *t, const struct show *o)
{
	const int most = format_for_people(o->format) && !o->all ? MOST_ROWS : INT_MAX;
	char sql[200];
	snprintf(sql, sizeof sql,
		 "CREATE TABLE counted AS SELECT * FROM counts; SELECT * FROM totals;"
		 "SELECT * FROM %s",
		 o->all ? "listed" : "counted WHERE stale");
	struct table *table = o->all ? table_new(o->format, of_rows, COUNT(of_rows))
				     : table_new(o->format, of_counts, COUNT(of_counts));
	const int n = show_answer(t, "stale.sql", sql, table, o->format, most);
	if (n > most)
		show_note(o->format, "%d more in tsv, csv and json; --all lists each cell",
			  n - most);
	return n >= 0;
}

int show_stale(const char *db, const char *name, const struct show *o)
{
	struct scratch *t = NULL;
	char gpu[GPU_NAME];
	int code = EXIT_USAGE;
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(name), name);
	if (!source_root()) {
		complain(
		    "no kernel sources found to compare with; set ATTUNE_SOURCE to the kernels "
		    "folder");
		return EXIT_USAGE;
	}
	struct store *store = store_open(db, 1);
	if (store) {
		t = scratch_new("CREATE TABLE old(source, arch, flags)");
		code = t && data_attach(t, db, "measured", gpu) &&
			       store_uses(store, gpu, add_old, t) &&
			       scratch_also(t, stale_tables) && print(t, o)
			   ? EXIT_DONE
			   : EXIT_CHECK;
	}
	scratch_free(t);
	store_close(store);
	return code;
}
