/* t_fill.c - what `attune confirm --fill` would measure: of training scenarios, what prices
 * pick and the sweep left out. */
#include "synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "commands.h"

/* By prices the first of the two is always the cheapest. */
static const struct synthetic cells[] = {
	{ "4q1s4k", "decode", "train", 1, 10 },
	{ "4q1s4k", "decode", "train", 2, 20 },
	{ "8q1s4k", "decode", "train", 2, 20 }, /* a hole */
	{ "16q1s4k", "decode", "train", 1, 0 }, /* it failed: no hole */
	{ "16q1s4k", "decode", "train", 2, 20 },
	{ "32q1s4k", "decode", "heldout", 2, 20 },
	{ "q500", "prefill", "peers", 1, 30 },
	{ "q500", "prefill", "peers", 2, 40 },
	/* a mixed one that lacks its prefill part and one launch */
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

/* A header that prices both choices for the first `decisions` of prefill, decode. */
static void make_header(const char *db, const char *header, int decisions)
{
	struct data *d = data_load(db, "h200");
	struct forest f = { .num_choices = 2, .gpu = "h200" };
	assert_non_null(d);
	assert_int_equal(d->num_choices, 2);
	for (int id = 0; id < 2; id++)
		f.choice[id] = d->choice[id];
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f.tree[t]), 0);
		f.tree[t].v[0].action = t == DECIDE_OVERLAP ? SAYS_SERIAL
					: t == DECIDE_EARLY ? SAYS_OWN
							    : 0;
		for (int id = 0; t < decisions && id < 2; id++) {
			struct selector_price *p = &f.price[f.num_prices++];
			*p = (struct selector_price){
				(enum decision)t, id, llama.head_size, { 16, 32, 0, 1, 0, { 0 } }
			};
			p->price.fs[PRICE_launch] = 1000 + id;
		}
	}
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
		int decisions;
		const char *split, *want;
	} rows[] = {
		/* two are the mixed scenario's plan, serial and side by side; peers are held out */
		{ 0, "", "2 cells and plans of 4 scenarios\n" },
		{ 1, "", "3 cells and plans of 4 scenarios\n" },
		{ 2, "", "4 cells and plans of 4 scenarios\n" },
		{ 2, "--split train", "4 cells and plans of 4 scenarios\n" },
	};
	const char *db = in_folder("fill.sqlite"), *header = in_folder("fill.h");
	(void)state;
	make_cells(db);
	for (size_t i = 0; i < COUNT(rows); i++) {
		make_header(db, header, rows[i].decisions);
		assert_int_equal(
		    run_command(cmd_confirm, words("--gpu h200 --db %s --header %s --fill "
						   "--dry-run %s",
						   db, header, rows[i].split)),
		    EXIT_DONE);
		assert_string_equal(printed, rows[i].want);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_held_out_is_not_filled),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fill", tests, make_folder, remove_folder);
}
