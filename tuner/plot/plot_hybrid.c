/* plot_hybrid.c - the hybrid picture: batches of one prompt chunk and many decodes, the gain of
 * each overlap over the best serial plan. */
#include "plot.h"
#include "tuner/compare/hybrid.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows "gain, share of the batches with at least that gain", in ascending order. */
static void gains_print(const double *v, int n, FILE *rows, struct range *gain)
{
	for (int i = 0; i < n; i++) {
		fprintf(rows, "%g %g\n", v[i], 100.0 * (n - i) / n);
		range_stretch(gain, v[i]);
	}
	if (n)
		fprintf(rows, "%g 0\n", v[n - 1]);
	fputs(n ? "\n\n" : "nan\n\n\n", rows);
}

/* Rows "the chunk's share of the time, gain of the best way (1 if serial), gain of the tuned
 * choice". */
static int scatter_print(const struct hybrid *h, int n, FILE *rows, struct range *found)
{
	int printed = 0;
	for (int i = 0; i < n; i++) {
		double best = h[i].serial;
		for (int k = 0; k < WAY_TUNED; k++)
			best = fmin(best, h[i].us[k]);
		if (!isfinite(h[i].prefill_share))
			continue;
		fprintf(rows, "%g %g", h[i].prefill_share, h[i].serial / best);
		fprintf(rows, isfinite(h[i].us[WAY_TUNED]) ? " %g\n" : " nan\n",
			h[i].serial / h[i].us[WAY_TUNED]);
		range_stretch(found, h[i].serial / best);
		if (isfinite(h[i].us[WAY_TUNED]))
			range_stretch(found, h[i].serial / h[i].us[WAY_TUNED]);
		printed++;
	}
	if (!printed)
		fputs("nan\n", rows);
	return printed;
}

static void list_print(FILE *settings, const char *name, const double v[NUM_WAYS])
{
	fprintf(settings, "%s = '", name);
	for (int k = 0; k < NUM_WAYS; k++)
		fprintf(settings, " %.3f", v[k]);
	fputs("'\n", settings);
}

int series_hybrid(const struct plotted *p, FILE *rows, FILE *settings)
{
	struct range gain = NO_RANGE, found = NO_RANGE;
	double mean[NUM_WAYS] = { 0 }, most[NUM_WAYS] = { 0 };
	int filled[NUM_WAYS + 1] = { 0 }, n;
	struct hybrid *h = hybrids_find(p->data, p->pick[POLICY_TREE], &n);
	double *v = malloc(sizeof *v * ((size_t)p->data->n + 1));
	fputs("ways = '", settings);
	for (int k = 0; h && v && k < NUM_WAYS; k++) {
		const int has = hybrids_gains(h, n, (enum way)k, v);
		gains_print(v, has, rows, &gain);
		filled[k] = has;
		mean[k] = has ? gains_mean(v, has) : 0;
		most[k] = has ? v[has - 1] : 0;
		fprintf(settings, "%s\"%s\"", k ? " " : "", way_names[k]);
	}
	fputs("'\n", settings);
	list_print(settings, "means", mean);
	list_print(settings, "mosts", most);
	if (h && v)
		filled[NUM_WAYS] = scatter_print(h, n, rows, &found);
	filled_print(settings, filled, NUM_WAYS + 1);
	range_print(settings, "gain", gain);
	range_print(settings, "found", found);
	fprintf(settings, "num_hybrid = %d\n", n);
	free(h);
	free(v);
	return filled[WAY_FUSED] + filled[WAY_STREAMS] + filled[WAY_SPLIT];
}
