/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - a cost matrix in memory: makes, copies and frees it, drops columns, describes rows. */
#include "matrix.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights of rows. The heaviest scenario has MAX_WEIGHT; none has less than MIN_WEIGHT. */
enum { MIN_WEIGHT = 16, MAX_WEIGHT = 64 };

enum phase decision_phase(enum decision decision)
{
	static const enum phase phases[NUM_DECISIONS] = {
		[DECIDE_PREFILL] = PHASE_PREFILL,
		[DECIDE_DECODE] = PHASE_DECODE,
		[DECIDE_OVERLAP] = PHASE_ALL,
		[DECIDE_EARLY] = PHASE_DECODE,
	};
	return phases[decision];
}

struct matrix *matrix_new(int rows, int cols)
{
	struct matrix *m = calloc(1, sizeof *m);
	const size_t r = (size_t)rows + 1, c = (size_t)cols + 1;
	if (!m)
		return NULL;
	m->rows = rows;
	m->cols = cols;
	m->scenario = calloc(r, sizeof *m->scenario);
	m->choice = calloc(c, sizeof *m->choice);
	m->cost = calloc(r * c, sizeof *m->cost);
	m->fallback = calloc(r, sizeof *m->fallback);
	m->weight = calloc(r, sizeof *m->weight);
	m->block = calloc(r, sizeof *m->block);
	m->f = calloc(r, sizeof *m->f);
	if (m->scenario && m->choice && m->cost && m->fallback && m->weight && m->block && m->f)
		return m;
	matrix_free(m);
	return NULL;
}

void matrix_free(struct matrix *m)
{
	if (!m)
		return;
	free(m->scenario);
	free(m->choice);
	free(m->cost);
	free(m->fallback);
	free(m->weight);
	free(m->block);
	free(m->f);
	free(m);
}

struct matrix *matrix_copy(const struct matrix *from)
{
	struct matrix *m = matrix_new(from->rows, from->cols);
	const size_t r = (size_t)from->rows, c = (size_t)from->cols;
	if (!m)
		return NULL;
	memcpy(m->scenario, from->scenario, r * sizeof *m->scenario);
	memcpy(m->choice, from->choice, c * sizeof *m->choice);
	memcpy(m->cost, from->cost, r * c * sizeof *m->cost);
	memcpy(m->fallback, from->fallback, r * sizeof *m->fallback);
	memcpy(m->weight, from->weight, r * sizeof *m->weight);
	memcpy(m->block, from->block, r * sizeof *m->block);
	memcpy(m->f, from->f, r * sizeof *m->f);
	return m;
}

int32_t cost_of(double us, double best_us)
{
	const double cost = 1e6 * log(us / best_us);
	return cost >= COST_CAP ? COST_CAP : cost <= 0 ? 0 : (int32_t)lround(cost);
}

int matrix_divide(const struct matrix *m, int *rows, int n, int feature, long long threshold)
{
	int below = 0;
	for (int i = 0; i < n; i++) {
		const int row = rows[i];
		if (((const long long *)&m->f[row])[feature] <= threshold) {
			rows[i] = rows[below];
			rows[below++] = row;
		}
	}
	return below;
}

void matrix_describe_row(const struct data *d, struct matrix *m, int row, enum phase phase)
{
	const struct measured *v = &d->v[m->scenario[row]];
	int model = 0;
	double heaviest = 0;
	m->f[row] = v->part[phase].f;
	for (int i = 0; i < d->n; i++)
		heaviest = fmax(heaviest, d->v[i].weight);
	/* The square root keeps rare scenarios from vanishing. */
	m->weight[row] =
	    heaviest > 0 ? (int32_t)lround(MAX_WEIGHT * sqrt(v->weight / heaviest)) : 1;
	if (m->weight[row] < MIN_WEIGHT)
		m->weight[row] = MIN_WEIGHT;
	while (strcmp(d->v[model].model, v->model))
		model++;
	m->block[row] = 64 * model + floor_log2(m->f[row].num_seqs);
}

int matrix_keep(struct matrix *m, const int *to, int cols)
{
	int32_t *cost = malloc(sizeof *cost * ((size_t)m->rows * (size_t)cols + 1));
	if (!cost)
		return 0;
	for (int r = 0; r < m->rows; r++)
		for (int c = 0; c < m->cols; c++)
			if (to[c] >= 0)
				cost[(size_t)r * (size_t)cols + (size_t)to[c]] =
				    m->cost[(size_t)r * (size_t)m->cols + (size_t)c];
	for (int c = 0; c < m->cols; c++)
		if (to[c] >= 0)
			m->choice[to[c]] = m->choice[c]; /* to[c] <= c */
	free(m->cost);
	m->cost = cost;
	m->cols = cols;
	return 1;
}
