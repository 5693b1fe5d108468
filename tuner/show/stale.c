/* stale.c - `attune show --stale`: counts the newest rows of a database that were measured with older
 * kernel sources. stale.sql has the counts. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scratch/scratch.h"
#include "harness/store/store.h"
#include "kernels/device/shared/gpu_names.h"
#include "tuner/base/base.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

EMBED(stale_tables, "tuner/show/stale.sql")

enum { MOST_ROWS = 20 };
static const char *const of_counts[] = { "kernel", "set",     "split",        "rows",
					 "stale",  "fastest", "rows_of_these" };
static const char *const of_rows[] = { "model",   "page_size", "batch", "phase",
				       "kernel",  "variant",   "pass",  "median_us",
				       "fastest", "set",       "split", "stale_rows_of_part" };

struct filling {
	struct scratch *t;
	int all; /* stale rows with the texts of the batch */
};

static int add_row(void *arg, const struct store_cell *c)
{
	const struct filling *f = arg;
	const char pass[] = { (char)c->pass, '\0' };
	const int ok = !strcmp(c->outcome, outcome_name(OUTCOME_OK));
	const int is_stale = c->today == STALE, listed = is_stale && f->all;
	return scratch_add(f->t, "cell", "isssssdisiss", (int)c->scenario_id, c->phase, pass,
			   c->kernel, c->set, c->split, ok ? c->median_us : NAN, is_stale,
			   listed ? c->model : NULL, c->page_size, listed ? c->batch : NULL,
			   listed ? c->choice : NULL);
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
	struct filling f = { .all = o->all };
	struct run_info run;
	char gpu[GPU_NAME];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(name), name);
	if (!source_root()) {
		complain(
		    "no kernel sources found to compare with; set ATTUNE_SOURCE to the kernels "
		    "folder");
		return EXIT_USAGE;
	}
	struct store *store = store_open(db, 1);
	int code = store ? EXIT_CHECK : EXIT_USAGE;
	if (store && store_device(store, gpu, &run) && (f.t = scratch_new(stale_tables)) &&
	    scratch_add(f.t, "device", "s", gpu) && store_each(store, gpu, add_row, &f) &&
	    print(f.t, o))
		code = EXIT_DONE;
	scratch_free(f.t);
	if (store)
		store_close(store);
	return code;
}
