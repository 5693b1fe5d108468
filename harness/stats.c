/* stats.c - order statistics of a handful of samples. Pure functions; of no
 * samples at all everything is NaN. */
#include "harness.h"
#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double median(double *v, int n)
{
	if (n < 1)
		return NAN;
	qsort(v, (size_t)n, sizeof *v, by_value);
	return quantile(v, n, 0.5);
}

/* Linear between the neighbours of place q * (n - 1), so that q = 0 is the
 * smallest, q = 1 the largest, and q = 0.5 the usual median. */
double quantile(const double *sorted, int n, double q)
{
	if (n < 1 || !(q >= 0 && q <= 1))
		return NAN;
	const double place = q * (n - 1);
	const int low = (int)place;
	if (low == n - 1)
		return sorted[low];
	return sorted[low] + (place - low) * (sorted[low + 1] - sorted[low]);
}

double mad(const double *v, int n, double centre)
{
	double *distance = n > 0 ? malloc((size_t)n * sizeof *distance) : NULL;
	if (!distance)
		return NAN;
	for (int i = 0; i < n; i++)
		distance[i] = fabs(v[i] - centre);
	const double result = 1.4826 * median(distance, n);
	free(distance);
	return result;
}

/* The largest k with P(Binomial(n, 1/2) < k) <= 0.025: then [k-th smallest,
 * k-th largest] covers the median with at least 95 %. 0 when even the extremes
 * do not, which is so below six samples. */
static int interval_rank(int n)
{
	if (n > 1000) /* 2^-n would leave the doubles; normal approximation */
		return (int)floor((n - 1.96 * sqrt(n)) / 2);
	double p = ldexp(1, -n), below = 0;
	int k = 0;
	while (below + p <= 0.025) {
		below += p;
		p *= (double)(n - k) / (k + 1);
		k++;
	}
	return k;
}

double median_ci(const double *sorted, int n)
{
	const int k = n > 0 ? interval_rank(n) : 0;
	return k ? (sorted[n - k] - sorted[k - 1]) / 2 : NAN;
}
