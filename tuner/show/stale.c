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

struct printing {
	struct table *t;
	const char *gpu;
	enum format format;
	int most, n; /* rows to print, rows */
};

static void print_totals(const struct printing *p, const struct scratch_value *v)
{
	if (!format_for_people(p->format))
		return;
	show_note(p->format, "%s: %lld of %lld rows were measured with older kernel sources",
		  p->gpu, v[0].integer, v[1].integer);
	show_note(p->format,
		  "fastest: parts of batches with a stale fastest time, %lld in all; "
		  "rows_of_these: their "
		  "stale rows, %lld in all",
		  v[2].integer, v[3].integer);
}

/* Statement 0 answers with the totals, statement 1 with the rows of the table. */
static int print_answer(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct printing *p = arg;
	if (!statement)
		print_totals(p, v);
	if (!statement || p->n++ >= p->most)
		return 1;
	for (int i = 0; i < columns; i++)
		if (v[i].text && !strcmp(v[i].name, "batch"))
			batch_cell(p->t, v[i].text, p->format);
		else if (v[i].text || v[i].is_null)
			table_text(p->t, v[i].text);
		else
			table_number(p->t, v[i].real, v[i].is_real ? 3 : 0);
	table_end_row(p->t);
	return 1;
}

static int print(struct scratch *t, const char *gpu, const struct show *o)
{
	struct printing p = { .gpu = gpu,
			      .format = o->format,
			      .most =
				  format_for_people(o->format) && !o->all ? MOST_ROWS : INT_MAX };
	char sql[400];
	snprintf(sql, sizeof sql,
		 "CREATE TEMP TABLE counted AS SELECT * FROM counts;"
		 "SELECT sum(stale), sum(rows), sum(fastest), sum(rows_of_these) FROM counted;"
		 "SELECT * FROM %s",
		 o->all ? "listed" : "counted WHERE stale");
	p.t = o->all ? table_new(o->format, of_rows, COUNT(of_rows))
		     : table_new(o->format, of_counts, COUNT(of_counts));
	const int done = scratch_ask(t, "stale.sql", sql, print_answer, &p);
	if (p.t)
		table_print(p.t, stdout);
	if (done && p.n > p.most)
		show_note(o->format, "%d more in tsv, csv and json; --all lists each cell",
			  p.n - p.most);
	return done;
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
	    store_each(store, gpu, add_row, &f) && print(f.t, gpu, o))
		code = EXIT_DONE;
	scratch_free(f.t);
	if (store)
		store_close(store);
	return code;
}
