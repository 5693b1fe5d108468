/* SPDX-License-Identifier: Apache-2.0 */
/* t_fill.c - the work list of `attune sweep --confirm --fill`: choices that the header picks on training
 * scenarios and the sweep did not measure. */
#include "harness/measure/measure.h"
#include "tuner/commands.h"
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/commands.h"

/* Choices 1 and 2 are of qblock, 4 is segmented with 2 segments. */
static const struct synthetic cells[] = {
	{ "4q1s4k", "decode", "train", 1, 10 },
	{ "4q1s4k", "decode", "train", 2, 20 },
	{ "8q1s4k", "decode", "train", 2, 20 }, /* a hole of 1 */
	{ "16q1s4k", "decode", "train", 1, 0 }, /* it failed: no hole */
	{ "16q1s4k", "decode", "train", 2, 20 },
	{ "16q1s4k", "decode", "train", 4, 15 },
	{ "32q1s4k", "decode", "heldout", 2, 20 },
	{ "q500", "prefill", "peers", 1, 30 },
	{ "q500", "prefill", "peers", 2, 40 },
	/* a mixed one of which each choice lacks something */
	{ "q200_2q1s1k", "decode", "train", 1, 10 },
	{ "q200_2q1s1k", "prefill", "train", 2, 30 },
	{ "q200_2q1s1k", "all", "train", 2, 40 },
};

static void make_cells(const char *db)
{
	struct store *st = store_open(db, 0);
	assert_non_null(st);
	const long long run = store_begin_run(st, &h200_run);
	for (size_t i = 0; i < COUNT(cells); i++)
		put(st, run, &cells[i]);
	store_close(st);
}

/* Ids of a header are those of the data: 1 and 2 of the cells, and 4, with segments by costs if
 * it has any. SPARING may leave units to another launch. */
enum { FIRST, SECOND, CUT, SPARING, NUM_IDS };

static int has_row; /* SECOND may run in the place of FIRST */

static void make_header(const char *db, const char *header, int prefill, int decode, int has_costs)
{
	const int action[NUM_DECISIONS] = { prefill, decode, SAYS_SERIAL, SAYS_OWN };
	struct data *d = data_load(db, "h200");
	struct forest f = { .num_choices = NUM_IDS, .gpu = "h200", .num_costs = has_costs };
	assert_non_null(d);
	assert_int_equal(d->num_choices, SPARING);
	for (int id = 0; id < SPARING; id++)
		f.choice[id] = d->choice[id];
	f.choice[SPARING].kernel = kernel_find(BACKEND_GPU, "warpgroup");
	config_default(&f.choice[SPARING].config, f.choice[SPARING].kernel->space);
	struct choice *cut = &f.choice[CUT];
	assert_string_equal(cut->kernel->name, "segmented");
	cut->config.v[cut->kernel->space->formula_axis] = SEGMENTS_FITTED;
	/* As many segments as two blocks an SM hold: 8 of 4 sequences, 4 of 8, 2 of 16. */
	f.costs[0] = (struct selector_costs){ CUT, llama.head_size, { 2, 96, 1000, 0, 0, 0 } };
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f.tree[t]), 0);
		f.tree[t].v[0].action = action[t];
	}
	if (has_row)
		f.list[FIRST] = (struct attune_list){ 2, { FIRST, SECOND } };
	char *text = forest_emit(&f, d);
	FILE *out = fopen(header, "w");
	assert_true(text && out && fputs(text, out) >= 0 && !fclose(out));
	free(text);
	forest_free(&f);
	data_free(d);
}

static void test_holes(void **state)
{
	static const struct {
		const char *split;
		int prefill, decode, has_costs, want;
	} rows[] = {
		/* Three are the mixed scenario's plans, which race together: serial, side by
		 * side and in one launch; peers are held out. Also: */
		{ "", SECOND, FIRST, 0, 4 }, /* 8q1s4k */
		{ "", FIRST, FIRST, 0, 5 },  /* and the prefill part */
		{ "--split train", FIRST, FIRST, 0, 5 },
		{ "", SECOND, SECOND, 0, 4 }, /* the mixed one's decodes */
		{ "", SECOND, CUT, 1, 6 },    /* all but 16q1s4k */
		/* Without costs it runs nowhere; the library's substitute was not measured, and
		 * runs behind the prefills. */
		{ "", SECOND, CUT, 0, 5 },
		{ "", SECOND, SAYS_DEFAULTS, 0, 5 },
		/* side by side also with each number of units left to the decodes */
		{ "", SPARING, FIRST, 0, 5 + 7 },
	};
	const char *db = in_folder("fill.sqlite"), *header = in_folder("fill.h");
	char want[80];
	(void)state;
	make_cells(db);
	for (size_t i = 0; i < COUNT(rows); i++) {
		make_header(db, header, rows[i].prefill, rows[i].decode, rows[i].has_costs);
		assert_int_equal(
		    run_command(cmd_confirm, words("--gpu h200 --db %s --header %s --fill "
						   "--dry-run %s",
						   db, header, rows[i].split)),
		    EXIT_DONE);
		snprintf(want, sizeof want, "%d cells and plans of 4 scenarios\n", rows[i].want);
		assert_string_equal(printed, want);
	}
}

static void test_held_out_is_not_filled(void **state)
{
	const char *db = in_folder("fill.sqlite"), *header = in_folder("fill.h");
	(void)state;
	listen_begin();
	assert_int_equal(run_command(cmd_confirm, words("--gpu h200 --db %s --header %s --fill "
							"--dry-run --split heldout",
							db, header)),
			 EXIT_CHECK);
	assert_non_null(strstr(heard(), "h200 has no scenario of split 'heldout'"));
	assert_string_equal(printed, "");
}

/* What settling races is measured where one of it has no time, all in one race; held-out
 * scenarios too if they are
 * asked for. */
static void test_members(void **state)
{
	static const struct {
		const char *options, *want;
	} rows[] = {
		/* both members of 8q1s4k; of the mixed one the members of each part, the pick, and the
		 * parts that settle in turn, side by side and in one launch */
		{ "--fill --members", "10 cells and plans of 4 scenarios\n" },
		{ "--fill --members --split train", "10 cells and plans of 4 scenarios\n" },
		{ "--fill --members --split heldout", "2 cells and plans of 1 scenarios\n" },
		{ "--fill --members --split peers", "0 cells and plans of 1 scenarios\n" },
	};
	const char *db = in_folder("fill.sqlite"), *header = in_folder("fill.h");
	(void)state;
	has_row = 1;
	make_header(db, header, FIRST, FIRST, 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(run_command(cmd_confirm, words("--gpu h200 --db %s --header %s "
								"--dry-run %s",
								db, header, rows[i].options)),
				 EXIT_DONE);
		assert_string_equal(printed, rows[i].want);
	}
}

static int foresee(const char *options)
{
	int asked = -1;
	assert_int_equal(
	    run_command(cmd_confirm, words("--gpu h200 --db %s --header %s --dry-run %s",
					   in_folder("fill.sqlite"), in_folder("fill.h"), options)),
	    EXIT_DONE);
	assert_int_equal(sscanf(printed, "%d cells", &asked), 1);
	return asked;
}

/* The second pass takes the same beside its own list. */
static void test_members_of_the_second_pass(void **state)
{
	(void)state;
	has_row = 1;
	make_header(in_folder("fill.sqlite"), in_folder("fill.h"), FIRST, FIRST, 0);
	/* the rival of the held-out decode, which has a time already, is on that list */
	assert_int_equal(foresee("--split heldout --members"), foresee("--split heldout"));
	/* of the mixed batch both members of each part, and two streams */
	assert_int_equal(foresee("--split train --members"), foresee("--split train") + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_held_out_is_not_filled),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_members_of_the_second_pass),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fill", tests, make_folder, remove_folder);
}
