/* t_eval.c - the tuner's subcommands on a database: output and exit codes. */
#include "harness/measure/measure.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
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
	char *text = file_text(header), *leaf = text ? strstr(text, "return ") : NULL;
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
	/* a header that leaves the first choice's batches to the defaults */
	assert_int_equal(
	    system(
		words("sed 's/return h200_[a-z]*_[0-9]*x[a-z0-9_]*;/return h200_defaults;/' %s >%s",
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
		cmocka_unit_test(test_trace),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
