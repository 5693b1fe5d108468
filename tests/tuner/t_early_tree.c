/* SPDX-License-Identifier: Apache-2.0 */
/* t_early_tree.c - the early decision: ratios within a race, the tree, what leaves must not
 * name, headers and files, and `attune eval`. */
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include "kernels/select/selector.h"
#include "tuner/induce/early_decision.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

enum { VALUES = MOST_EARLY + 1 };

/* One race: a choice in turn and early, and their times; 0: it failed. */
static void add(struct data *d, const char *batch, const char *split, const double us[VALUES])
{
	static const char *const sets[VALUES] = { "SEGMENTS=2", "SEGMENTS=2 EARLY=1",
						  "SEGMENTS=2 EARLY=2" };
	for (int v = VALUES; v >= 0; v--) {
		const int is_raced = v == VALUES; /* in another session, where it took longer */
		const double t = is_raced ? 1.3 * us[0] : us[v];
		struct store_cell c =
		    cell_like(batch, "decode", "ring", with("ring", sets[v % VALUES]), t);
		c.split = split;
		c.stage = is_raced ? "race" : "early";
		c.pass = is_raced ? 'A' : 'E';
		c.ratio = t / 7;
		if (t <= 0)
			c.outcome = "wrong";
		assert_true(data_add(d, &c));
	}
}

/* Of up to 8 sequences EARLY=2 takes a fifth less, of more it takes a tenth more. */
static struct data *two_sides(struct forest *f)
{
	static const double few[VALUES] = { 10, 9, 8 }, many[VALUES] = { 20, 20.5, 22 };
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	for (int n = 1; n <= 128; n *= 2)
		for (int k = 0; k < 4; k++) {
			char batch[40];
			snprintf(batch, sizeof batch, "%dq1s%dk", n, 1 << k);
			add(d, batch, k == 2 ? "heldout" : "train", n <= 8 ? few : many);
		}
	assert_true(data_finish(d) && forest_induce(f, d, &default_limits));
	return d;
}

static void it_pays_where_it_was_seen_to(void **state)
{
	struct forest f;
	struct data *d = two_sides(&f);
	(void)state;
	assert_int_equal(d->num_choices, 1);
	assert_int_equal(d->num_early, 96);
	assert_int_equal(d->ignored, 0);
	assert_int_equal(tree_leaves(&f.tree[DECIDE_EARLY]), 2);
	for (int s = 0; s < d->n; s++) {
		const struct attune_features *x = &d->v[s].part[PHASE_DECODE].f;
		assert_int_equal(forest_early(&f, x), x->num_seqs <= 8 ? 2 : 0);
	}
	forest_free(&f);
	data_free(d);
}

/* Only times of one race are compared, and a choice that failed anywhere is not named. */
static void what_is_not_known_is_not_said(void **state)
{
	static const double good[VALUES] = { 10, 9, 8 }, wrong[VALUES] = { 10, 9, 0 };
	struct data *d = data_new("h200", &h200_run);
	struct forest f;
	(void)state;
	add(d, "2q1s1k", "train", good);
	add(d, "2q1s1100", "train", wrong);
	add(d, "2q1s1200", "train", good);
	struct store_cell later =
	    cell_like("4q1s1k", "decode", "ring", with("ring", "SEGMENTS=2 EARLY=1"), 1);
	later.pass = 'E';
	later.run = 9;
	assert_true(data_add(d, &later));
	later.choice = with("ring", "SEGMENTS=2");
	later.run = 8;
	assert_true(data_add(d, &later) && data_finish(d));
	assert_true(forest_induce(&f, d, &default_limits));
	assert_int_equal(f.tree[DECIDE_EARLY].n, 1);
	assert_int_equal(f.tree[DECIDE_EARLY].v[0].action, 1);
	assert_int_equal(f.tree[DECIDE_EARLY].v[0].support, 3);
	for (int s = 0; s < d->n; s++) {
		const int other_race = d->v[s].part[PHASE_DECODE].f.num_seqs == 4;
		assert_int_equal(isnan(early_part_ratio(d, s, PHASE_DECODE, 0, 1)), other_race);
		assert_int_equal(isnan(early_ratio(d, s, PHASE_DECODE, 1)), other_race);
	}
	forest_free(&f);
	data_free(d);
}

static void without_times_nothing_is_said(void **state)
{
	static const double turn[VALUES] = { 10, 0, 0 };
	struct data *d = data_new("h200", &h200_run);
	struct forest f, back;
	(void)state;
	add(d, "2q1s1k", "train", turn);
	assert_true(data_finish(d) && forest_induce(&f, d, &default_limits));
	assert_false(forest_says_early(&f));
	char *text = forest_emit(&f, d);
	assert_null(strstr(text, "early"));
	assert_true(forest_parse(&back, text, "text"));
	assert_false(forest_says_early(&back));
	free(text);
	forest_free(&back);
	forest_free(&f);
	data_free(d);
}

static void headers_hold_it(void **state)
{
	struct forest f, back;
	struct data *d = two_sides(&f);
	char *text = forest_emit(&f, d);
	(void)state;
	assert_non_null(strstr(text, "\nATTUNE_SELECT int attune_h200_early("));
	assert_non_null(strstr(text, "return 2; /* "));
	assert_true(forest_parse(&back, text, "text"));
	assert_true(forest_says_early(&back));
	char *again = forest_emit(&f, d);
	assert_string_equal(text, again);
	for (int s = 0; s < d->n; s++) {
		const struct attune_features *x = &d->v[s].part[PHASE_DECODE].f;
		assert_int_equal(forest_early(&f, x), forest_early(&back, x));
	}
	free(again);
	free(text);
	forest_free(&back);
	forest_free(&f);
	data_free(d);
}

static void the_library_reads_it(void **state)
{
	char path[] = "/tmp/t_early_tree.XXXXXX";
	struct forest f;
	struct data *d = two_sides(&f);
	char *text = forest_emit(&f, d);
	struct override *o;
	(void)state;
	const int file = mkstemp(path);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	if (override_open(&o, path, &h200_run.device))
		fail_msg("%s", attune_last_error());
	for (int s = 0; s < d->n; s++) {
		const struct attune_features *x = &d->v[s].part[PHASE_DECODE].f;
		assert_int_equal(selector_says(override_selector(o), DECIDE_EARLY, x),
				 x->num_seqs <= 8 ? 2 : 0);
	}
	override_close(o);
	unlink(path);
	free(text);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_pays_where_it_was_seen_to),
		cmocka_unit_test(what_is_not_known_is_not_said),
		cmocka_unit_test(without_times_nothing_is_said),
		cmocka_unit_test(headers_hold_it),
		cmocka_unit_test(the_library_reads_it),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("early_tree", tests, NULL, NULL);
}
