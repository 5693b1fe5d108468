/* diff_cells.c - lists the cells whose time or outcome changed from one database to another. */
#include "diff.h"
#include "show.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct change {
	int scenario; /* of the first */
	enum phase phase;
	int choice; /* of the first */
	const struct cell *was, *is;
	double ratio; /* NaN: an outcome changed */
};

struct changes {
	struct change *v;
	int n, both, only[2];
	double logs;
	int timed;
};

static struct choice_iter row_choices(const struct data *d, int row)
{
	const enum phase phase = (enum phase)(row % NUM_PHASES);
	return choices_of(d, row / NUM_PHASES, phase, phase);
}

static int find_key(const struct data *d, const char *key)
{
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].key, key))
			return s;
	return -1;
}

/* Whether two times differ by more than their intervals and the A/A noise floors of both databases
 * explain. */
static int moved(const struct data *const d[2], const struct cell *a, const struct cell *b)
{
	const double seen =
	    hypot(isfinite(a->ci_us) ? a->ci_us : 0, isfinite(b->ci_us) ? b->ci_us : 0);
	const double least =
	    fmax(data_noise(d[0], a->median_us), data_noise(d[1], a->median_us)) * a->median_us;
	return fabs(a->median_us - b->median_us) > fmax(seen, least);
}

static void compare_cell(struct changes *c, const struct data *const d[2], int s, enum phase phase,
			 int choice, const struct cell *was, const struct cell *is)
{
	const int ok[2] = { was->outcome == OUTCOME_OK, is->outcome == OUTCOME_OK };
	const double ratio = ok[0] && ok[1] ? is->median_us / was->median_us : NAN;
	c->both++;
	if (isfinite(ratio))
		c->logs += log(ratio), c->timed++;
	if (isfinite(ratio) ? moved(d, was, is) : was->outcome != is->outcome)
		c->v[c->n++] = (struct change){ s, phase, choice, was, is, ratio };
}

static int count_cells(const struct data *d)
{
	int n = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++) {
		struct choice_iter i = row_choices(d, r);
		while (choices_next(&i))
			n += cells_of_pass(d, &i.cells[0]) != NULL;
	}
	return n;
}

static int compare_data(struct changes *out, const struct data *a, const struct data *b)
{
	const struct data *const both[2] = { a, b };
	const int cells[2] = { count_cells(a), count_cells(b) };
	*out = (struct changes){ .v = malloc(sizeof *out->v * (size_t)(cells[0] + 1)) };
	int *to = malloc(sizeof *to * (size_t)(a->num_choices + 1));
	for (int c = 0; out->v && to && c < a->num_choices; c++)
		to[c] = data_find(b, &a->choice[c]);
	for (int s = 0; out->v && to && s < a->n; s++) {
		const int other = find_key(b, a->v[s].key);
		for (int p = 0; other >= 0 && p < NUM_PHASES; p++) {
			struct choice_iter i = row_choices(a, s * NUM_PHASES + p);
			while (choices_next(&i)) {
				const struct cell *was = cells_of_pass(a, &i.cells[0]);
				const struct cell *is =
				    to[i.choice] < 0
					? NULL
					: data_cell(b, other, (enum phase)p, to[i.choice]);
				if (was && is)
					compare_cell(out, both, s, (enum phase)p, i.choice, was,
						     is);
			}
		}
	}
	out->only[0] = cells[0] - out->both;
	out->only[1] = cells[1] - out->both;
	const int done = out->v && to;
	free(to);
	return done;
}

/* Order: changed outcomes first, then by size of the change. */
static int by_size(const void *pa, const void *pb)
{
	const struct change *a = pa, *b = pb;
	const double x = isfinite(a->ratio) ? fabs(log(a->ratio)) : INFINITY;
	const double y = isfinite(b->ratio) ? fabs(log(b->ratio)) : INFINITY;
	if (x != y)
		return x > y ? -1 : 1;
	if (a->scenario != b->scenario)
		return a->scenario - b->scenario;
	return a->phase != b->phase ? (int)a->phase - (int)b->phase : a->choice - b->choice;
}

static void print_changes(const struct changes *c, const struct data *d, enum format format)
{
	const char *columns[] = { "model", "page_size", "batch",  "phase", "choice",
				  "was",   "is",        "was_us", "is_us", "ratio" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	for (int i = 0; t && i < c->n; i++) {
		const struct change *x = &c->v[i];
		const struct measured *m = &d->v[x->scenario];
		char words[MAX_CHOICE_TEXT];
		choice_words(&d->choice[x->choice], words);
		table_text(t, m->model);
		table_number(t, m->shape.page_size, 0);
		table_text(t, m->batch_text);
		table_text(t, phase_name((int)x->phase));
		table_text(t, words);
		table_text(t, outcome_name(x->was->outcome));
		table_text(t, outcome_name(x->is->outcome));
		table_number(t, x->was->median_us, 3);
		table_number(t, x->is->median_us, 3);
		table_number(t, x->ratio, 3);
		table_end_row(t);
	}
	if (t)
		table_print(t, stdout);
}

int diff_cells(const struct data *a, const struct data *b, enum format format)
{
	struct changes c = { 0 };
	const int done = compare_data(&c, a, b);
	if (done && c.n)
		qsort(c.v, (size_t)c.n, sizeof *c.v, by_size);
	if (done && format_has_notes(format))
		printf("# %d cells in both, %d changed beyond noise (floors %.1f, %.1f, %.1f %%), "
		       "geomean ratio %.4f; only in A %d, only in B %d\n",
		       c.both, c.n, 100 * fmax(a->noise.floor[0], b->noise.floor[0]),
		       100 * fmax(a->noise.floor[1], b->noise.floor[1]),
		       100 * fmax(a->noise.floor[2], b->noise.floor[2]),
		       c.timed ? exp(c.logs / c.timed) : 1.0, c.only[0], c.only[1]);
	if (done)
		print_changes(&c, a, format);
	free(c.v);
	return done;
}
