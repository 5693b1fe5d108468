/* SPDX-License-Identifier: Apache-2.0 */
/* t_stats.c - order statistics, against answers worked out by hand or taken from binomial
 * tables. */
#include "harness/base/base.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define N_OF(...) (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))
#define ROW(name, want, ...)                                   \
	{                                                      \
		name, { __VA_ARGS__ }, N_OF(__VA_ARGS__), want \
	}

struct row {
	const char *name;
	double v[16];
	int n;
	double want;
};

static void same(double got, double want)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(fabs(got - want) <= 1e-12 * (1 + fabs(want)));
}

// clang-format off
static struct row medians[] = {
	ROW("median: one",                      3,    3),
	ROW("median: odd count",                3,    9, 1, 3),
	ROW("median: even count averages",      2.5,  4, 1, 3, 2),
	ROW("median: one wild outlier",         3,    1, 3, 1e9),
	ROW("median: repeated values",          2,    2, 2, 2, 1, 7),
	ROW("median: sorts negative numbers",   -1,   5, -7, -1),
};
static struct row middles[] = {
	ROW("middle: one",                      3,    3),
	ROW("middle: two average",              2,    1, 3),
	ROW("middle: of 1 2 9",                 3.5,  1, 2, 9), /* means 1 1.5 2 5 5.5 9 */
	ROW("middle: symmetric",                5,    1, 3, 5, 7, 9),
	ROW("middle: outliers below 29 %",      2.5,  2, 3, 2, 3, 2, 3, 2, 3, 1e9),
	ROW("middle: all alike",                4,    4, 4, 4, 4),
};
static struct row mads[] = {
	ROW("mad about 3: 1 2 3 4 5",           1.4826,     1, 2, 3, 4, 5),
	ROW("mad about 3: constant",            0,          3, 3, 3),
	ROW("mad about 3: outlier",             1.4826,     2, 3, 4, 3, 1000, 2, 4),
	ROW("mad about 3: even count averages", 1.4826 * 2, 3, 4, 6, 7),
};
/* Sample sizes and the rank k of the 95 % interval of the median. */
static struct { const char *name; int n, k; } ranks[] = {
	{ "interval: none of 1 sample",         1,   0 },
	{ "interval: none of 5 samples",        5,   0 },
	{ "interval: 6 samples, rank 1",        6,   1 },
	{ "interval: 8 samples, rank 1",        8,   1 },
	{ "interval: 9 samples, rank 2",        9,   2 },
	{ "interval: 12 samples, rank 3",       12,  3 },
	{ "interval: 20 samples, rank 6",       20,  6 },
	{ "interval: 64 samples, rank 24",      64,  24 },
	{ "interval: 100 samples, rank 40",     100, 40 },
	{ "interval: 2000 samples, rank 956",   2000, 956 },
};
/* Upper tails of a normal variable, and of Student's t with as much beyond it. */
static struct tail { const char *name; double p, z, freedom, t; } tails[] = {
	{ "tail: 5 %, 3 degrees",               0.05,   1.6449, 3,  2.3534 },
	{ "tail: 5 %, 10 degrees",              0.05,   1.6449, 10, 1.8125 },
	{ "tail: 0.5 %, 5 degrees",             0.005,  2.5758, 5,  4.0321 },
	{ "tail: 0.5 %, 30 degrees",            0.005,  2.5758, 30, 2.7500 },
	{ "tail: 0.05 %, 8 degrees",            0.0005, 3.2905, 8,  5.0413 },
	{ "tail: 90 %, 20 degrees",             0.9,   -1.2816, 20, -1.3253 },
};
// clang-format on

static void check_median(void **state)
{
	struct row r = *(struct row *)*state;
	same(median(r.v, r.n), r.want);
	for (int i = 1; i < r.n; i++)
		assert_true(r.v[i - 1] <= r.v[i]);
}

static void check_middle(void **state)
{
	struct row r = *(struct row *)*state;
	same(middle(r.v, r.n), r.want);
}

/* The approximations are as good as their sources claim. */
static void check_tail(void **state)
{
	const struct tail *r = *state;
	const double t = student_beyond(r->z, r->freedom);
	assert_true(fabs(normal_beyond(r->p) - r->z) < 5e-4);
	assert_true(fabs(t / r->t - 1) < 0.02);
	assert_true(fabs(student_normal(t, r->freedom) - r->z) < 1e-9);
}

/* Loss when the other is as good, and far worse or better. */
static void losses(void **state)
{
	(void)state;
	same(normal_loss(0), 1 / sqrt(2 * acos(-1)));
	assert_true(normal_loss(4) < 1e-5);
	assert_true(fabs(normal_loss(-4) - 4) < 1e-5);
}

static void check_mad(void **state)
{
	const struct row *r = *state;
	same(mad(r->v, r->n, 3), r->want);
}

/* Of the values i * i the k-th smallest is (k - 1)^2, the k-th largest (n - k)^2. */
static void check_rank(void **state)
{
	const int n = ((int *)*state)[0], k = ((int *)*state)[1];
	double *v = malloc((size_t)n * sizeof *v);
	assert_non_null(v);
	for (int i = 0; i < n; i++)
		v[i] = (double)i * i;
	const double low = (double)(k - 1) * (k - 1), high = (double)(n - k) * (n - k);
	same(median_ci(v, n), k ? (high - low) / 2 : NAN);
	free(v);
}

static void nothing(void **state)
{
	(void)state;
	double v[1] = { 1 };
	same(median(v, 0), NAN);
	same(middle(v, 0), NAN);
	same(mad(v, 0, 0), NAN);
	same(median_ci(v, 0), NAN);
}

int main(void)
{
	struct CMUnitTest t[64] = { cmocka_unit_test(nothing), cmocka_unit_test(losses) };
	size_t n = 2;
	for (size_t i = 0; i < COUNT(medians); i++)
		t[n++] = (struct CMUnitTest){ medians[i].name, check_median, 0, 0, &medians[i] };
	for (size_t i = 0; i < COUNT(middles); i++)
		t[n++] = (struct CMUnitTest){ middles[i].name, check_middle, 0, 0, &middles[i] };
	for (size_t i = 0; i < COUNT(tails); i++)
		t[n++] = (struct CMUnitTest){ tails[i].name, check_tail, 0, 0, &tails[i] };
	for (size_t i = 0; i < COUNT(mads); i++)
		t[n++] = (struct CMUnitTest){ mads[i].name, check_mad, 0, 0, &mads[i] };
	for (size_t i = 0; i < COUNT(ranks); i++)
		t[n++] = (struct CMUnitTest){ ranks[i].name, check_rank, 0, 0, &ranks[i].n };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("stats", t, n, NULL, NULL);
}
