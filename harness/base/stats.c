/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - order statistics of a few samples, normal and Student tails, and a scrambling function.
 * All are pure; without samples the result is NaN. */
#include "base.h"
#include <math.h>
#include <stdlib.h>

int by_double(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int by_int32(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	return (x > y) - (x < y);
}

double median(double *v, int n)
{
	if (n < 1)
		return NAN;
	qsort(v, (size_t)n, sizeof *v, by_double);
	const double upper = v[n / 2];
	return n % 2 ? upper : v[n / 2 - 1] + (upper - v[n / 2 - 1]) / 2;
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

/* The largest k with P(Binomial(n, 1/2) < k) <= 0.025: [k-th smallest, k-th largest] covers the
 * median with at least 95 %. 0 below six samples: even the extremes do not. */
static int interval_rank(int n)
{
	if (n > 1000) /* 2^-n underflows; normal approximation */
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

/* The k-th smallest of v, k from 0; elements before it are not larger: Hoare (1961), FIND. */
static double smallest(double *v, int n, int k)
{
	int low = 0, high = n - 1;
	while (low < high) {
		const double pivot = v[(low + high) / 2];
		int i = low, j = high;
		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j) {
				const double keep = v[i];
				v[i++] = v[j];
				v[j--] = keep;
			}
		}
		if (k <= j)
			high = j;
		else if (k >= i)
			low = i;
		else
			break;
	}
	return v[k];
}

/* Hodges and Lehmann (1963), "Estimates of location based on rank tests": the median of
 * all pairs' means. Tolerates 29 % of outliers. For normal samples it needs 5 % more samples than
 * the mean; the median needs 57 % more. */
double middle(const double *v, int n)
{
	double mean[MAX_SAMPLES * (MAX_SAMPLES + 1) / 2];
	int pairs = 0;
	if (n < 1 || n > MAX_SAMPLES)
		return NAN;
	for (int i = 0; i < n; i++)
		for (int j = i; j < n; j++)
			mean[pairs++] = (v[i] + v[j]) / 2;
	const double upper = smallest(mean, pairs, pairs / 2);
	if (pairs % 2)
		return upper;
	double lower = mean[0];
	for (int i = 1; i < pairs / 2; i++)
		lower = fmax(lower, mean[i]);
	return (lower + upper) / 2;
}

/* Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23: |error| < 4.5e-4. */
double normal_beyond(double p)
{
	const double t = sqrt(-2 * log(fmin(p, 1 - p)));
	const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
				 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
	return p <= 0.5 ? z : -z;
}

/* Wallace (1959), "Bounds on normal approximations to Student's and the chi-square
 * distributions". */
double student_normal(double t, double freedom)
{
	return copysign(sqrt(freedom * log1p(t * t / freedom)), t) * (8 * freedom + 1) /
	       (8 * freedom + 3);
}

double student_beyond(double z, double freedom)
{
	const double scaled = z * (8 * freedom + 3) / (8 * freedom + 1);
	return copysign(sqrt(freedom * expm1(scaled * scaled / freedom)), z);
}

double normal_loss(double z)
{
	return exp(-z * z / 2) / sqrt(2 * acos(-1)) - z * erfc(z / sqrt(2)) / 2;
}

unsigned long long random_bits(unsigned long long *state)
{
	unsigned long long z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

long long random_below(unsigned long long *state, long long n)
{
	return (long long)(random_bits(state) % (unsigned long long)n);
}

unsigned long long scramble(unsigned long long z)
{
	z = (z ^ z >> 31) * 0xbf58476d1ce4e5b9ull;
	return z ^ z >> 29;
}
