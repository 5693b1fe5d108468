/* SPDX-License-Identifier: Apache-2.0 */
/* t_segment_fit.c - costs that choose SEGMENTS, fitted to the loss of what they choose
 * (tuner/costmodel/segment_fit.c): from a bad beginning they find numbers of segments as fast as
 * those that made the times, in batches of the fit and in others. */
#include "harness/base/base.h"
#include "tuner/costmodel/costmodel.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCHES = 160 };
static const int values[] = { 1, 2, 3, 4, 6, 8 };

/* What the times are made by: three blocks a unit, in clusters. */
static const struct block_shape block = { 8, 16, 0, 1 };
static const struct segment_costs truth = { 3, 64, 5000000, 700000000, 40000000, 300000 };
/* One block a unit and cuts that cost nothing. */
static const struct segment_costs bad = { 1, 0, 5000000, 0, 0, 0 };

struct field {
	struct attune_features f[BATCHES];
	struct segment_row row[BATCHES];
};

static double us_of(const struct attune_features *f, int segments)
{
	return 3 + (double)segments_cost(&truth, &block, f, segments) / 1e9;
}

static void make_batch(struct attune_features *f, unsigned long long *state)
{
	const long long seqs = 1 + (long long)(random_bits(state) % 60);
	const long long keys = 100 << random_bits(state) % 8;
	*f =
	    (struct attune_features){ .num_query_heads = 32,
				      .num_kv_heads = 8,
				      .group = 4,
				      .units = 132,
				      .window = 1 << 30,
				      .num_seqs = seqs,
				      .max_query = 1,
				      .mean_query = 1,
				      .query_tokens = seqs,
				      .keys_per_query = keys,
				      .max_seq = keys * (1 + (long long)(random_bits(state) % 3)) };
}

static void make_row(struct segment_row *row, const struct attune_features *f)
{
	*row =
	    (struct segment_row){ .f = f, .n = COUNT(values), .least_us = INFINITY, .weight = 1 };
	for (size_t i = 0; i < COUNT(values); i++) {
		row->segments[i] = values[i];
		row->us[i] = us_of(f, values[i]);
		row->least_us = fmin(row->least_us, row->us[i]);
	}
}

static struct field *field_new(unsigned long long seed)
{
	struct field *x = calloc(1, sizeof *x);
	assert_non_null(x);
	for (int i = 0; i < BATCHES; i++) {
		make_batch(&x->f[i], &seed);
		make_row(&x->row[i], &x->f[i]);
	}
	return x;
}

static double mean_loss(const struct field *x, const struct segment_costs *c)
{
	double sum = 0;
	for (int i = 0; i < BATCHES; i++) {
		int best = 1;
		for (size_t k = 0; k < COUNT(values); k++)
			if (segments_cost(c, &block, &x->f[i], values[k]) <
			    segments_cost(c, &block, &x->f[i], best))
				best = values[k];
		sum += us_of(&x->f[i], best) / x->row[i].least_us - 1;
	}
	return sum / BATCHES;
}

static void they_choose_as_what_made_the_times(void **state)
{
	(void)state;
	for (unsigned long long seed = 1; seed < 6; seed++) {
		struct field *x = field_new(seed), *other = field_new(seed + 100);
		struct segment_costs c = bad;
		assert_true(mean_loss(x, &bad) > 0.02);
		assert_true(segment_costs_fit(&c, &block, x->row, BATCHES, 8));
		assert_true(mean_loss(x, &c) < 0.002);
		assert_true(mean_loss(other, &c) < 0.005);
		free(x);
		free(other);
	}
}

/* At most as many slots as the kernel has, and the same costs every time. */
static void within_its_limits(void **state)
{
	struct field *x = field_new(7);
	struct segment_costs a = bad, b = bad;
	(void)state;
	assert_true(segment_costs_fit(&a, &block, x->row, BATCHES, 2));
	assert_in_range(a.slots, 1, 2);
	assert_true(segment_costs_fit(&b, &block, x->row, BATCHES, 2));
	assert_memory_equal(&a, &b, sizeof a);
	assert_true(mean_loss(x, &a) < mean_loss(x, &bad));
	free(x);
}

/* A number without a time counts as its nearest one and a little more: with only the fast numbers
 * measured, what the costs choose is fast in truth. */
static void slow_numbers_need_no_times(void **state)
{
	struct field *x = field_new(9);
	struct segment_costs c = bad;
	(void)state;
	for (int i = 0; i < BATCHES; i++)
		for (int k = 0; k < x->row[i].n; k++)
			if (x->row[i].us[k] > 1.2 * x->row[i].least_us)
				x->row[i].us[k] = INFINITY;
	assert_true(segment_costs_fit(&c, &block, x->row, BATCHES, 8));
	assert_true(mean_loss(x, &c) < 0.01);
	free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_choose_as_what_made_the_times),
		cmocka_unit_test(within_its_limits),
		cmocka_unit_test(slow_numbers_need_no_times),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("segment fit", tests, NULL, NULL);
}
