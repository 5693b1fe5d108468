/* SPDX-License-Identifier: Apache-2.0 */
/* t_eval.c - the tuner's subcommands on a database: output and exit codes. */
#include "harness/measure/measure.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tests/support/no_portable.h"
#include "tests/support/synthetic.h"
#include "tuner/eval/eval.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/commands.h"

static int close_to(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

/* The row of a policy and split. */
static json_t *row_of(json_t *o, const char *policy, const char *split)
{
	json_t *row;
	size_t i;
	json_array_foreach(member(o, "rows"), i, row)
	{
		if (!strcmp(json_string_value(member(row, "policy")), policy) &&
		    !strcmp(json_string_value(member(row, "split")), split))
			return row;
	}
	fail_msg("no row of %s on %s", policy, split);
	return NULL;
}

static void test_induce_check_eval(void **state)
{
	const char *db = in_folder("h200.sqlite"), *header = in_folder("attune_h200.h");
	(void)state;
	make_database(db, NULL, 1);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out %s", db, header)),
			 EXIT_DONE);
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --check", db, header)),
	    EXIT_DONE);
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header %s --format json",
						     db, header)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_object_size(o), 6);
	assert_int_equal(json_array_size(member(o, "noise")), 3);
	json_t *train = row_of(o, "tree", "train");
	assert_int_equal(json_object_size(train), 17);
	assert_true(json_number_value(member(train, "geomean")) >= 1);
	assert_true(json_number_value(member(train, "geomean")) <=
		    json_number_value(member(train, "worst")));
	assert_int_equal(json_integer_value(member(train, "invalid")), 0);
	assert_true(json_integer_value(member(row_of(o, "tree", "heldout"), "n")) > 0);
	for (enum policy p = 0; p < NUM_POLICIES; p++)
		row_of(o, policy_names[p], "train");
	json_t *settled = row_of(o, "row_settled", "train");
	assert_true(json_number_value(member(settled, "geomean")) <=
		    json_number_value(member(settled, "tree_there")));
	assert_int_equal(json_integer_value(member(settled, "invalid")), 0);
	assert_true(json_is_array(member(o, "beyond20")));
	json_t *fixed = row_of(o, "best_fixed", "train");
	assert_true(json_number_value(member(fixed, "geomean")) >=
		    json_number_value(member(fixed, "tree_there")));
	assert_true(json_integer_value(member(o, "leaves")) >= 3);
	const long long kernels = json_integer_value(member(o, "kernels"));
	json_decref(o);
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --emit json", db)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	json_t *names = json_object(), *choice;
	size_t i;
	json_array_foreach(member(o, "choices"), i, choice)
	    json_object_set(names, json_string_value(member(choice, "kernel")), choice);
	assert_true(json_array_size(member(o, "choices")) > json_object_size(names));
	assert_int_equal(json_object_size(names), kernels);
	json_decref(names);
	assert_non_null(member(o, "prefill"));
	assert_non_null(member(o, "decode"));
	json_decref(o);
}

static void test_check_fails_with_the_diff(void **state)
{
	const char *db = in_folder("h200.sqlite"), *header = in_folder("attune_h200.h");
	char *text = file_text(header), *leaf = text ? strstr(text, "return h200_") : NULL;
	(void)state;
	assert_non_null(leaf);
	leaf[7] = '5';
	FILE *out = fopen(header, "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0 && !fclose(out));
	free(text);
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out %s --check", db, header)),
	    EXIT_CHECK);
	assert_non_null(strstr(printed, "return 5200_"));
	assert_non_null(strstr(printed, "\n+\t"));
}

static void test_nothing_to_score_is_a_failure(void **state)
{
	const char *empty = in_folder("empty.sqlite"), *all = in_folder("all.sqlite");
	(void)state;
	store_close(store_open(empty, 0));
	listen_begin();
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced", empty)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "h200"));
	listen_begin();
	assert_int_equal(
	    run_command(cmd_induce, words("--gpu h200 --db %s --out /dev/null", empty)),
	    EXIT_CHECK);
	assert_non_null(strstr(heard(), "h200"));
	make_database(all, "heldout", 1);
	listen_begin();
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out /dev/null", all)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "has 0 scenarios to learn from"));
}

static void test_show_one_scenario(void **state)
{
	const char *db = in_folder("h200.sqlite");
	double last = 0;
	(void)state;
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch 8q1s4k --format json",
						     db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	size_t i;
	assert_int_equal(json_array_size(o), COUNT(synthetic_choices));
	json_array_foreach(o, i, row)
	{
		assert_int_equal(json_object_size(row), 15);
		assert_true(json_number_value(member(row, "median_us")) >= last);
		last = json_number_value(member(row, "median_us"));
		assert_true(json_is_null(member(row, "mj")));
	}
	json_decref(o);
	listen_begin();
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch 7q1s4k --format tsv",
						     db)),
			 EXIT_CHECK);
	const char *said = heard();
	assert_non_null(strstr(said, "nearest: "));
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void test_show_mixed_lists_plans(void **state)
{
	const char *db = in_folder("h200.sqlite");
	(void)state;
	assert_int_equal(run_command(cmd_show, words("--gpu h200 --db %s --model llama3.1-8b@1 "
						     "--batch q512_8q1s4k --format json",
						     db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL), *row;
	int whole = 0, summed = 0;
	size_t i;
	json_array_foreach(o, i, row)
	{
		const char *plan = json_string_value(member(row, "plan"));
		summed += !strcmp(plan, "prefill, then decode: summed");
		whole += !strcmp(plan, "one launch");
	}
	assert_true(whole > 0 && summed > 0);
	assert_int_equal(whole + summed, json_array_size(o));
	json_decref(o);
	assert_int_equal(run_command(cmd_show, "--kernels --format json"), EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_true(json_array_size(o) > 20);
	json_decref(o);
}

static void test_diff(void **state)
{
	const char *db = in_folder("h200.sqlite"), *slow = in_folder("slow.sqlite"),
		   *header = in_folder("a.h"), *other = in_folder("b.h");
	(void)state;
	make_database(slow, NULL, 1.5);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --format json", db, db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), 0);
	json_decref(o);
	assert_int_equal(run_command(cmd_diff, words("--gpu h200 %s %s --format json", db, slow)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_true(json_array_size(o) > 0);
	assert_true(close_to(json_number_value(member(json_array_get(o, 0), "ratio")), 1.5));
	json_decref(o);
	/* times that one of them lacks are no change */
	struct store *s = store_open(slow, 0);
	assert_true(s && store_query(s, "DELETE FROM measurement", NULL, NULL));
	store_close(s);
	make_database(slow, NULL, 1);
	s = store_open(slow, 0);
	assert_true(s && store_query(s,
				     "DELETE FROM measurement WHERE (race, variant) IN (SELECT "
				     "race, variant FROM measurement LIMIT 3)",
				     NULL, NULL));
	store_close(s);
	for (int swapped = 0; swapped < 2; swapped++) {
		assert_int_equal(
		    run_command(cmd_diff, words("--gpu h200 %s %s --format json",
						swapped ? slow : db, swapped ? db : slow)),
		    EXIT_DONE);
		o = json_loads(printed, 0, NULL);
		assert_int_equal(json_array_size(o), 0);
		json_decref(o);
	}
	assert_int_equal(run_command(cmd_induce, words("--gpu h200 --db %s --out %s", db, header)),
			 EXIT_DONE);
	/* a header that leaves the batches of kernels with tiles to the defaults; rows of such choices go */
	assert_int_equal(
	    system(
		words("sed -e 's/return h200_[a-z]*_[0-9]*x[a-z0-9_]*;/return h200_defaults;/' "
		      "-e '/^\tLIST(/d' %s >%s",
		      header, other)),
	    0);
	assert_int_equal(run_command(cmd_diff, words("%s %s", header, header)), EXIT_DONE);
	assert_non_null(strstr(printed, " 0 of "));
	assert_int_equal(run_command(cmd_diff, words("%s %s", header, other)), EXIT_DONE);
	assert_null(strstr(printed, " 0 of "));
}

/* ---- what more there is to ask ----------------------------------------------------------- */
static void test_eval_of_one_split(void **state)
{
	const char *db = in_folder("h200.sqlite");
	json_t *row;
	size_t i;
	(void)state;
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced --split "
						     "heldout --format json",
						     db)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	json_array_foreach(member(o, "rows"), i, row)
	    assert_string_equal(json_string_value(member(row, "split")), "heldout");
	assert_true(i > 0);
	json_decref(o);
	listen_begin();
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced --split "
						     "heldout_traces",
						     db)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "heldout_traces"));
	assert_string_equal(printed, "");
}

/* All scenarios are in one group of each property, and two headers are compared on the same ones. */
static void test_by(void **state)
{
	static const char *const by[] = { "kind", "head", "group", "page", "gpu", "set" };
	const char *db = in_folder("h200.sqlite"), *a = in_folder("a.h"), *b = in_folder("b.h");
	(void)state;
	for (size_t i = 0; i < COUNT(by); i++) {
		assert_int_equal(
		    run_command(cmd_eval, words("--gpu h200 --db %s --header %s --against %s "
						"--by %s --format json",
						db, b, a, by[i])),
		    EXIT_DONE);
		json_t *o = json_loads(printed, 0, NULL);
		const size_t rows = json_array_size(o);
		json_t *row = json_array_get(o, rows - 1);
		long long n = 0;
		assert_int_equal(rows, i ? 2 : 3); /* decodes, mixed, all */
		for (size_t k = 0; k + 1 < rows; k++)
			n += json_integer_value(member(json_array_get(o, k), "n"));
		assert_string_equal(json_string_value(member(row, by[i])), "all");
		assert_true(n > 0 && n == json_integer_value(member(row, "n")));
		/* b leaves some batches to the defaults */
		assert_true(json_number_value(member(row, "was")) <
			    json_number_value(member(row, "geomean")));
		assert_true(fabs(json_number_value(member(row, "paired")) -
				 json_number_value(member(row, "geomean")) /
				     json_number_value(member(row, "was"))) < 1e-3);
		assert_true(json_number_value(member(row, "paired_se")) > 0);
		json_decref(o);
	}
	json_t *o = json_loads(printed, 0, NULL);
	const double geomean = json_number_value(member(json_array_get(o, 1), "geomean"));
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header %s --by "
						     "gpu --format json",
						     db, b)),
			 EXIT_DONE);
	json_t *alone = json_loads(printed, 0, NULL), *all = json_array_get(alone, 1);
	assert_null(json_object_get(all, "was"));
	assert_null(json_object_get(all, "paired"));
	assert_true(close_to(json_number_value(member(all, "geomean")), geomean));
	json_decref(alone);
	json_decref(o);
}

/* The slowest first, each with what it loses by. */
static void test_above(void **state)
{
	const char *db = in_folder("h200.sqlite"), *b = in_folder("b.h");
	double last = INFINITY;
	json_t *row;
	size_t i;
	(void)state;
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header %s --above 1.05 "
						     "--format json",
						     db, b)),
			 EXIT_DONE);
	json_t *o = json_loads(printed, 0, NULL);
	json_array_foreach(o, i, row)
	{
		const double ratio = json_number_value(member(row, "ratio"));
		const char *why = json_string_value(member(row, "why"));
		assert_true(ratio > 1.05 && ratio <= last);
		assert_true(strstr(why, "choice") || strstr(why, "segments") ||
			    strstr(why, "overlap"));
		assert_non_null(strstr(json_string_value(member(row, "members")), "settled: "));
		last = ratio;
	}
	assert_true(i > 0);
	json_decref(o);
}

static void test_trace(void **state)
{
	const char *db = in_folder("h200.sqlite"), *csv = in_folder("trace.csv");
	FILE *f = fopen(csv, "w");
	json_t *o, *row;
	size_t i;
	(void)state;
	assert_non_null(f);
	fputs("arrival_s,prompt_tokens,output_tokens\n", f);
	for (int r = 0; r < 40; r++)
		fprintf(f, "%d,%d,%d\n", r, 200 + 37 * r, 20 + r % 7);
	assert_false(fclose(f));
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced --trace "
						     "%s --model llama3.1-8b@1 --format json",
						     db, csv)),
			 EXIT_DONE);
	o = json_loads(printed, 0, NULL);
	assert_int_equal(json_array_size(o), NUM_POLICIES);
	json_array_foreach(o, i, row)
	{
		assert_int_equal(json_integer_value(member(row, "unknown")), 0);
		assert_true(json_number_value(member(row, "attention_ms")) > 0);
		assert_true(json_number_value(member(row, "ratio_to_oracle")) >= 0.999);
	}
	json_decref(o);
	listen_begin();
	assert_int_equal(run_command(cmd_eval, words("--gpu h200 --db %s --header induced --trace "
						     "%s --model no-such-model@1",
						     db, csv)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "no-such-model"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_induce_check_eval),
		cmocka_unit_test(test_check_fails_with_the_diff),
		cmocka_unit_test(test_nothing_to_score_is_a_failure),
		cmocka_unit_test(test_show_one_scenario),
		cmocka_unit_test(test_show_mixed_lists_plans),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_eval_of_one_split),
		cmocka_unit_test(test_by),
		cmocka_unit_test(test_above),
		cmocka_unit_test(test_trace),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
