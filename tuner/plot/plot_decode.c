/* plot_decode.c - the decode picture: latency by batch size, one curve for each sequence length. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENGTHS = 64, MAX_CURVES = 8, FEW_CURVES = 3, MAX_POINTS = 64 };

struct curve {
	int length, n;
	struct {
		int batch, scenario;
	} point[MAX_POINTS];
};

/* The sequence length of a decode batch if all are equal and have one query token; else 0. */
static int uniform_decode(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++)
		if (b->query_start[i + 1] - b->query_start[i] != 1 ||
		    b->seq_lens[i] != b->seq_lens[0])
			return 0;
	return b->num_seqs ? b->seq_lens[0] : 0;
}

static int by_length(const void *a, const void *b)
{
	return ((const struct curve *)a)->length - ((const struct curve *)b)->length;
}

static int is_round(const struct curve *c)
{
	return !(c->length & (c->length - 1));
}

/* Order: curves before single points, then powers of two, then those with the most points. */
static int by_points(const void *pa, const void *pb)
{
	const struct curve *a = pa, *b = pb;
	if ((a->n > 1) != (b->n > 1))
		return (b->n > 1) - (a->n > 1);
	if (is_round(a) != is_round(b))
		return is_round(b) - is_round(a);
	return b->n != a->n ? b->n - a->n : by_length(a, b);
}

/* Keeps points in order of batch size; skips a batch size that the curve has already. */
static void curve_add(struct curve *c, int batch, int scenario)
{
	int at = c->n;
	while (at && c->point[at - 1].batch >= batch)
		at--;
	if (c->n == MAX_POINTS || (at < c->n && c->point[at].batch == batch))
		return;
	memmove(&c->point[at + 1], &c->point[at], (size_t)(c->n - at) * sizeof c->point[0]);
	c->point[at].batch = batch;
	c->point[at].scenario = scenario;
	c->n++;
}

/* The curves with the most points, at least two each. A length that is no power of two counts
 * only while fewer than FEW_CURVES are found. */
static int find_curves(const struct plotted *p, struct curve curve[MAX_LENGTHS])
{
	int n = 0, shown = 0;
	for (int s = p->first; s < p->end; s++) {
		const struct measured *m = &p->data->v[s];
		const int length = uniform_decode(m);
		int i = 0;
		if (!length || !isfinite(plotted_time(p, POLICY_TREE, s)))
			continue;
		while (i < n && curve[i].length != length)
			i++;
		if (i == n && n == MAX_LENGTHS)
			continue;
		if (i == n)
			curve[n++] = (struct curve){ .length = length };
		curve_add(&curve[i], m->batch->view.num_seqs, s);
	}
	qsort(curve, (size_t)n, sizeof *curve, by_points);
	while (shown < n && shown < MAX_CURVES && curve[shown].n > 1 &&
	       (shown < FEW_CURVES || is_round(&curve[shown])))
		shown++;
	qsort(curve, (size_t)shown, sizeof *curve, by_length);
	return shown > 1 ? shown : 0; /* one alone shows nothing */
}

int series_decode(const struct plotted *p, FILE *rows, FILE *settings)
{
	struct curve curve[MAX_LENGTHS];
	char names[MAX_CURVES][24], x[MAX_CURVES][24], y[MAX_CURVES][24];
	struct range batches = NO_RANGE, times = NO_RANGE;
	const int n = find_curves(p, curve);
	int points = 0;
	for (int i = 0; i < n; i++) {
		const struct curve *c = &curve[i];
		double us = 0;
		for (int k = 0; k < c->n; k++, points++) {
			const int s = c->point[k].scenario;
			const double fixed = plotted_time(p, POLICY_BEST_FIXED, s);
			us = plotted_time(p, POLICY_TREE, s);
			fprintf(rows, "%d %g %g\n", c->point[k].batch, us, fixed);
			range_stretch(&batches, c->point[k].batch);
			range_stretch(&times, us);
			range_stretch(&times, fixed);
		}
		fputs("\n\n", rows);
		length_text(names[i], c->length);
		snprintf(x[i], sizeof x[0], "%d", c->point[c->n - 1].batch);
		snprintf(y[i], sizeof y[0], "%g", us);
	}
	range_print(settings, "batch", batches);
	range_print(settings, "us", times);
	words_print(settings, "lengths", names, n);
	words_print(settings, "ends_x", x, n);
	words_print(settings, "ends_y", y, n);
	return points;
}
