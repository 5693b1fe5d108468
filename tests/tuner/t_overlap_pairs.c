/* SPDX-License-Identifier: Apache-2.0 */
/* t_overlap_pairs.c - estimated times of two parts on two streams where this pair was not
 * measured, from pairs that were. */
#include "tests/support/synthetic.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define BATCH "q512_4q1s4k"
#define SLOW "TILE_SIZE=32 NUM_WARPS=2"

/* The plan of some tunables of a kernel for the prefill part and of segmented for the decodes. */
static void add_plan_of(struct data *d, const char *kernel, const char *prefill, const char *decode,
			enum attune_how how, double us, char pass)
{
	char text[2 * MAX_PART_TEXT + 32], part[2][MAX_PART_TEXT];
	snprintf(part[0], MAX_PART_TEXT, "%s %s", kernel, with(kernel, prefill));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", decode));
	parts_text(text, sizeof text, part[0], part[1], how);
	struct store_cell c = cell_like(BATCH, "plan", "plan", text, us);
	c.stage = pass == 'A' ? "race" : "b";
	c.ratio = us;
	c.pass = pass;
	assert_true(data_add(d, &c));
}

static void add_plan(struct data *d, const char *prefill, const char *decode, enum attune_how how,
		     double us, char pass)
{
	add_plan_of(d, "qblock", prefill, decode, how, us, pass);
}

static int index_of(const struct data *d, const char *kernel, const char *set)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, kernel) };
	const char *where;
	assert_true(config_parse(&c.config, c.kernel->space, with(kernel, set), &where));
	const int at = data_find(d, &c);
	assert_true(at >= 0);
	return at;
}

static void add_part(struct data *d, const char *phase, const char *kernel, const char *set,
		     double us, char pass)
{
	struct store_cell c = cell_like(BATCH, phase, kernel, with(kernel, set), us);
	c.stage = pass == 'A' ? "race" : "b";
	c.ratio = us;
	c.pass = pass;
	assert_true(data_add(d, &c));
}

/* Of each part a choice of 100 us and one of 400. */
static struct data *begin_pairs(void)
{
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	add_part(d, "prefill", "qblock", "", 100, 'A');
	add_part(d, "prefill", "qblock", SLOW, 400, 'A');
	add_part(d, "decode", "segmented", "", 100, 'A');
	add_part(d, "decode", "segmented", "SEGMENTS=1", 400, 'A');
	return d;
}

/* The estimated time of both fast ones on two streams. */
static double fast_pair(const struct data *d)
{
	const struct pick p = { index_of(d, "qblock", ""), index_of(d, "segmented", ""), 1,
				ATTUNE_STREAMS };
	return data_plan_time(d, 0, &p);
}

/* The two fast ones were not measured on two streams, nor any pair one after the other as well.
 * Times of pairs, the prefill part first; 0: not measured. */
static const struct {
	const char *name;
	double fast_slow, slow_fast, slow_slow;
	double unknown;       /* parts without times, side by side */
	double serial, other; /* one after the other: fast and slow; parts without times */
	double pairs, fast_fast;
} pairs_rows[] = {
	{ "nobody tried", 0, 0, 0, 0, 0, 0, INFINITY, 200 },
	{ "as one pair", 450, 0, 0, 0, 0, 150, 0.9, 180 },
	{ "as the best of several", 475, 400, 790, 0, 0, 150, 0.8, 160 },
	{ "not faster than all that was measured", 300, 0, 0, 0, 0, 0, 0.6, 200 },
	{ "nor than a plan of other parts", 300, 0, 0, 0, 0, 150, 0.6, 150 },
	{ "where pairs lose nothing is gained", 600, 0, 0, 0, 0, 150, 1.2, 200 },
	{ "parts without times tell nothing", 0, 0, 0, 120, 0, 0, INFINITY, 200 },
	{ "and hide no other pair", 450, 0, 0, 120, 0, 0, 0.9, 180 },
	{ "one after the other is no pair", 0, 450, 0, 0, 300, 150, 0.9, 180 },
};

static void pairs_say_what_others_gain(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(pairs_rows); i++) {
		const struct {
			const char *prefill, *decode;
			double us;
			enum attune_how how;
		} plans[] = {
			{ "", "SEGMENTS=1", pairs_rows[i].fast_slow, ATTUNE_STREAMS },
			{ SLOW, "", pairs_rows[i].slow_fast, ATTUNE_STREAMS },
			{ SLOW, "SEGMENTS=1", pairs_rows[i].slow_slow, ATTUNE_STREAMS },
			{ "BLOCK_M=32", "SEGMENTS=2", pairs_rows[i].unknown, ATTUNE_STREAMS },
			{ "", "SEGMENTS=1", pairs_rows[i].serial, ATTUNE_SERIAL },
			{ "BLOCK_M=32", "SEGMENTS=4", pairs_rows[i].other, ATTUNE_SERIAL },
		};
		struct data *d = begin_pairs();
		for (size_t k = 0; k < COUNT(plans); k++)
			if (plans[k].us > 0)
				add_plan(d, plans[k].prefill, plans[k].decode, plans[k].how,
					 plans[k].us, 'A');
		assert_true(data_finish(d));
		const double pairs = overlap_pairs(d, 0, SAYS_STREAMS), us = fast_pair(d);
		if (isinf(pairs_rows[i].pairs) ? !isinf(pairs)
					       : fabs(pairs - pairs_rows[i].pairs) > 1e-9)
			fail_msg("%s: %g", pairs_rows[i].name, pairs);
		if (fabs(us - pairs_rows[i].fast_fast) > 1e-6)
			fail_msg("%s: %g us", pairs_rows[i].name, us);
		data_free(d);
	}
}

/* A prefill that leaves units to the decodes saves a quarter beside fast decodes, so it is taken to
 * save as much beside others. */
static void split_units_save_as_much_beside_others(void **state)
{
	struct data *d = begin_pairs();
	(void)state;
	for (int how = 0; how < 2; how++)
		add_plan_of(d, "qblock_static", "SPARE_UNITS=32", "", (enum attune_how)how,
			    how == ATTUNE_STREAMS ? 150 : 200, 'A');
	assert_true(data_finish(d));
	const struct pick p = { index_of(d, "qblock_static", "SPARE_UNITS=32"),
				index_of(d, "segmented", "SEGMENTS=1"), 1, ATTUNE_STREAMS };
	assert_int_equal(pick_way(d, &p), SAYS_SPARING16 - 1);
	assert_float_equal(data_serial(d, 0), 200, 1e-6);
	assert_float_equal(data_plan_time(d, 0, &p), 150, 1e-6);
	data_free(d);
}

/* In pass B all took twice as long. A pair of pass A counts with its estimated time there, and
 * not at all if pass B has it. */
static void pairs_of_both_passes(void **state)
{
	static const struct {
		double again, pairs; /* 0: not measured again */
	} rows[] = { { 0, 0.9 }, { 950, 0.95 }, { 850, 0.85 }, { 400, 0.4 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct data *d = begin_pairs();
		add_plan(d, "", "SEGMENTS=1", ATTUNE_STREAMS, 450, 'A');
		add_plan(d, "BLOCK_M=32", "SEGMENTS=4", ATTUNE_SERIAL, 300, 'B');
		if (rows[i].again > 0)
			add_plan(d, "", "SEGMENTS=1", ATTUNE_STREAMS, rows[i].again, 'B');
		add_part(d, "prefill", "qblock", "", 200, 'B');
		add_part(d, "decode", "segmented", "", 200, 'B');
		assert_true(data_finish(d));
		d->pass = PASS_A;
		assert_float_equal(overlap_pairs(d, 0, SAYS_STREAMS), 0.9, 1e-9);
		d->pass = PASS_B;
		assert_float_equal(d->shift[0], 2, 1e-9);
		assert_float_equal(overlap_pairs(d, 0, SAYS_STREAMS), rows[i].pairs, 1e-9);
		assert_float_equal(fast_pair(d), fmax(400 * rows[i].pairs, 300), 1e-6);
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_say_what_others_gain),
		cmocka_unit_test(split_units_save_as_much_beside_others),
		cmocka_unit_test(pairs_of_both_passes),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("overlap_pairs", tests, NULL, NULL);
}
