/* plot_paper.c - the ladder and prefill pictures, to compare with the figures published for
 * vLLM's Triton kernels (arXiv 2511.11581). */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "tuner/compare/ladder.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LADDER = 64, SHARES = 3, ROWS = 3, NUM_PANELS = ROWS * SHARES, TUNED_RUNG = 4 };

/* ---- ladder: rows of panels by length (few sequences), by length (many), by their number - */
struct step {
	double x;
	struct climb climb;
};

static int by_x(const void *a, const void *b)
{
	const double x = ((const struct step *)a)->x, y = ((const struct step *)b)->x;
	return (x > y) - (x < y);
}

/* The x of a batch in that row of panels; 0: it is not in the row. */
static double place_in(int row, const struct uniform *u)
{
	switch (row) {
	case 0: return is_few(u) ? u->length : 0;
	case 1: return u->seqs == FIGURE_SEQS ? u->length : 0;
	default: return u->length == figure_lengths[0] ? u->seqs : 0;
	}
}

/* One block: x, then the time of each rung. */
static int panel_print(const struct ladder *l, const char *model, int panel, FILE *rows,
		       struct range *x, struct range *us, int *seen)
{
	struct step *step = malloc(sizeof *step * MAX_LADDER);
	struct uniform u;
	int n = 0;
	for (int s = 0; step && s < l->d->n && n < MAX_LADDER; s++) {
		if (!ladder_has(l->d, s, model, &u) || u.share != 50 * (panel % SHARES))
			continue;
		step[n].x = place_in(panel / SHARES, &u);
		if (!(step[n].x > 0))
			continue;
		ladder_climb(l, s, &step[n].climb);
		n +=
		    isfinite(step[n].climb.us[BASE_RUNG]) || isfinite(step[n].climb.us[TUNED_RUNG]);
	}
	if (n)
		qsort(step, (size_t)n, sizeof *step, by_x);
	for (int i = 0; i < n; i++) {
		fprintf(rows, "%g", step[i].x);
		range_stretch(x, step[i].x);
		for (int k = 0; k < num_rungs; k++) {
			const double t = step[i].climb.us[k];
			fprintf(rows, isfinite(t) ? " %g" : " nan", t);
			range_stretch(us, t);
			seen[k] |= isfinite(t);
		}
		fputs("\n", rows);
	}
	fputs(n ? "\n\n" : "nan\n\n\n", rows);
	free(step);
	return n;
}

int series_ladder(const struct plotted *p, FILE *rows, FILE *settings)
{
	const char *model = p->data->v[p->first].model;
	struct ladder l;
	int filled[NUM_PANELS], seen[MAX_RUNGS] = { 0 }, printed = 0;
	ladder_make(&l, p->all, p->forest, model);
	for (int row = 0; row < ROWS; row++) {
		struct range x = NO_RANGE, us = NO_RANGE;
		char name[24];
		for (int i = row * SHARES; i < (row + 1) * SHARES; i++) {
			filled[i] = panel_print(&l, model, i, rows, &x, &us, seen);
			printed += filled[i];
		}
		snprintf(name, sizeof name, "us%d", row);
		range_print(settings, name, us);
		snprintf(name, sizeof name, "x%d", row);
		range_print(settings, name, x);
	}
	filled_print(settings, filled, NUM_PANELS);
	fputs("rungs = '", settings);
	for (int k = 0; k < num_rungs; k++)
		fprintf(settings, "%s\"%s\"", k ? " " : "", rung_name(k));
	fputs("'\nseen = '", settings);
	for (int k = 0; k < num_rungs; k++)
		if (seen[k])
			fprintf(settings, " %d", k + 1);
	fprintf(settings, "'\nnum_side = %d\nmany = %d\nlength = %d\n", num_side_rungs, FIGURE_SEQS,
		figure_lengths[0]);
	return seen[BASE_RUNG] ? printed : 0;
}

/* ---- prefill: one fixed untuned setting against the tuned choice -------------------------- */
static int is_prompts(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++)
		if (b->query_start[i + 1] - b->query_start[i] != b->seq_lens[i])
			return 0;
	return !m->has[PHASE_DECODE];
}

/* Block 1: batches of whole prompts, tokens and speedup. Block 2: prompts with a context. Block 3:
 * single prompts of the model, length and both times. */
int series_prefill(const struct plotted *p, FILE *rows, FILE *settings)
{
	const char *model = p->data->v[p->first].model;
	struct range tokens = NO_RANGE, us = NO_RANGE, gain = NO_RANGE;
	struct step *one = malloc(sizeof *one * MAX_LADDER);
	struct ladder l;
	int filled[3] = { 0 }, n = 0;
	ladder_make(&l, p->all, p->forest, model);
	for (int with_context = 0; one && with_context < 2; with_context++) {
		for (int s = 0; s < p->all->n; s++) {
			const struct measured *m = &p->all->v[s];
			struct climb c;
			struct uniform u;
			if (m->has[PHASE_DECODE] || is_prompts(m) == with_context)
				continue;
			ladder_climb(&l, s, &c);
			if (!isfinite(c.ratio[TUNED_RUNG]))
				continue;
			const double x = (double)m->part[PHASE_PREFILL].f.query_tokens;
			fprintf(rows, "%g %g\n", x, c.ratio[TUNED_RUNG]);
			range_stretch(&tokens, x);
			range_stretch(&gain, c.ratio[TUNED_RUNG]);
			filled[with_context]++;
			if (n < MAX_LADDER && ladder_has(p->all, s, model, &u) && u.seqs == 1)
				one[n++] = (struct step){ u.length, c };
		}
		fputs(filled[with_context] ? "\n\n" : "nan\n\n\n", rows);
	}
	if (n)
		qsort(one, (size_t)n, sizeof *one, by_x);
	for (int i = 0; i < n; i++) {
		const double *t = one[i].climb.us;
		fprintf(rows, "%g %g %g\n", one[i].x, t[BASE_RUNG], t[TUNED_RUNG]);
		range_stretch(&us, t[BASE_RUNG]);
		range_stretch(&us, t[TUNED_RUNG]);
	}
	if (!n)
		fputs("nan\n", rows);
	filled[2] = n;
	range_print(settings, "tokens", tokens);
	range_print(settings, "us", us);
	range_print(settings, "gain", gain);
	filled_print(settings, filled, 3);
	free(one);
	return filled[0] + filled[1];
}
