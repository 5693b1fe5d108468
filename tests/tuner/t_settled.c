/* SPDX-License-Identifier: Apache-2.0 */
/* t_settled.c - rows of a header that settle: pass A chooses, pass B judges. By cases worked out by hand. */
#include "tuner/policy/settled.h"
#include "tuner/eval/eval.h"
#include "tests/support/synthetic.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"

enum { MEMBERS = 3 };
static const char *const sets[MEMBERS] = { "BLOCK_M=16", "BLOCK_M=32", "BLOCK_M=64" };

static void add_time(struct data *d, struct store_cell c, int pass, double us)
{
	c.median_us = us;
	c.min_us = us * 0.98;
	c.pass = pass;
	c.stage = pass == 'B' ? "b" : "race";
	c.run = pass == 'B' ? 7 : 1;
	if (us > 0)
		assert_true(data_add(d, &c));
}

/* All trees are one leaf. The row of choice 0 names the first n choices. */
static void make_forest(struct forest *f, const struct data *d, const int says[NUM_DECISIONS],
			int n)
{
	*f = (struct forest){ .gpu = "h200", .num_choices = d->num_choices };
	for (int i = 0; i < d->num_choices; i++)
		f->choice[i] = d->choice[i];
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f->tree[t]), 0);
		f->tree[t].v[0].action = says[t];
	}
	f->list[0].n = (short)n;
	for (int i = 0; i < n; i++)
		f->list[0].at[i] = (short)i;
}

static struct settled settle_one(struct data *d, const int says[NUM_DECISIONS], int members, int s)
{
	struct forest f;
	struct settled out;
	make_forest(&f, d, says, members);
	settle(d, &f, s, &out);
	forest_free(&f);
	return out;
}

/* ---- one part -------------------------------------------------------------------------- */
static void test_parts(void **state)
{
	static const int says[NUM_DECISIONS] = { 0, 0, SAYS_SERIAL, SAYS_OWN };
	static const struct {
		const char *why;
		double a[MEMBERS], b[MEMBERS]; /* us; 0: not measured */
		int members, settled, left_out, is_raced;
		double slowdown;
	} rows[] = {
		{ "a rival is faster", { 12, 10, 11 }, { 12, 10, 11 }, 3, 1, 0, 1, 1 },
		{ "without a row there is none", { 12, 10, 11 }, { 12, 10, 11 }, 0, 0, 0, 1, 1.2 },
		{ "the stand-in is not in the row",
		  { 12, 11, 10 },
		  { 12, 11, 10 },
		  2,
		  1,
		  0,
		  1,
		  1.1 },
		{ "the second pass contradicts", { 10, 9, 20 }, { 10, 12, 20 }, 3, 1, 0, 1, 1.2 },
		{ "the first pass ties: the first stays",
		  { 9, 9, 20 },
		  { 11, 10, 20 },
		  3,
		  0,
		  0,
		  1,
		  1.1 },
		{ "nothing judges the rival", { 12, 10, 10.4 }, { 12, 0, 10 }, 3, 2, 1, 1, 1 },
		{ "nothing chooses the rival", { 12, 0, 13 }, { 12, 10, 12 }, 3, 0, 1, 1, 1.2 },
		{ "the pick lacks the first pass", { 0, 10, 11 }, { 12, 10, 11 }, 3, 0, 1, 0, 1.2 },
		{ "no second pass: one time does both", { 12, 10, 11 }, { 0 }, 3, 1, 0, 1, 1 },
	};
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct data *d = data_new("h200", &h200_run);
		for (int i = 0; i < MEMBERS; i++) {
			const char *choice = with("qblock", sets[i]);
			add_time(d, cell_like("9q1s1k", "decode", "qblock", choice, 1), 'A', 5);
			add_time(d, cell_like("1q1s1k", "decode", "qblock", choice, 1), 'A',
				 rows[r].a[i]);
			add_time(d, cell_like("1q1s1k", "decode", "qblock", choice, 1), 'B',
				 rows[r].b[i]);
		}
		assert_true(data_finish(d));
		assert_int_equal(d->num_choices, MEMBERS);
		const int s = scenario_named(d, "1q1s1k");
		const struct settled out = settle_one(d, says, rows[r].members, s);
		const double slowdown = data_plan_time(d, s, &out.pick) / data_oracle(d, s);
		if (out.pick.decode != rows[r].settled || out.left_out != rows[r].left_out ||
		    !close_to(slowdown, rows[r].slowdown))
			print_error("%s: member %d, %d left out, %g\n", rows[r].why,
				    out.pick.decode, out.left_out, slowdown);
		assert_int_equal(out.pick.decode, rows[r].settled);
		assert_int_equal(out.left_out, rows[r].left_out);
		assert_int_equal(out.is_raced, rows[r].is_raced);
		assert_true(close_to(slowdown, rows[r].slowdown));
		data_free(d);
	}
}

/* Members that a rule forbids do not race, and are not missed: PACKED=1 needs groups above 1. */
static void test_illegal_members_are_none(void **state)
{
	static const int says[NUM_DECISIONS] = { 1, 1, SAYS_SERIAL, SAYS_OWN };
	static const int groups[] = { 4, 1 };
	struct data *d = data_new("h200", &h200_run);
	struct choice member[MOST_MEMBERS];
	struct forest f;
	(void)state;
	for (int packed = 0; packed <= 1; packed++) {
		const char *choice = with("warpgroup", packed ? "PACKED=1" : "PACKED=0");
		struct store_cell c = cell_like("q1k", "prefill", "warpgroup", choice, 1);
		add_time(d, c, 'A', 10);
	}
	for (int i = 0; i < 2; i++) {
		struct store_cell c =
		    cell_like(i ? "q3k" : "q2k", "prefill", "warpgroup", with("warpgroup", ""), 1);
		c.shape.num_kv_heads = c.shape.num_query_heads / groups[i];
		add_time(d, c, 'A', 10);
	}
	assert_true(data_finish(d));
	assert_false(data_legal(d, scenario_named(d, "q3k"), PHASE_PREFILL, 1));
	make_forest(&f, d, says, 2);
	f.list[1] = (struct attune_list){ 2, { 1, 0 } };
	for (int i = 0; i < 2; i++) {
		const int s = scenario_named(d, i ? "q3k" : "q2k");
		const int n = row_members(d, &f, DECIDE_PREFILL, &d->v[s], member);
		int listed = 0;
		for (int k = 0; k < n; k++)
			listed |= choice_same(&member[k], &d->choice[1]);
		assert_int_equal(listed, !i);
	}
	forest_free(&f);
	data_free(d);
}

/* PACKED=0 runs in the place of PACKED=1 where a KV head has one query head. "By estimate" hangs on
 * its times there; where no training scenario is like that, on those beside the first. */
static void test_members_by_estimate(void **state)
{
	static const struct {
		double beside, alone; /* us of PACKED=0; 0: not measured */
		int has_alone, by_estimate;
	} rows[] = {
		{ 10, 10, 1, 0 }, { 10, 0, 1, 1 }, { 0, 10, 1, 0 },
		{ 0, 0, 1, 1 },   { 10, 0, 0, 0 }, { 0, 0, 0, 1 },
	};
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		static const int says[NUM_DECISIONS] = { 1, 1, SAYS_SERIAL, SAYS_OWN };
		struct data *d = data_new("h200", &h200_run);
		const char *text[] = { with("warpgroup", "PACKED=0"),
				       with("warpgroup", "PACKED=1") };
		struct forest f;
		struct store_cell c = cell_like("q1k", "prefill", "warpgroup", text[1], 1);
		add_time(d, c, 'A', 12);
		c.choice = text[0];
		add_time(d, c, 'A', rows[r].beside);
		c.shape.num_kv_heads = c.shape.num_query_heads;
		c.batch = "q2k";
		add_time(d, c, 'A', rows[r].alone);
		c.kernel = "qblock";
		c.choice = with("qblock", "");
		add_time(d, c, 'A', rows[r].has_alone ? 20 : 0);
		assert_true(data_finish(d));
		make_forest(&f, d, says, 0);
		f.num_choices = 2;
		for (int i = 0; i < 2; i++) {
			char words[MAX_CHOICE_TEXT], error[600];
			snprintf(words, sizeof words, "warpgroup %s", text[i]);
			assert_true(
			    choice_parse(&f.choice[i], BACKEND_GPU, words, error, sizeof error));
		}
		f.list[1] = (struct attune_list){ 2, { 1, 0 } };
		rows_mark(&f, d);
		if (f.by_estimate[1] != rows[r].by_estimate << 1)
			fail_msg("row %zu", r);
		forest_free(&f);
		data_free(d);
	}
}

/* ---- mixed batches ------------------------------------------------------------------------ */
static struct store_cell plan_cell(const char *prefill, enum attune_how how, char text[1000])
{
	char part[2][MAX_PART_TEXT];
	snprintf(part[0], MAX_PART_TEXT, "qblock %s", with("qblock", prefill));
	snprintf(part[1], MAX_PART_TEXT, "segmented %s", with("segmented", "SEGMENTS=4"));
	parts_text(text, 1000, part[0], part[1], how);
	return cell_like("q512_2q1s1k", "plan", "plan", text, 1);
}

/* The prefills' rival is faster alone. */
static void test_mixed(void **state)
{
	static const struct {
		const char *why;
		double a, b; /* us of the rival beside the decodes; the pick takes 84 there */
		enum attune_how how;
		int settled, left_out;
	} rows[] = {
		{ "two streams with the part that settled", 75, 75, ATTUNE_STREAMS, 1, 1 },
		{ "in turn, since nothing judges two streams", 77, 0, ATTUNE_SERIAL, 1, 2 },
		{ "in turn, which needs no race", 85, 70, ATTUNE_SERIAL, 1, 1 },
	};
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct data *d = data_new("h200", &h200_run);
		const char *batch = "q512_2q1s1k", *segmented = with("segmented", "SEGMENTS=4");
		char text[2][1000];
		for (int pass = 'A'; pass <= 'B'; pass++) {
			add_time(d,
				 cell_like(batch, "prefill", "qblock", with("qblock", sets[0]), 1),
				 pass, 60);
			add_time(d,
				 cell_like(batch, "prefill", "qblock", with("qblock", sets[1]), 1),
				 pass, 50);
			add_time(d, cell_like(batch, "decode", "segmented", segmented, 1), pass,
				 30);
			add_time(d, plan_cell(sets[0], ATTUNE_STREAMS, text[0]), pass, 84);
			add_time(d, plan_cell(sets[1], ATTUNE_STREAMS, text[1]), pass,
				 pass == 'A' ? rows[r].a : rows[r].b);
		}
		assert_true(data_finish(d));
		const int decode = !strcmp(d->choice[2].kernel->name, "segmented") ? 2 : 0;
		const int says[NUM_DECISIONS] = { 0, decode, SAYS_STREAMS, SAYS_OWN };
		assert_int_equal(decode, 2);
		const struct settled out = settle_one(d, says, 2, 0);
		if (out.pick.how != rows[r].how || out.left_out != rows[r].left_out)
			print_error("%s: %d, %d left out\n", rows[r].why, out.pick.how,
				    out.left_out);
		assert_int_equal(out.pick.prefill, rows[r].settled);
		assert_int_equal(out.pick.how, rows[r].how);
		assert_int_equal(out.left_out, rows[r].left_out);
		data_free(d);
	}
}

/* ---- why a pick loses ---------------------------------------------------------------------- */
/* The only row of lost_table(), as text; the caller frees it. */
static char *lost_row(const struct data *d, const int says[NUM_DECISIONS])
{
	const struct lost_asked asked = { .above = 1.05 };
	struct forest f;
	char *text = NULL;
	size_t size;
	make_forest(&f, d, says, 2);
	struct settled *settled = settle_all(d, &f);
	FILE *out = open_memstream(&text, &size);
	assert_true(settled && out);
	struct table *t = lost_table(d, &f, settled, &asked, FORMAT_JSON);
	assert_non_null(t);
	table_print(t, out);
	assert_false(fclose(out));
	free(settled);
	forest_free(&f);
	return text;
}

/* Of the pick, of it with other segments, of another kernel; and of a mixed batch beside one another. */
static void test_why(void **state)
{
	static const struct {
		double us[3], streams; /* 0: there are no prefills */
		const char *why;
	} rows[] = {
		{ { 20, 10, 10.5 }, 0, "\"the decodes' segments\"" },
		{ { 20, 19, 10 }, 0, "\"the decodes' choice\"" },
		{ { 20, 16, 10 }, 0, "\"the decodes' choice\"" },
		{ { 20, 20, 20 }, 55, "\"the overlap\"" },
		{ { 40, 20, 40 }, 75, "\"the decodes' segments\"" },
	};
	static const char *const decodes[][2] = { { "segmented", "SEGMENTS=4" },
						  { "segmented", "SEGMENTS=8" },
						  { "qblock", "BLOCK_M=32" } };
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct data *d = data_new("h200", &h200_run);
		const char *batch = rows[r].streams > 0 ? "q512_2q1s1k" : "2q1s1k";
		char text[1000];
		for (size_t i = 0; i < COUNT(decodes); i++)
			add_time(d,
				 cell_like(batch, "decode", decodes[i][0],
					   with(decodes[i][0], decodes[i][1]), 1),
				 'A', rows[r].us[i]);
		if (rows[r].streams > 0) {
			add_time(d,
				 cell_like(batch, "prefill", "qblock", with("qblock", sets[1]), 1),
				 'A', 50);
			add_time(d, plan_cell(sets[1], ATTUNE_STREAMS, text), 'A', rows[r].streams);
		}
		assert_true(data_finish(d));
		int decode = 0, prefill = 0;
		while (strcmp(d->choice[decode].kernel->name, "segmented"))
			decode++;
		while (strcmp(d->choice[prefill].kernel->name, "qblock"))
			prefill++;
		const int says[NUM_DECISIONS] = { prefill, decode, SAYS_SERIAL, SAYS_OWN };
		char *row = lost_row(d, says);
		if (!strstr(row, rows[r].why))
			print_error("%s: %s\n", rows[r].why, row);
		assert_non_null(strstr(row, rows[r].why));
		free(row);
		data_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_illegal_members_are_none),
		cmocka_unit_test(test_members_by_estimate),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_why),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
