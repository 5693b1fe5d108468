/* SPDX-License-Identifier: Apache-2.0 */
/* training_matrix.c - which scenarios and choices the prefill and the decode tree learn from. Rows
 * are training scenarios with a time in pass A; columns are choices that some row has tried. */
#include "matrix.h"
#include "harness/scenario/scenario.h"
#include <math.h>
#include <stdlib.h>

/* WIDE_COVERAGE: if this percentage of the rows where a kernel is legal has tried it, the others are
 * dropped. MIN_COVERAGE: a formula becomes a column if its concrete choice was measured in this
 * percentage of the rows where it is legal. */
enum { WIDE_COVERAGE = 90, MIN_COVERAGE = 80 };

/* The same data seen through pass A, from which trees learn. */
static struct data first_pass(const struct data *d)
{
	struct data first = *d;
	first.pass = PASS_A;
	return first;
}

static int is_row(const struct data *d, int scenario, enum phase phase)
{
	int choice;
	const struct measured *m = &d->v[scenario];
	return data_is_training(m) && !split_is_overlap(m->split) && m->has[phase] &&
	       isfinite(data_best(d, scenario, phase, &choice));
}

static int was_tried(const struct data *d, int scenario, enum phase phase, int choice)
{
	return isfinite(data_part_time(d, scenario, phase, choice)) ||
	       part_failed(d, scenario, phase, choice);
}

/* The same for a concrete choice, given its cells of the phase and of PHASE_ALL. */
static int cells_tried(const struct data *d, int scenario, const struct cells of[2])
{
	const struct cell *part = cells_of_pass(d, &of[0]);
	return (part && part->outcome != OUTCOME_OK) || isfinite(cells_part_time(d, scenario, of));
}

/* The choices of one kernel. */
struct range {
	int first, end;
};

/* Whether some choice of the kernel is legal there, and whether one was tried. */
static void find_tries(const struct data *d, int scenario, enum phase phase, struct range k,
		       int *legal, int *tried)
{
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	*legal = *tried = 0;
	while (!*tried && choices_next(&i))
		if (i.choice >= k.first && i.choice < k.end)
			*tried = cells_tried(d, scenario, i.cells);
	*legal = *tried;
	for (int c = k.first; !*legal && c < k.end; c++)
		*legal = data_legal(d, scenario, phase, c);
}

/* Drops rows that have not tried a kernel which nearly all others have: their best choice is not
 * known. Without this, batches that a new kernel has not run yet would count against it. */
static void drop_untried(const struct data *d, struct matrix *m, enum phase phase, struct range k,
			 signed char *untried)
{
	int legal, tried, could = 0, did = 0, kept = 0;
	for (int r = 0; r < m->rows; r++) {
		find_tries(d, m->scenario[r], phase, k, &legal, &tried);
		untried[r] = (signed char)(legal && !tried);
		could += legal;
		did += tried;
	}
	if (100 * did < WIDE_COVERAGE * could)
		return;
	for (int r = 0; r < m->rows; r++)
		if (!untried[r])
			m->scenario[kept++] = m->scenario[r];
	m->rows = kept;
}

static int drop_all_untried(const struct data *d, struct matrix *m, enum phase phase)
{
	signed char *untried = malloc((size_t)m->rows + 1);
	struct range k = { 0, 0 };
	for (; untried && k.first < d->num_choices; k.first = k.end) {
		const struct choice *first = &d->choice[k.first];
		while (k.end < d->num_choices && d->choice[k.end].kernel == first->kernel)
			k.end++;
		if (first->kernel->selectable && !choice_overlaps(first))
			drop_untried(d, m, phase, k, untried);
	}
	free(untried);
	return untried != NULL;
}

/* Which rows have tried what. */
struct trials {
	char *tried;     /* [num_choices] some row has */
	char *in_part;   /* [rows][num_choices / 8 + 1] bits: under the part's own phase */
	char *of_family; /* [rows][num_families] some member */
	int *rows;       /* [num_families] number of rows */
};

static char *trial_bits(const struct data *d, const struct trials *t, int row)
{
	return t->in_part + (size_t)row * ((size_t)d->num_choices / 8 + 1);
}

static char *trial_families(const struct data *d, const struct trials *t, int row)
{
	return t->of_family + (size_t)row * (size_t)d->num_families;
}

static void note_row(const struct data *d, int row, int scenario, enum phase phase,
		     struct trials *t)
{
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	while (choices_next(&i)) {
		const struct cells part[2] = { i.cells[0], { { NULL } } };
		const int family = d->family_of[i.choice];
		const int tried = cells_tried(d, scenario, i.cells);
		if (cells_tried(d, scenario, part))
			trial_bits(d, t, row)[i.choice / 8] |= (char)(1 << i.choice % 8);
		if (tried && family >= 0)
			trial_families(d, t, row)[family] = 1;
		t->tried[i.choice] |= (char)tried;
	}
	for (int f = 0; f < d->num_families; f++)
		t->rows[f] += trial_families(d, t, row)[f];
}

static int trials_open(struct trials *t, const struct data *d, const struct matrix *m,
		       enum phase phase)
{
	const size_t rows = (size_t)m->rows + 1, families = (size_t)d->num_families + 1;
	*t = (struct trials){ .tried = calloc((size_t)d->num_choices + 1, 1),
			      .in_part = calloc(rows, (size_t)d->num_choices / 8 + 1),
			      .of_family = calloc(rows, families),
			      .rows = calloc(families, sizeof *t->rows) };
	if (!t->tried || !t->in_part || !t->of_family || !t->rows)
		return 0;
	for (int r = 0; r < m->rows; r++)
		note_row(d, r, m->scenario[r], phase, t);
	return 1;
}

static void trials_close(struct trials *t)
{
	free(t->tried);
	free(t->in_part);
	free(t->of_family);
	free(t->rows);
}

/* Whether a choice with a formula was tried in a row, where it stands for the choice `means`. */
static int meaning_tried(const struct data *d, const struct matrix *m, enum phase phase, int choice,
			 const struct trials *t, int row, int means)
{
	return (trial_bits(d, t, row)[means / 8] >> means % 8 & 1) ||
	       was_tried(d, m->scenario[row], phase, choice);
}

/* Whether a formula's concrete choice was measured in nearly all rows where it is legal: otherwise
 * its costs would be guesses. Rows that have not tried the family come first: they can only count
 * against it, and for most formulas a few of them decide. */
static int is_known(const struct data *d, const struct matrix *m, enum phase phase, int choice,
		    const struct trials *t)
{
	const int family = d->family_of[choice];
	int legal = 0, known = 0, left = t->rows[family];
	for (int tried = 0; tried < 2; tried++)
		for (int r = 0; r < m->rows; r++) {
			if (trial_families(d, t, r)[family] != tried)
				continue;
			left -= tried;
			const int s = m->scenario[r];
			const int means = data_concrete(d, s, phase, choice);
			legal += data_legal(d, s, phase, choice);
			known +=
			    tried && means >= 0 && meaning_tried(d, m, phase, choice, t, r, means);
			if (100 * (known + left) < MIN_COVERAGE * (legal + left))
				return 0;
		}
	return legal > 0;
}

/* All choices that were tried, but helper kernels, plug-ins and those of the overlap decision. 0
 * without memory. */
static int list_columns(const struct data *d, struct matrix *m, enum phase phase)
{
	struct trials t;
	const int done = trials_open(&t, d, m, phase);
	for (int c = 0; done && c < d->num_columns; c++) {
		const struct choice *choice = &d->choice[c];
		const int is_formula = c >= d->num_choices;
		if ((!is_formula && !t.tried[c]) || !choice->kernel->selectable ||
		    choice->kernel->plugin || choice_overlaps(choice))
			continue;
		if (!is_formula || is_known(d, m, phase, c, &t))
			m->choice[m->cols++] = c;
	}
	trials_close(&t);
	return done;
}

struct matrix *matrix_parts(const struct data *all, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	const struct data first = first_pass(all), *d = &first;
	struct matrix *m = matrix_new(d->n, d->num_columns);
	if (!m)
		return NULL;
	m->rows = m->cols = 0;
	for (int s = 0; s < d->n; s++)
		if (is_row(d, s, phase))
			m->scenario[m->rows++] = s;
	int done = drop_all_untried(d, m, phase) && list_columns(d, m, phase);
	if (done && matrix_fill_rows(d, m, phase))
		return m;
	matrix_free(m);
	return NULL;
}
