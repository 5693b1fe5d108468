/* SPDX-License-Identifier: Apache-2.0 */
/* least_squares.c - evaluates the cost model of one choice at one head size, and fits it to
 * measured times.
 *
 * For given slots and start, the coefficients minimise the squared relative errors and are not
 * negative (Lawson and Hanson 1974, "Solving least squares problems", chapter 23): the best of the
 * solutions over each set of terms. Outliers are weighted down in repeated fits (Beaton and Tukey
 * 1974). Slots and start are those of the least error. Of libm only sqrt is used, which is exact to
 * the last bit; sums are in one order on every machine, and results are rounded to four digits.
 *
 * Amounts and estimates are integers, so that the library and the tuner agree exactly. */
#include "costmodel.h"
#include <math.h>
#include <stdlib.h>

enum { REWEIGHTS = 3 };
static const int slots_tried[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 16 };
static const int starts_tried[] = { 0, 32, 64, 128, 256, 512 };
static const double trusted = 0.02, far_off = 0.2; /* relative errors */

static const long long most_fs[NUM_COST_TERMS] = {
	[TERM_LAUNCH] = MOST_OF_FEW,   [TERM_PATH] = MOST_OF_MANY,  [TERM_TOTAL] = MOST_OF_MANY,
	[TERM_KIB] = MOST_OF_MANY,     [TERM_ROWS] = MOST_OF_MANY,  [TERM_SPLIT] = MOST_OF_FEW,
	[TERM_SEGMENTS] = MOST_OF_FEW, [TERM_MERGE] = MOST_OF_MANY,
};

/* ---- amounts ---------------------------------------------------------------------------- */
struct segment_costs cost_model_segments(const struct cost_model *p)
{
	return (struct segment_costs){ p->slots,
				       p->start,
				       p->fs[TERM_PATH],
				       p->fs[TERM_SPLIT],
				       p->fs[TERM_SEGMENTS],
				       p->fs[TERM_MERGE] };
}

/* Amounts are at most 2^27, so that sums do not overflow. */
void cost_model_amounts(long long amount[NUM_COST_TERMS], const struct cost_model *p,
			const struct attune_features *f, int segments)
{
	const struct segment_costs costs = cost_model_segments(p);
	const long long rows = f->query_tokens * f->num_query_heads;
	const int splits = segments > 1;
	struct segment_load l;
	segment_load_of(&l, &p->block, f);
	amount[TERM_LAUNCH] = 1;
	amount[TERM_PATH] = segment_path(&costs, &l, &p->block, f->units, segments);
	amount[TERM_TOTAL] = l.blocks * l.mean / f->units;
	amount[TERM_KIB] = f->kv_kib;
	amount[TERM_ROWS] = rows;
	amount[TERM_SPLIT] = splits;
	amount[TERM_SEGMENTS] = splits * segments;
	amount[TERM_MERGE] = splits * segments * rows;
	for (int i = 0; i < NUM_COST_TERMS; i++)
		amount[i] = min_of(amount[i], 1 << 27);
}

long long cost_model_estimate(const struct cost_model *p, const struct attune_features *f,
			      int segments)
{
	long long amount[NUM_COST_TERMS], sum = 0;
	cost_model_amounts(amount, p, f, segments);
	for (int i = 0; i < NUM_COST_TERMS; i++)
		sum += p->fs[i] * amount[i];
	return sum;
}

/* ---- least squares ------------------------------------------------------------------------ */
struct normal {
	double gram[NUM_COST_TERMS][NUM_COST_TERMS], right[NUM_COST_TERMS];
};

/* z = G^-1 b over the terms of a set, and 0 elsewhere, by Cholesky's factors. Returns b' z, or -1 if a
 * term is a combination of others or would be negative. */
static double solve_among(const struct normal *n, int set, double z[NUM_COST_TERMS])
{
	int at[NUM_COST_TERMS], size = 0;
	double l[NUM_COST_TERMS][NUM_COST_TERMS], y[NUM_COST_TERMS], gain = 0;
	for (int i = 0; i < NUM_COST_TERMS; i++) {
		z[i] = 0;
		if (set >> i & 1)
			at[size++] = i;
	}
	for (int i = 0; i < size; i++) {
		y[i] = n->right[at[i]];
		for (int j = 0; j <= i; j++) {
			double sum = n->gram[at[i]][at[j]];
			for (int k = 0; k < j; k++)
				sum -= l[i][k] * l[j][k];
			if (i == j && !(sum > 1e-10 * n->gram[at[i]][at[i]]))
				return -1;
			l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
			y[i] -= i == j ? 0 : l[i][j] * y[j];
		}
		y[i] /= l[i][i];
	}
	for (int i = size - 1; i >= 0; i--) {
		for (int k = i + 1; k < size; k++)
			y[i] -= l[k][i] * y[k];
		y[i] /= l[i][i];
		if (!(y[i] >= 0))
			return -1;
		z[at[i]] = y[i];
		gain += n->right[at[i]] * y[i];
	}
	return gain;
}

/* Minimises x' G x / 2 - b' x over x >= 0. The terms are so few that all sets of them are tried. */
static void minimise(const struct normal *n, double x[NUM_COST_TERMS])
{
	double z[NUM_COST_TERMS], most = -1;
	for (int set = 0; set < 1 << NUM_COST_TERMS; set++) {
		const double gain = solve_among(n, set, z);
		if (gain > most) {
			most = gain;
			for (int i = 0; i < NUM_COST_TERMS; i++)
				x[i] = z[i];
		}
	}
}

/* A row holds amounts / us, so that the exact model gives 1. */
static void add_row(struct normal *n, const double *row, double weight)
{
	for (int i = 0; i < NUM_COST_TERMS; i++) {
		for (int k = 0; k < NUM_COST_TERMS; k++)
			n->gram[i][k] += weight * row[i] * row[k];
		n->right[i] += weight * row[i];
	}
}

static double error_of(const double *row, const double *x)
{
	double sum = -1;
	for (int i = 0; i < NUM_COST_TERMS; i++)
		sum += row[i] * x[i];
	return fabs(sum);
}

/* Finds the coefficients x, in us, for these slots and start. Returns the weighted mean error. row:
 * scratch, [n]. */
static double solve(const struct cost_model *p, const struct cell_fit *cell, int n,
		    double (*row)[NUM_COST_TERMS], double x[NUM_COST_TERMS])
{
	double sum = 0, weights = 0;
	for (int c = 0; c < n; c++) {
		long long amount[NUM_COST_TERMS];
		cost_model_amounts(amount, p, cell[c].f, cell[c].segments);
		for (int i = 0; i < NUM_COST_TERMS; i++)
			row[c][i] = (double)amount[i] / cell[c].us;
	}
	for (int i = 0; i < NUM_COST_TERMS; i++)
		x[i] = 0;
	for (int pass = 0; pass < REWEIGHTS; pass++) {
		struct normal normal = { 0 };
		for (int c = 0; c < n; c++)
			add_row(&normal, row[c],
				pass ? cell[c].weight / (error_of(row[c], x) + trusted)
				     : cell[c].weight);
		minimise(&normal, x);
	}
	for (int c = 0; c < n; c++) {
		sum += cell[c].weight * fmin(error_of(row[c], x), far_off);
		weights += cell[c].weight;
	}
	return sum / weights;
}

long long rounded_fs(double fs, long long limit)
{
	double unit = 1;
	while (fs >= 1e4 * unit)
		unit *= 10;
	const double v = floor(fs / unit + 0.5) * unit;
	return v < (double)limit ? (long long)v : limit;
}

int cost_model_fit(struct cost_model *out, const struct cell_fit *cell, int n, int most_slots)
{
	double(*row)[NUM_COST_TERMS] = malloc(sizeof *row * (size_t)(n + 1));
	double least = INFINITY, x[NUM_COST_TERMS];
	struct cost_model p = *out;
	if (!row)
		return 0;
	for (size_t s = 0; s < COUNT(slots_tried) && slots_tried[s] <= most_slots; s++)
		for (size_t k = 0; k < COUNT(starts_tried); k++) {
			p.slots = slots_tried[s];
			p.start = starts_tried[k];
			const double error = solve(&p, cell, n, row, x);
			if (!(error < least))
				continue;
			least = error;
			*out = p;
			for (int i = 0; i < NUM_COST_TERMS; i++)
				out->fs[i] = rounded_fs(1e9 * x[i], most_fs[i]);
		}
	free(row);
	return 1;
}
