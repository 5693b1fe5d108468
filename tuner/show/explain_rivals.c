/* explain_rivals.c - for `attune show`: the pick for a part of a batch, and its fastest rivals
 * among the times that are comparable with the pick's. */
#include "explain.h"
#include "show.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A measured choice of a part: its cell in one pass, of the part or (is_whole) of the batch. */
struct part_cell {
	const struct cell *cell; /* NULL: no correct time */
	int is_whole;
	enum pass pass;
};

struct rival {
	int choice;
	struct part_cell part;
	double ratio; /* to the pick */
};

static int by_ratio(const void *pa, const void *pb)
{
	const struct rival *a = pa, *b = pb;
	if (a->ratio != b->ratio)
		return a->ratio < b->ratio ? -1 : 1;
	return a->choice - b->choice;
}

/* cells: of the part and of the whole batch. A batch of one phase may have its time in either. */
static struct part_cell cell_in(const struct why *w, enum pass pass, const struct cells cells[2])
{
	const struct measured *m = w->m;
	const int mixed = measured_is_mixed(m);
	for (int i = 0; i < 2 - mixed; i++)
		if (cells[i].of[pass] && cells[i].of[pass]->outcome == OUTCOME_OK)
			return (struct part_cell){ cells[i].of[pass], i, pass };
	return (struct part_cell){ NULL, 0, pass };
}

/* The cell of the second pass if it has one, else of the first. */
static struct part_cell cell_of(const struct why *w, enum phase phase, const struct choice *c)
{
	const int choice = c->kernel ? data_find(w->d, c) : -1;
	if (choice < 0)
		return (struct part_cell){ 0 };
	const struct cells cells[2] = { data_cells(w->d, w->scenario, phase, choice),
					data_cells(w->d, w->scenario, PHASE_ALL, choice) };
	const struct part_cell again = cell_in(w, PASS_B, cells);
	return again.cell ? again : cell_in(w, PASS_A, cells);
}

/* The choices with times comparable to the pick's, fastest first; returns their number. */
static int find_rivals(const struct why *w, enum phase phase, const struct part_cell *pick,
		       struct rival *v)
{
	struct choice_iter i = choices_of(w->d, w->scenario, phase, PHASE_ALL);
	int n = 0;
	while (choices_next(&i)) {
		struct rival *r = &v[n];
		*r = (struct rival){ .choice = i.choice, .part = cell_in(w, pick->pass, i.cells) };
		if (!r->part.cell || r->part.cell == pick->cell ||
		    r->part.is_whole != pick->is_whole)
			continue;
		r->ratio = cells_ratio(r->part.cell, pick->cell);
		n += !isnan(r->ratio);
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_ratio);
	return n;
}

static const char *pass_word(const struct part_cell *p)
{
	if (!p->cell)
		return NULL;
	return p->pass == PASS_A ? "A" : "B";
}

/* The time that a cell is compared by. */
static double us_of(const struct part_cell *p)
{
	return p->pass == PASS_B ? p->cell->median_us : p->cell->us;
}

/* Rows of a measured batch. The pick's ratio is to its fastest comparable rival, a rival's ratio to
 * the pick. If the pick was not measured, the fastest choice takes its place as the base. */
static void measured_rivals(const struct why *w, enum decision t, const struct choice *picked,
			    struct rival *v)
{
	const enum phase phase = decision_phase(t);
	struct part_cell pick = cell_of(w, phase, picked);
	char text[MAX_CHOICE_TEXT] = "nothing that runs here";
	const char *what = "picked";
	int choice;
	if (picked->kernel)
		choice_words(picked, text);
	if (!pick.cell) {
		why_row(w, decision_names[t], "picked", text, NAN, NAN, NULL);
		what = "rival";
		if (!isfinite(data_best(w->d, w->scenario, phase, &choice)))
			return;
		pick = cell_of(w, phase, &w->d->choice[choice]);
		choice_words(&w->d->choice[choice], text);
	}
	const int n = find_rivals(w, phase, &pick, v);
	double least = 1;
	for (int i = 0; i < n; i++)
		least = fmin(least, v[i].ratio);
	why_row(w, decision_names[t], what, text, us_of(&pick), us_of(&pick) * least,
		pass_word(&pick));
	for (int i = 0; i < n && i < RIVALS; i++) {
		const double us = us_of(&v[i].part);
		choice_words(&w->d->choice[v[i].choice], text);
		why_row(w, decision_names[t], "rival", text, us, us / v[i].ratio,
			pass_word(&v[i].part));
	}
}

/* Rows of a batch that was never measured: the choices of its nearest scenario, with estimates. */
static void estimated_rivals(const struct why *w, enum decision t, const struct choice *picked,
			     struct rival *v)
{
	const enum phase phase = decision_phase(t);
	const double best = why_best(w, phase);
	char text[MAX_CHOICE_TEXT] = "nothing that runs here";
	double far;
	const int at = around_nearest(w->around, phase, &far);
	int n = 0;
	if (picked->kernel)
		choice_words(picked, text);
	why_row(w, decision_names[t], "picked", text, why_time(w, phase, picked), best, NULL);
	for (int c = 0; at >= 0 && c < w->d->num_choices; c++) {
		const double us = data_part_time(w->d, at, phase, c);
		if (isfinite(us) && !choice_same(&w->d->choice[c], picked))
			v[n++] = (struct rival){ .choice = c, .ratio = us };
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_ratio);
	for (int i = 0; i < n && i < RIVALS; i++) {
		choice_words(&w->d->choice[v[i].choice], text);
		why_row(w, decision_names[t], "rival", text,
			why_time(w, phase, &w->d->choice[v[i].choice]), best, NULL);
	}
}

int why_rivals(const struct why *w, enum decision t)
{
	const struct choice *picked = t == DECIDE_DECODE ? &w->serial.decode : &w->serial.prefill;
	struct rival *v = malloc(sizeof *v * (size_t)(w->d->num_choices + 1));
	if (v && w->scenario >= 0)
		measured_rivals(w, t, picked, v);
	else if (v)
		estimated_rivals(w, t, picked, v);
	free(v);
	return v != NULL;
}
