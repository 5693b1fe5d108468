/* SPDX-License-Identifier: Apache-2.0 */
/* leaves.c - makes leaves safe against choices slower than the kernels' defaults, and computes the
 * figures that the header prints at each leaf. */
#include "induce.h"
#include "harness/base/base.h"
#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdlib.h>

/* FEW: leaves with fewer rows get a remark. UNSAFE_PENALTY: of an unsafe cell, 2 %. */
enum { FEW = 3, UNSAFE_PENALTY = 20000 };

/* ---- safe ------------------------------------------------------------------------- */
static const struct cell *part_cell(const struct data *d, int s, enum phase phase, int choice)
{
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, s, phase, choice);
	if (!cell && choice >= 0 && !(d->v[s].has[PHASE_PREFILL] && d->v[s].has[PHASE_DECODE]))
		cell = data_cell(d, s, PHASE_ALL, choice);
	return cell && cell->outcome == OUTCOME_OK ? cell : NULL;
}

static double spread(const struct cell *c)
{
	return isfinite(c->ci_us) ? c->ci_us / c->median_us : 0;
}

/* Whether that choice is slower there than the kernels' defaults, beyond noise. */
static int is_unsafe(const struct data *d, int s, enum phase phase, int choice)
{
	const int dflt = default_choice(d, s, phase);
	const struct cell *cell = part_cell(d, s, phase, choice);
	const struct cell *usual = part_cell(d, s, phase, dflt);
	const int other = phase == PHASE_DECODE ? PHASE_PREFILL : PHASE_DECODE;
	int best;
	if (!cell || !usual)
		return 0;
	const double us = data_part_time(d, s, phase, choice);
	const double usual_us = data_part_time(d, s, phase, dflt);
	const double other_us = d->v[s].has[other] ? data_best(d, s, (enum phase)other, &best) : 0;
	const double whole = usual_us + (isfinite(other_us) ? other_us : 0);
	const double noise = data_noise(d, whole), slower = (us - usual_us) / whole;
	return slower > noise &&
	       slower + hypot(spread(cell), spread(usual)) * usual_us / whole > 2 * noise;
}

void matrix_penalize_unsafe(struct matrix *m, const struct data *d, enum phase phase, int sign)
{
	for (int r = 0; r < m->rows; r++)
		for (int c = 0; c < m->cols; c++) {
			int32_t *cost = &m->cost[(size_t)r * (size_t)m->cols + (size_t)c];
			if (!is_forbidden(*cost) &&
			    is_unsafe(d, m->scenario[r], phase, m->choice[c]))
				*cost += sign * UNSAFE_PENALTY;
		}
}

static int32_t row_cost(const struct matrix *m, int row, int col)
{
	const int32_t cost =
	    col < 0 ? COST_FORBIDDEN : m->cost[(size_t)row * (size_t)m->cols + (size_t)col];
	return is_forbidden(cost) ? m->fallback[row] : cost;
}

/* Sum over the rows; column -1: the defaults. */
static long long cost_of_rows(const struct matrix *m, const int *rows, int n, int col)
{
	long long sum = 0;
	for (int i = 0; i < n; i++)
		sum += col < 0 ? (long long)m->weight[rows[i]] * m->fallback[rows[i]]
			       : matrix_at(m, rows[i], col);
	return sum;
}

/* The cheapest column but `not`; -1: none. */
static int cheapest(const struct matrix *m, const int *rows, int n, int not )
{
	int best = -1;
	long long least = 0;
	for (int c = 0; c < m->cols; c++) {
		const long long sum = cost_of_rows(m, rows, n, c);
		if (c != not &&(best < 0 || sum < least))
			best = c, least = sum;
	}
	return best;
}

/* rows[0..return): those of the matrix that end in the leaf. */
static int rows_of(const struct tree *t, const struct matrix *m, int leaf, int *rows)
{
	int n = 0;
	for (int r = 0; r < m->rows; r++)
		if (tree_leaf(t, &m->f[r]) == leaf)
			rows[n++] = r;
	return n;
}

/* Mean extra cost of the defaults over the column; *unsure: twice its standard error. */
static double gain_of(const struct matrix *m, const int *rows, int n, int col, double *unsure)
{
	double sum = 0, squares = 0;
	for (int i = 0; i < n; i++) {
		const double gain = m->fallback[rows[i]] - row_cost(m, rows[i], col);
		sum += gain;
		squares += gain * gain;
	}
	const double variance = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
	*unsure = 2 * sqrt(fmax(variance, 0) / n);
	return sum / n;
}

/* One scenario says less than the made-up batches that the leaf is learned from. */
int leaves_make_safe(struct tree *t, const struct matrix *m)
{
	int *rows = malloc(sizeof *rows * (size_t)(m->rows + 1));
	if (!rows)
		return 0;
	for (int i = 0; m->rows && i < t->n; i++) {
		struct node *v = &t->v[i];
		double unsure;
		if (v->feature >= 0 || v->action < 0)
			continue;
		const int n = rows_of(t, m, i, rows);
		if (n < 2 || gain_of(m, rows, n, v->action, &unsure) >= 0)
			continue;
		const int best = cheapest(m, rows, n, v->action);
		const int is_safe = best >= 0 && gain_of(m, rows, n, best, &unsure) >= 0;
		v->action = is_safe ? best : -1;
		v->remark = is_safe ? REMARK_NONE : REMARK_UNSAFE;
	}
	free(rows);
	return 1;
}

/* ---- figures ------------------------------------------------------------------------ */
static void describe(struct node *v, const struct matrix *m, const int *rows, int n,
		     int32_t *sorted)
{
	double unsure;
	v->support = n;
	v->weight = 0;
	for (int i = 0; i < n; i++) {
		v->weight += m->weight[rows[i]];
		sorted[i] = row_cost(m, rows[i], v->action);
	}
	v->cost = cost_of_rows(m, rows, n, v->action);
	v->runner_up = n ? cheapest(m, rows, n, v->action) : -1;
	v->runner_up_cost = v->runner_up < 0 ? 0 : cost_of_rows(m, rows, n, v->runner_up);
	if (!n)
		return;
	qsort(sorted, (size_t)n, sizeof *sorted, by_int32);
	v->p95 = sorted[(95 * n + 99) / 100 - 1];
	if (v->remark != REMARK_NONE || v->action < 0)
		return;
	const double gain = gain_of(m, rows, n, v->action, &unsure);
	v->remark = n < FEW ? REMARK_FEW : gain <= unsure ? REMARK_UNSURE : REMARK_NONE;
}

int leaves_describe(struct tree *t, const struct matrix *m)
{
	int *rows = malloc(sizeof *rows * (size_t)(m->rows + 1));
	int32_t *sorted = malloc(sizeof *sorted * (size_t)(m->rows + 1));
	const int done = rows && sorted;
	for (int i = 0; done && m->rows && i < t->n; i++)
		if (t->v[i].feature < 0)
			describe(&t->v[i], m, rows, rows_of(t, m, i, rows), sorted);
	free(rows);
	free(sorted);
	return done;
}
