/* diff_cells.c - lists the cells whose time or outcome changed from one database to another.
 * diff_cells.sql compares them. */
#include "diff.h"
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

EMBED(diff_tables, "tuner/show/diff_cells.sql")

static int add_choices(struct scratch *t, const struct data *d, int db)
{
	char words[MAX_CHOICE_TEXT];
	int done = 1;
	for (int c = 0; done && c < d->num_choices; c++) {
		choice_words(&d->choice[c], words);
		done = scratch_add(t, "choice", "iis", db, c, words);
	}
	return done;
}

static int add_scenarios(struct scratch *t, const struct data *d, int db)
{
	int done = 1;
	for (int s = 0; done && s < d->n; s++)
		done = scratch_add(t, "scenario", "iissis", db, s, d->v[s].key, d->v[s].model,
				   d->v[s].shape.page_size, d->v[s].batch_text);
	return done;
}

static int add_cells(struct scratch *t, const struct data *const d[2], int db)
{
	int done = 1;
	for (int row = 0; row < d[db]->n * NUM_PHASES; row++) {
		const enum phase phase = (enum phase)(row % NUM_PHASES);
		struct choice_iter i = choices_of(d[db], row / NUM_PHASES, phase, phase);
		while (done && choices_next(&i)) {
			const struct cell *c = cells_of_pass(d[db], &i.cells[0]);
			const double us = c && c->outcome == OUTCOME_OK ? c->median_us : NAN;
			done = !c ||
			       scratch_add(t, "cell", "iisisddd", db, row / NUM_PHASES,
					   phase_name(phase), i.choice, outcome_name(c->outcome),
					   us, c->ci_us,
					   fmax(data_noise(d[0], us), data_noise(d[1], us)) * us);
		}
	}
	return done;
}

int diff_cells(const struct data *a, const struct data *b, enum format format)
{
	static const char *const columns[] = { "model", "page_size", "batch",  "phase", "choice",
					       "was",   "is",        "was_us", "is_us", "ratio" };
	const struct data *const both[2] = { a, b };
	const double *x = a->noise.floor, *y = b->noise.floor;
	struct scratch *t = scratch_new(diff_tables);
	const int done =
	    t && add_choices(t, a, 0) && add_choices(t, b, 1) && add_scenarios(t, a, 0) &&
	    add_scenarios(t, b, 1) && add_cells(t, both, 0) && add_cells(t, both, 1) &&
	    scratch_add(t, "floors", "ddd", 100 * fmax(x[0], y[0]), 100 * fmax(x[1], y[1]),
			100 * fmax(x[2], y[2])) &&
	    show_answer(t,
			"CREATE TABLE pair AS SELECT * FROM paired;"
			"SELECT * FROM totals; SELECT * FROM changes",
			table_new(format, columns, COUNT(columns)), format, INT_MAX) >= 0;
	scratch_free(t);
	return done;
}
