/* SPDX-License-Identifier: Apache-2.0 */
/* signed_ranks.c - the interval of the usual value of a few samples with heavy tails. */
#include "gate.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

enum { EXACT = 64 };

/* The largest bound that the rank sum of n values that spread alike to both sides of 0 stays within
 * at 2.5 % or less; -1: there is none. Exact up to EXACT values, then by the normal distribution. */
static int rank_sum_bound(int n)
{
	double share[EXACT * (EXACT + 1) / 2 + 1] = { 1 }, sum = 0;
	const double pairs = n * (n + 1.0) / 2;
	int bound = -1;
	if (n > EXACT)
		return (int)(pairs / 2 - 0.5 - 1.96 * sqrt(pairs * (2 * n + 1) / 12));
	for (int rank = 1, most = 1; rank <= n; most += ++rank)
		for (int i = most; i >= 0; i--)
			share[i] = (share[i] + (i >= rank ? share[i - rank] : 0)) / 2;
	while ((sum += share[bound + 1]) <= 0.025)
		bound++;
	return bound;
}

/* Wilcoxon (1945), "Individual comparisons by ranking methods": the rank sum of the values above 0
 * is the number of pairs, each value with itself among them, whose mean is above 0. */
void signed_ranks(const double *v, int n, double *low, double *high)
{
	const int bound = n > 0 ? rank_sum_bound(n) : -1;
	double *mean = bound < 0 ? NULL : malloc((size_t)n * ((size_t)n + 1) / 2 * sizeof *mean);
	int pairs = 0;
	*low = *high = NAN;
	if (!mean)
		return;
	for (int i = 0; i < n; i++)
		for (int j = i; j < n; j++)
			mean[pairs++] = (v[i] + v[j]) / 2;
	qsort(mean, (size_t)pairs, sizeof *mean, by_double);
	*low = mean[bound];
	*high = mean[pairs - 1 - bound];
	free(mean);
}
