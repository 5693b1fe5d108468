/* SPDX-License-Identifier: Apache-2.0 */
/* made_up_mixed.c - makes the matrix from which the overlap tree learns: measured batches, and made-up
 * ones that cost what the nearest measured ones do on average. The measured rows alone are too few to show
 * where the best way changes. */
#include "made_up.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <math.h>

/* MADE_UP: batches per scenario. NEAR: rows that an estimate averages. HIGHEST: a row counts with this
 * cost at most. */
enum { MADE_UP = 4, NEAR = 5, HIGHEST = 500000 };

/* Lists the rows nearest to a batch in row[]; returns their number. */
static int find_nearest(const struct matrix *m, const struct attune_features *f, int row[NEAR])
{
	double far[NEAR];
	int n = 0;
	for (int r = 0; r < m->rows; r++) {
		const double d = part_distance(&m->f[r], f, n < NEAR ? INFINITY : far[NEAR - 1]);
		int at = n < NEAR ? n++ : NEAR;
		for (; at && d < far[at - 1]; at--)
			if (at < NEAR)
				far[at] = far[at - 1], row[at] = row[at - 1];
		if (at < NEAR)
			far[at] = d, row[at] = r;
	}
	return n;
}

/* Sets cost[cols] to the means over the rows nearest to a batch. */
static void estimate(const struct matrix *m, const struct attune_features *f, int32_t *cost)
{
	int row[NEAR];
	const int n = find_nearest(m, f, row);
	for (int c = 0; c < m->cols; c++) {
		long long sum = 0;
		for (int i = 0; i < n; i++)
			sum += min_of(m->cost[row[i] * m->cols + c], HIGHEST);
		cost[c] = (int32_t)(sum / n);
	}
}

/* Whether the way of a column can run. Ways below 0 are no choices; one that is not fused runs the
 * prefills. */
static int can_run(const struct data *d, int way, const attune_shape *shape, const struct part *all,
		   const struct part *prefills)
{
	const struct choice *c = way < 0 ? NULL : &d->choice[way];
	return !c || !c->kernel->space->why_illegal(&c->config, shape,
						    c->kernel->space->is_fused ? all : prefills,
						    &d->run.device);
}

/* Fills in the row of a batch made up from row `of`. Column 0 stands for what cannot run. 0: none was
 * drawn. */
static int mixed_row(struct matrix *m, const struct data *d, const struct matrix *measured, int row,
		     int of, struct made_up *b, unsigned long long seed)
{
	unsigned long long state = seed;
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], least = COST_CAP;
	const attune_shape *shape;
	attune_batch batch;
	struct part all, prefills;
	if (!made_up_draw(b, d, measured, of, PHASE_ALL, &state, &batch, &shape, &all) ||
	    !part_make(&prefills, PHASE_PREFILL, shape, &batch, &d->run.device))
		return 0;
	estimate(measured, &all.f, cost);
	for (int c = 0; c < m->cols; c++) {
		if (!can_run(d, m->choice[c], shape, &all, &prefills))
			cost[c] = cost[0];
		least = cost[c] < least ? cost[c] : least;
	}
	for (int c = 0; c < m->cols; c++)
		cost[c] -= least;
	made_up_describe(m, row, measured, of, &all.f);
	return 1;
}

struct matrix *made_up_mixed(const struct data *d, const struct matrix *measured)
{
	const int rows = measured->rows;
	struct matrix *m = matrix_new(rows * (1 + MADE_UP), measured->cols);
	struct made_up *b = made_up_new(d, measured);
	const int done = m && b;
	for (int c = 0; done && c < m->cols; c++)
		m->choice[c] = measured->choice[c];
	for (int r = 0; done && r < rows; r++) {
		made_up_row_like(m, r, measured, r);
		for (int c = 0; c < m->cols; c++)
			m->cost[r * m->cols + c] = measured->cost[r * m->cols + c];
		made_up_round(&m->f[r]);
	}
	if (done)
		m->rows = rows;
	for (int i = 0; done && i < rows * MADE_UP; i++)
		m->rows +=
		    mixed_row(m, d, measured, m->rows, i / MADE_UP, b, (unsigned long long)i);
	made_up_free(b);
	if (!done)
		matrix_free(m);
	return done ? m : NULL;
}
