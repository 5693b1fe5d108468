/* SPDX-License-Identifier: Apache-2.0 */
/* portfolio.c - picks the few choices that leave every row a good one: greedy additions by the sum
 * of row minima, then swaps. */
#include "matrix.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* least[row] over the columns in use, leaving out column number `without`. */
static void row_minima(const struct matrix *m, const int *used, int n, int without,
		       long long *least)
{
	for (int r = 0; r < m->rows; r++) {
		least[r] = 2 * FORBIDDEN_SUM;
		for (int i = 0; i < n; i++) {
			const long long cost = i == without ? least[r] : matrix_at(m, r, used[i]);
			if (cost < least[r])
				least[r] = cost;
		}
	}
}

/* The column that lowers the sum of row minima the most. total: scratch, [cols]. */
static int best_addition(const struct matrix *m, const long long *least, long long *total,
			 long long *sum)
{
	int best = -1;
	memset(total, 0, sizeof *total * (size_t)m->cols);
	for (int r = 0; r < m->rows; r++) {
		const int32_t *cost = &m->cost[(size_t)r * (size_t)m->cols];
		const long long weight = m->weight[r], most = least[r];
		const long long forbidden = most < FORBIDDEN_SUM ? most : FORBIDDEN_SUM;
		for (int c = 0; most && c < m->cols; c++) {
			const long long one = is_forbidden(cost[c]) ? forbidden : weight * cost[c];
			total[c] += one < most ? one : most;
		}
	}
	for (int c = 0; c < m->cols; c++)
		if (best < 0 || total[c] < *sum)
			best = c, *sum = total[c];
	return best;
}

/* Replaces one member at a time, from number `first` on, while that lowers the sum. */
static void swap_members(const struct matrix *m, int *used, int n, int first, long long *least,
			 long long *total, long long sum)
{
	for (int changed = 1; changed;) {
		changed = 0;
		for (int i = first; i < n; i++) {
			long long with = 0;
			row_minima(m, used, n, i, least);
			const int c = best_addition(m, least, total, &with);
			if (with < sum)
				used[i] = c, sum = with, changed = 1;
		}
	}
}

static int keep_members(struct matrix *m, const int *used, int n)
{
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0, done;
	if (!to)
		return 0;
	for (int c = 0; c < m->cols; c++) {
		to[c] = -1;
		for (int i = 0; i < n; i++)
			if (used[i] == c)
				to[c] = kept;
		kept += to[c] >= 0;
	}
	done = matrix_keep(m, to, kept);
	free(to);
	return done;
}

static void note(struct portfolio *p, const struct matrix *m, long long sum)
{
	long long weight = 0;
	if (!p || p->n == MAX_PORTFOLIO)
		return;
	for (int r = 0; r < m->rows; r++)
		weight += m->weight[r];
	p->mean[p->n++] = exp((double)sum / (double)weight / 1e6);
}

static long long sum_of(const struct matrix *m, const long long *least)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++)
		sum += least[r];
	return sum;
}

int matrix_portfolio(struct matrix *m, int limit, int given, struct portfolio *p)
{
	int *used = malloc(sizeof *used * (size_t)(limit + 1)), n = 0, done = 0;
	long long *least = malloc(sizeof *least * (size_t)(m->rows + 1)), sum = -1;
	long long *total = malloc(sizeof *total * (size_t)(m->cols + 1));
	if (p)
		*p = (struct portfolio){ 0 };
	if (used && least && total && m->cols > 0) {
		for (; n < limit; n++) {
			long long with = 0;
			row_minima(m, used, n, -1, least);
			used[n] = best_addition(m, least, total, &with);
			if (!n && given >= 0) {
				used[0] = given;
				row_minima(m, used, 1, -1, least);
				with = sum_of(m, least);
			}
			if (n && with == sum)
				break;
			sum = with;
			note(p, m, sum);
		}
		swap_members(m, used, n, given >= 0, least, total, sum);
		done = keep_members(m, used, n);
	}
	free(used);
	free(least);
	free(total);
	return done;
}
