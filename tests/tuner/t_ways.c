/* SPDX-License-Identifier: Apache-2.0 */
/* t_ways.c - the ways to run a mixed batch that the pictures and tables show: the time of each
 * overlap against the best serial plan. */
#include "tests/support/synthetic.h"
#include "harness/scratch/scratch.h"
#include "tuner/forest/forest.h"
#include "tuner/plot/plot.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <cmocka.h>

static void add(struct data *d, const char *batch, const char *phase, const char *kernel,
		const char *choice, double us)
{
	struct store_cell c = cell_like(batch, phase, kernel, choice, us);
	assert_true(data_add(d, &c));
}

static void add_plan(struct data *d, const char *batch, const char *prefill, const char *between,
		     double us)
{
	char text[400];
	snprintf(text, sizeof text, "prefill: %s %sdecode: segmented %s", prefill, between,
		 with("segmented", "SEGMENTS=4"));
	add(d, batch, "plan", "plan", text, us);
}

/* 100 us in a row; a part of it that no serial plan counts. */
static void add_batch(struct data *d, const char *batch, double streams, double split)
{
	char serial[200], spare[200];
	snprintf(serial, sizeof serial, "qblock %s", with("qblock", ""));
	snprintf(spare, sizeof spare, "qblock_static %s", with("qblock_static", "SPARE_UNITS=32"));
	add(d, batch, "prefill", "qblock", with("qblock", ""), 30);
	add(d, batch, "decode", "segmented", with("segmented", "SEGMENTS=4"), 90);
	add(d, batch, "all", "qblock", with("qblock", ""), 200);
	add(d, batch, "all", "pod", with("pod", ""), 80);
	add_plan(d, batch, serial, "| ", 100);
	add_plan(d, batch, serial, "|| ", streams);
	add_plan(d, batch, spare, "|| ", split);
}

enum { MOST_GAINS = 3 };
struct gains {
	double v[MOST_GAINS];
	int n;
};

static int take(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct gains *g = arg;
	(void)statement, (void)columns;
	assert_true(g->n < MOST_GAINS);
	g->v[g->n++] = v[0].real;
	return 1;
}

/* What the first column of the tables of the pictures answers. Nothing is tuned. */
static struct gains ask(const struct data *d, const char *sql)
{
	struct forest defaults;
	struct gains g = { .n = 0 };
	assert_true(forest_defaults(&defaults, "h200"));
	const struct plotted p = { .data = d, .forest = &defaults };
	struct scratch *facts = facts_make(&p);
	assert_non_null(facts);
	assert_true(scratch_ask(facts, "t_ways", sql, take, &g));
	scratch_free(facts);
	forest_free(&defaults);
	return g;
}

/* Speedups of a way over the serial plan, ascending. */
static struct gains gains(const struct data *d, const char *way)
{
	char sql[300];
	snprintf(sql, sizeof sql,
		 "SELECT serial / us AS gain FROM mixed JOIN way_time USING (scenario, pass)"
		 "JOIN way ON way.id = way WHERE pass = 0 AND name = '%s' ORDER BY gain",
		 way);
	return ask(d, sql);
}

static void overlaps_are_distinguished(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	(void)state;
	add_batch(d, "32q1s8k_q512s8k", 95, 80);
	add_batch(d, "64q1s4k_q1ks12k", 110, 50);
	assert_true(data_finish(d));
	struct gains v = ask(d, "SELECT prefill_share FROM mixed WHERE pass = 0");
	assert_int_equal(v.n, 2);
	assert_true(fabs(v.v[0] - 25) < 1e-9);
	v = gains(d, "two streams");
	assert_int_equal(v.n, 2);
	assert_true(fabs(v.v[0] - 100. / 110) < 1e-9 && fabs(v.v[1] - 100. / 95) < 1e-9);
	v = gains(d, "SMs split in two");
	assert_int_equal(v.n, 2);
	assert_true(fabs(v.v[0] - 1.25) < 1e-9 && fabs(v.v[1] - 2) < 1e-9);
	v = gains(d, "one launch");
	assert_int_equal(v.n, 2);
	assert_true(fabs(v.v[0] - 0.5) < 1e-9);
	v = gains(d, "one fused kernel");
	assert_int_equal(v.n, 2);
	assert_true(fabs(v.v[0] - 1.25) < 1e-9);
	data_free(d);
}

/* Parts that were raced alone may beat every serial plan of a race. */
static void best_serial_plan_is_of_all_races(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	(void)state;
	add_batch(d, "32q1s8k_q512s8k", 95, 80);
	add(d, "32q1s8k_q512s8k", "prefill", "qblock", with("qblock", "TILE_SIZE=32"), 10);
	add(d, "32q1s8k_q512s8k", "decode", "segmented", with("segmented", "SEGMENTS=8"), 66);
	add(d, "64q1s4k_q1ks12k", "all", "qblock", with("qblock", ""), 200); /* nothing overlaps */
	assert_true(data_finish(d));
	const struct gains v = gains(d, "two streams");
	assert_int_equal(v.n, 1);
	assert_true(fabs(v.v[0] - 76. / 95) < 1e-9);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlaps_are_distinguished),
		cmocka_unit_test(best_serial_plan_is_of_all_races),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("ways", tests, NULL, NULL);
}
