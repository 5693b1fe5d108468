/* SPDX-License-Identifier: Apache-2.0 */
/* t_answers.c - the answers of show and diff, checked against the database. */
#include "harness/measure/measure.h"
#include "tuner/commands.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include "tuner/eval/eval.h"
#include "tuner/remeasure/requests.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/commands.h"
#include "two_passes.h"

/* Three decode scenarios, one of them held out, and a header that separates them by num_seqs <=
 * 8. */
static void make_few(const char *db, const char *header)
{
	static const struct synthetic cells[] = { { "4q1s4k", "decode", "train", 0, 10 },
						  { "4q1s4k", "decode", "train", 1, 20 },
						  { "16q1s4k", "decode", "train", 0, 20 },
						  { "16q1s4k", "decode", "train", 1, 10 },
						  { "8q1s4k", "decode", "heldout_blocked", 0,
						    10 } };
	struct store *st = store_open(db, 0);
	struct forest f = { .num_choices = 2, .gpu = "h200" };
	const long long run = store_begin_run(st, &h200_run);
	for (size_t i = 0; i < COUNT(cells); i++)
		put(st, run, &cells[i]);
	store_close(st);
	struct data *d = data_load(db, "h200");
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f.tree[t]), 0);
		f.tree[t].v[0].action = t == DECIDE_OVERLAP ? SAYS_SERIAL
					: t == DECIDE_EARLY ? SAYS_OWN
							    : 0;
	}
	struct tree *t = &f.tree[DECIDE_DECODE];
	const int below = tree_new_node(t), above = tree_new_node(t);
	t->v[0].feature = ATTUNE_FEATURE_num_seqs;
	t->v[0].threshold = 8;
	t->v[0].below = below;
	t->v[0].above = above;
	t->v[above].action = 1;
	t->v[below].support = 1, t->v[below].weight = 1;
	t->v[above].support = 2, t->v[above].weight = 2;
	f.choice[0] = d->choice[0];
	f.choice[1] = d->choice[1];
	char *text = forest_emit(&f, d);
	FILE *out = fopen(header, "w");
	assert_true(text && out && fputs(text, out) >= 0 && !fclose(out));
	free(text);
	forest_free(&f);
	data_free(d);
}

static void test_show_explains(void **state)
{
	const char *db = in_folder("few.sqlite"), *header = in_folder("few.h");
	struct forest f;
	struct measured m;
	char text[MAX_CHOICE_TEXT];
	(void)state;
	make_few(db, header);
	assert_true(forest_load(&f, header));
	struct data *d = data_load(db, "h200");
	assert_non_null(d);
	/* Never measured, and beyond the training scenarios. */
	assert_true(measured_make(&m, d, "llama3.1-8b@1", &llama, "200q1s64k"));
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --header %s --model "
						     "llama3.1-8b@1 --batch 200q1s64k --why "
						     "--format json",
						     db, header)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	int tests = 0, picked = 0, outside = 0, expected = 0, leaves = 0, at = 0;
	size_t i;
	const struct tree *t = &f.tree[DECIDE_DECODE];
	json_array_foreach(o, i, row)
	{
		const char *what = json_string_value(member(row, "what"));
		const char *is = json_string_value(member(row, "is"));
		if (!strcmp(what, "test")) { /* in the order of the walk */
			const int feature = t->v[at].feature;
			assert_true(feature >= 0);
			assert_non_null(strstr(is, feature_names[feature]));
			at = ((const long long *)&m.part[PHASE_DECODE].f)[feature] <=
				     t->v[at].threshold
				 ? t->v[at].below
				 : t->v[at].above;
			tests++;
		} else if (!strcmp(what, "picked")) {
			struct decided made;
			forest_make(d, &f, &m, &made);
			choice_text(text, sizeof text, &made.decode);
			assert_string_equal(is, text);
			picked++;
		}
		if (!strcmp(what, "leaf")) {
			assert_int_equal(t->v[at].feature, -1);
			assert_int_equal(atoi(is), t->v[at].support);
			leaves++;
		}
		outside += !strcmp(what, "outside") && strstr(is, "max_seq");
		expected += !strcmp(what, "expected") && strstr(is, "estimated");
	}
	json_decref(o);
	assert_int_equal(at, tree_leaf(t, &m.part[PHASE_DECODE].f));
	assert_int_equal(t->v[at].feature, -1);
	assert_true(tests > 0);
	assert_int_equal(leaves, 1);
	assert_int_equal(picked, 1);
	assert_int_equal(outside, 1);
	assert_int_equal(expected, 1);
	measured_free(&m);
	forest_free(&f);
	data_free(d);
}

/* ---- what was measured of one batch ------------------------------------------------------ */
/* A noisy row is noticed where it is read. */
static void test_show_reads_one_batch(void **state)
{
	static const char *const batches[] = { "8q1s4k", "4q1s4k", "16q1s4k" };
	static const struct synthetic noisy = { "4q1s4k", "decode", "train", 2, 10 };
	const char *db = in_folder("one.sqlite"), *header = in_folder("one.h");
	(void)state;
	make_few(db, header);
	struct store *st = store_open(db, 0);
	outcome_of_put = OUTCOME_NOISY;
	put(st, store_begin_run(st, &h200_run), &noisy);
	outcome_of_put = OUTCOME_OK;
	store_close(st);
	for (size_t i = 0; i < COUNT(batches); i++) {
		listen_begin();
		const int code =
		    run_command(cmd_show, words("--gpu h200 --db %s --header %s --model "
						"llama3.1-8b@1 --batch %s",
						db, header, batches[i]));
		const int is_heard = strstr(heard(), "1 measurements are too noisy") != NULL;
		assert_int_equal(code, EXIT_DONE);
		assert_int_equal(is_heard, i == 1);
	}
}

static int show_passes_as(const char *options)
{
	return run_command(cmd_show,
			   words("--gpu h200 --db %s --header %s --model llama3.1-8b@1 --batch "
				 "8q1s4k %s",
				 in_folder("passes.sqlite"), in_folder("passes.h"), options));
}

/* The row of that choice; borrowed. */
static json_t *row_of(json_t *rows, int choice)
{
	json_t *row, *found = NULL;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		if (!strcmp(json_string_value(member(row, "variant")), segmented(choice)))
			found = row;
	}
	assert_non_null(found);
	return found;
}

static void test_show_keeps_passes_apart(void **state)
{
	static const struct {
		int choice;
		const char *pass, *vs_pick;
		double ratio; /* to the pick's time of that pass, 102 or 101 us */
	} want[] = {
		{ PICK, "B", "pick", 1 },          { 4, "B", "tie", 102.1 / 102 },
		{ 5, "B", "slower", 122.4 / 102 }, { 0, "A", "faster", 95. / 101 },
		{ 6, "A", "slower", 106. / 101 },
	};
	json_t *row;
	size_t i;
	int rivals = 0;
	(void)state;
	make_passes(in_folder("passes.sqlite"), in_folder("passes.h"));
	assert_int_equal(show_passes_as("--format json"), EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), NUM_FIRST);
	for (i = 0; i < COUNT(want); i++) {
		row = row_of(o, want[i].choice);
		assert_string_equal(json_string_value(member(row, "pass")), want[i].pass);
		assert_string_equal(json_string_value(member(row, "vs_pick")), want[i].vs_pick);
		assert_true(fabs(json_real_value(member(row, "ratio")) - want[i].ratio) < 1e-4);
	}
	json_decref(o);
	/* No first time is a rival of a second one. */
	assert_int_equal(show_passes_as("--why --format json"), EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	json_array_foreach(o, i, row)
	{
		if (strcmp(json_string_value(member(row, "what")), "rival") ||
		    strcmp(json_string_value(member(row, "decision")), "decode"))
			continue;
		assert_string_equal(json_string_value(member(row, "pass")), "B");
		assert_true(json_number_value(member(row, "ratio")) > 1);
		rivals++;
	}
	assert_int_equal(rivals, 2);
	json_decref(o);
}

/* A pick without a time: the fastest choice takes its place. */
static void test_show_why_of_a_pick_without_a_time(void **state)
{
	const char *what, *is, *wanted = NULL;
	json_t *row;
	size_t i;
	(void)state;
	make_passes(in_folder("passes.sqlite"), in_folder("passes.h"));
	assert_int_equal(
	    system(words("sed -i 's/ SEGMENTS=2\"/ SEGMENTS=16\"/' %s", in_folder("passes.h"))), 0);
	assert_int_equal(show_passes_as("--why --format json"), EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	json_array_foreach(o, i, row)
	{
		what = json_string_value(member(row, "what"));
		is = json_string_value(member(row, "is"));
		if (strcmp(json_string_value(member(row, "decision")), "decode"))
			continue;
		if (!strcmp(what, "picked"))
			assert_non_null(strstr(is, "SEGMENTS=16"));
		if (!strcmp(what, "rival") && !wanted) {
			wanted = is;
			assert_non_null(strstr(is, segmented(0)));
			assert_true(json_number_value(member(row, "median_us")) == 95);
		}
	}
	assert_non_null(wanted);
	json_decref(o);
}

/* Lines that begin with a rank. */
static int ranked_lines(const char *text)
{
	int n = 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const size_t blanks = strspn(line, " |");
		n += blanks && line[blanks] >= '1' && line[blanks] <= '9';
	}
	return n;
}

static void test_show_for_people(void **state)
{
	(void)state;
	make_passes(in_folder("passes.sqlite"), in_folder("passes.h"));
	assert_int_equal(show_passes_as(""), EXIT_DONE);
	const char *second = strstr(printed, "# Second pass"),
		   *first = strstr(printed, "# First pass");
	assert_true(second && first && second < first);
	assert_non_null(strstr(printed, "# takes: 102.000 us"));
	/* 3 of the second pass; 21 of the first alone and the pick's first time */
	assert_int_equal(ranked_lines(second), 20);
	assert_non_null(strstr(first, "pick  "));
	assert_non_null(strstr(first, "# 5 more: --all"));
	assert_int_equal(show_passes_as("--all"), EXIT_DONE);
	assert_int_equal(ranked_lines(strstr(printed, "# Second pass")), NUM_FIRST + 1);
	assert_null(strstr(printed, "more: --all"));
	assert_int_equal(show_passes_as("--format markdown"), EXIT_DONE);
	second = strstr(printed, "\n\nSecond pass");
	assert_non_null(second);
	assert_non_null(strstr(second, "| ---: | "));
	assert_int_equal(ranked_lines(second), 20);
	assert_int_equal(show_passes_as("--format csv"), EXIT_DONE);
	int lines = 0;
	for (const char *c = printed; *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, NUM_FIRST + 1);
	assert_int_equal(strncmp(printed, "plan,kernel,variant,", 20), 0);
}

/* Rows of an older source: all that qblock (choice 0) has, one of them the fastest of its part;
 * segmented (choice 4) is of today's. */
static void test_show_stale(void **state)
{
	const char *db = in_folder("stale.sqlite");
	static const struct synthetic cells[] = { { "4q1s4k", "decode", "train", 0, 10 },
						  { "4q1s4k", "decode", "train", 4, 20 },
						  { "16q1s4k", "decode", "train", 0, 20 },
						  { "16q1s4k", "decode", "train", 4, 10 },
						  { "8q1s4k", "decode", "heldout", 4, 10 } };
	(void)state;
	struct store *st = store_open(db, 0);
	const long long run = store_begin_run(st, &h200_run);
	for (size_t i = 0; i < COUNT(cells); i++)
		if (!cells[i].choice)
			put(st, run, &cells[i]);
	assert_true(store_query(st, "UPDATE code SET sources = 'qblock:edited' || id", NULL, NULL));
	for (size_t i = 0; i < COUNT(cells); i++)
		if (cells[i].choice)
			put(st, run, &cells[i]);
	store_close(st);
	assert_int_equal(
	    run_command(cmd_show, words("--gpu h200 --db %s --stale --format json", db)),
	    EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), 1);
	json_t *row = json_array_get(o, 0);
	assert_string_equal(json_string_value(member(row, "kernel")), "qblock");
	assert_int_equal(json_integer_value(member(row, "rows")), 2);
	assert_int_equal(json_integer_value(member(row, "stale")), 2);
	assert_int_equal(json_integer_value(member(row, "fastest")), 1); /* of 4q1s4k */
	assert_int_equal(json_integer_value(member(row, "rows_of_these")), 1);
	json_decref(o);
	assert_int_equal(
	    run_command(cmd_show, words("--gpu h200 --db %s --stale --all --format json", db)),
	    EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), 2);
	row = json_array_get(o, 0); /* the tests that decide come first */
	assert_string_equal(json_string_value(member(row, "batch")), "4q1s4k");
	assert_string_equal(json_string_value(member(row, "fastest")), "yes");
	json_decref(o);
}

/* A change that every scenario of a region feels is beyond noise; one of 0.1 % is not. */
static void test_diff_says_whether_it_is_noise(void **state)
{
	const char *db = in_folder("whole.sqlite"), *near = in_folder("near.sqlite"),
		   *header = in_folder("explain.h"), *other = in_folder("b.h");
	json_t *o, *row;
	size_t i;
	int slower = 0;
	(void)state;
	make_database_of(db, NULL, 1, 1);
	make_database_of(near, NULL, 1.001, 1);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out %s", db, header)),
			 EXIT_DONE);
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --max-leaves 1", db, other)),
	    EXIT_DONE);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --format json", db, near)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), 0);
	json_decref(o);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --db %s --format json",
						     header, other, db)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	json_array_foreach(o, i, row)
	{
		const double ratio = json_number_value(member(row, "ratio"));
		const char *change = json_string_value(member(row, "change"));
		if (!strcmp(json_string_value(member(row, "decision")), "row"))
			continue;
		assert_true(json_integer_value(member(row, "scenarios")) > 0);
		if (!strcmp(change, "slower"))
			assert_true(ratio > 1.005), slower++;
		else
			assert_true(strcmp(change, "noise") || fabs(ratio - 1) <= 0.0051);
	}
	assert_true(slower > 0); /* one leaf a tree is worse than many */
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_show_explains),
		cmocka_unit_test(test_show_reads_one_batch),
		cmocka_unit_test(test_show_keeps_passes_apart),
		cmocka_unit_test(test_show_why_of_a_pick_without_a_time),
		cmocka_unit_test(test_show_for_people),
		cmocka_unit_test(test_show_stale),
		cmocka_unit_test(test_diff_says_whether_it_is_noise),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
