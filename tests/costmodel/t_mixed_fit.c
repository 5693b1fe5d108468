/* SPDX-License-Identifier: Apache-2.0 */
/* t_mixed_fit.c - rates that divide mixed batches: when they are fitted, that they choose faster
 * numbers, and the header that has them. */
#include "tests/support/synthetic.h"
#include "kernels/spec/mixed.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/data/data.h"
#include "tuner/emit/emit.h"
#include "tuner/induce/induce.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static const struct mixed_rates true_rates = { 1700, 60, 5400, 3900, 3700, 4000, 12000, 3600 };
static const int units[] = { 0, 16, 24, 32, 40, 48, 64, 80, 96, 128 };

/* What a batch takes with a number of units, 0: the kernel's own, in us. */
static double time_of(const attune_shape *s, const struct part *p, int number,
		      const struct mixed_rates *rates)
{
	const struct mixed m = mixed_of(p, s, h200_run.device.units, 128, 1, rates);
	long long ns;
	const struct mixed by_hand = mixed_of(p, s, h200_run.device.units, 128, 1, &mixed_by_hand);
	const int decoding = number ? number : mixed_units(&by_hand, 8, &ns);
	return (double)mixed_ns(&m, decoding, mixed_reads_ns(&m, decoding)) / 1000;
}

static void add(struct data *d, const char *batch, const char *phase, const char *kernel,
		const char *choice, double us)
{
	struct store_cell c = cell_like(batch, phase, kernel, choice, us);
	c.ratio = us;
	c.stage = "race";
	assert_true(data_add(d, &c));
}

/* A mixed batch by all numbers of units; the parts in series take twice as long as the fastest. */
static void add_batch(struct data *d, const char *text, const struct mixed_rates *rates)
{
	char error[100], plan[2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	struct batch *b = batch_parse(text, error, sizeof error);
	struct part p;
	double least = INFINITY;
	assert_non_null(b);
	assert_true(part_make(&p, PHASE_ALL, &llama, &b->view, &h200_run.device));
	for (size_t i = 0; i < COUNT(units); i++) {
		char values[60];
		snprintf(values, sizeof values, "DECODE_UNITS=%d PREFILL_SEGMENTS=%d", units[i],
			 units[i] > 0);
		const double us = time_of(&llama, &p, units[i], rates);
		least = fmin(least, us);
		add(d, text, "all", "warpgroup_mixed", with("warpgroup_mixed", values), us);
	}
	batch_free(b);
	snprintf(part[0], MAX_PART_TEXT, "qblock %s", with("qblock", ""));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", ""));
	parts_text(plan, sizeof plan, part[0], part[1], ATTUNE_SERIAL);
	add(d, text, "prefill", "qblock", with("qblock", ""), least);
	add(d, text, "decode", "segmented", with("segmented", ""), least);
	add(d, text, "plan", "plan", plan, 2 * least);
}

static void add_batches(struct data *d, int n, const struct mixed_rates *rates)
{
	for (int i = 0; i < n; i++) {
		char text[60];
		snprintf(text, sizeof text, "q%d_%dq1s%d", 512 + 256 * (i % 12), 8 + 8 * (i / 12),
			 2000 + 700 * (i % 5));
		add_batch(d, text, rates);
	}
}

static struct data *batches(int n, const struct mixed_rates *rates)
{
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	add_batches(d, n, rates);
	assert_true(data_finish(d));
	return d;
}

/* The sum of the times with the numbers that rates choose / the least ones. */
static double slowdown_of(const struct data *d, const struct mixed_rates *by)
{
	double sum = 0;
	for (int s = 0; s < d->n; s++) {
		const struct part *p = &d->v[s].part[PHASE_ALL];
		long long least = LLONG_MAX;
		double us = 0, best = INFINITY;
		for (size_t i = 1; i < COUNT(units); i++) {
			const struct mixed m =
			    mixed_of(p, &llama, h200_run.device.units, 128, 1, by);
			const double t = time_of(&llama, p, units[i], &true_rates);
			if (mixed_sum_ns(&m, units[i]) < least)
				least = mixed_sum_ns(&m, units[i]), us = t;
			best = fmin(best, t);
		}
		sum += us / best / d->n;
	}
	return sum;
}

static void rates_are_fitted_where_they_pay(void **state)
{
	static const struct {
		const char *name;
		int batches;
		const struct mixed_rates *rates;
		int fits;
	} rows[] = { { "other rates", 120, &true_rates, 1 },
		     { "too few batches", 60, &true_rates, 0 },
		     { "the kernel's own", 120, &mixed_by_hand, 0 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = batches(rows[i].batches, rows[i].rates);
		struct mixed_rates fitted;
		assert_true(mixed_fit(d, &fitted));
		if ((fitted.unit_flops > 0) != rows[i].fits)
			fail_msg("%s: %d", rows[i].name, fitted.unit_flops);
		if (rows[i].fits)
			assert_true(slowdown_of(d, &fitted) - 1 <
				    (slowdown_of(d, &mixed_by_hand) - 1) / 2);
		data_free(d);
	}
}

/* The header has the rates; what is read back runs batches with their numbers, which have times. */
static void headers_have_the_rates(void **state)
{
	struct data *d = batches(120, &true_rates);
	struct forest f, back;
	int by_rates = 0;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(f.mixed.unit_flops > 0);
	char *text = forest_emit(&f, d);
	assert_non_null(strstr(text, "#define ATTUNE_H200_MIXED(MIXED) MIXED("));
	assert_true(forest_parse(&back, text, "text"));
	assert_memory_equal(&back.mixed, &f.mixed, sizeof f.mixed);
	for (int s = 0; s < d->n; s++) {
		struct pick p;
		forest_pick(d, &back, s, &p);
		assert_int_equal(p.join, 0);
		assert_true(isfinite(data_plan_time(d, s, &p)));
		const struct choice *c = &d->choice[p.prefill];
		by_rates += config_value(&c->config, c->kernel->space, "DECODE_UNITS", 0) > 0;
	}
	assert_true(by_rates > d->n / 2);
	free(text);
	forest_free(&back);
	forest_free(&f);
	data_free(d);
}

/* A header gets no rates while most of what it would run by them has no time. */
static void no_rates_without_times_of_their_numbers(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct forest f;
	char text[60];
	(void)state;
	assert_non_null(d);
	add_batches(d, 120, &true_rates);
	for (int i = 0; i < 120; i++) {
		snprintf(text, sizeof text, "q%d_%dq1s9k", 600 + 128 * i, 20 + i);
		add(d, text, "all", "warpgroup_mixed", with("warpgroup_mixed", ""), 100);
		add(d, text, "prefill", "qblock", with("qblock", ""), 100);
		add(d, text, "decode", "segmented", with("segmented", ""), 100);
	}
	assert_true(data_finish(d));
	assert_true(forest_induce(&f, d, &default_limits));
	assert_int_equal(f.mixed.unit_flops, 0);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_fitted_where_they_pay),
		cmocka_unit_test(headers_have_the_rates),
		cmocka_unit_test(no_rates_without_times_of_their_numbers),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("mixed_fit", tests, NULL, NULL);
}
