/* SPDX-License-Identifier: Apache-2.0 */
/* t_reorder.c - rows of another machine's rules in the order of this one's times
 * (tuner/transfer/reorder.h). */
#include "forests.h"
#include "tests/support/no_portable.h"
#include "tuner/transfer/reorder.h"
#include "tuner/policy/policy.h"
#include <math.h>

/* ---- rules by hand ------------------------------------------------------------------------ */
enum { SMALL_ID, LARGE_ID, SPLIT_ID, OTHER_ID };
static const char *const choices[][2] = { [SMALL_ID] = { "qblock", SMALL },
					  [LARGE_ID] = { "qblock", LARGE },
					  [SPLIT_ID] = { "segmented", SPLIT_2 },
					  [OTHER_ID] = { "qblock",
							 "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8" } };

/* Decodes of 1 to 4 sequences, of 5 and more: both leaves name the small one, in whose row the
 * large one and the split one are. */
static struct forest rules(void)
{
	static const struct rules r = {
		{ { "qblock", SMALL }, { "qblock", LARGE }, { "segmented", SPLIT_2 } },
		SMALL_ID,
		SMALL_ID,
		SAYS_SERIAL
	};
	struct forest f;
	make_forest(&f, &r);
	struct tree *t = &f.tree[DECIDE_DECODE];
	assert_true(tree_new_node(t) == 1 && tree_new_node(t) == 2);
	int feature = 0;
	while (strcmp(feature_names[feature], "num_seqs") != 0)
		feature++;
	t->v[0].feature = feature;
	t->v[0].threshold = 4;
	t->v[0].below = 1;
	t->v[0].above = 2;
	t->v[1].action = t->v[2].action = SMALL_ID;
	f.list[SMALL_ID] = (struct attune_list){ 3, { SMALL_ID, LARGE_ID, SPLIT_ID } };
	return f;
}

/* The time of each choice relative to the small one, on batches of that many sequences; 0: not
 * measured; -1: it failed. */
struct times {
	double us[COUNT(choices)];
	int few, many; /* batches of each leaf */
	double other;  /* if not 0, the large one's in the second leaf */
	double spread; /* every second batch that much more, every other one less; as a log */
	const char *split;
};

static void add_batch(struct data *d, const struct times *t, int seqs, int keys, int is_many)
{
	char text[40];
	snprintf(text, sizeof text, "%dq1s%d", seqs, keys);
	for (int c = 0; c < (int)COUNT(choices); c++) {
		const double us = is_many && c == LARGE_ID && t->other > 0 ? t->other : t->us[c];
		struct store_cell cell = cell_like(text, "decode", choices[c][0],
						   with(choices[c][0], choices[c][1]), 100);
		if (us == 0)
			continue;
		cell.median_us = 100 * us * (c ? exp(keys % 2 ? t->spread : -t->spread) : 1);
		cell.ratio = cell.median_us / 100;
		cell.split = t->split ? t->split : "train";
		if (us < 0) {
			cell.outcome = "wrong";
			cell.median_us = cell.min_us = cell.ratio = NAN;
		}
		assert_true(data_add(d, &cell));
	}
}

static struct data *data_of(const struct times *t)
{
	struct data *d = data_new("h100", &h200_run);
	assert_non_null(d);
	snprintf(d->gpu, sizeof d->gpu, "h200");
	for (int i = 0; i < t->few; i++)
		add_batch(d, t, 1 + i % 4, 1000 + i, 0);
	for (int i = 0; i < t->many; i++)
		add_batch(d, t, 8, 1000 + i, 1);
	assert_true(data_finish(d));
	return d;
}

/* ---- what becomes the first --------------------------------------------------------------- */
static const struct row {
	const char *name;
	struct times t;
	int first[2]; /* of both leaves */
} cases[] = {
	{ "the rival is 10 % faster in six batches",
	  { { 1, 0.9, 1.2, 0 }, 3, 3, 0, 0, NULL },
	  { LARGE_ID, LARGE_ID } },
	{ "a leaf without batches keeps its first",
	  { { 1, 0.9, 1.2, 0 }, 6, 0, 0, 0, NULL },
	  { LARGE_ID, SMALL_ID } },
	{ "the order of the row says nothing",
	  { { 1, 1.1, 0.9, 0 }, 3, 3, 0, 0, NULL },
	  { SPLIT_ID, SPLIT_ID } },
	{ "in three batches that is too little",
	  { { 1, 0.9, 1.2, 0 }, 2, 1, 0, 0, NULL },
	  { SMALL_ID, SMALL_ID } },
	{ "but not 40 %", { { 1, 0.6, 1.2, 0 }, 2, 1, 0, 0, NULL }, { LARGE_ID, LARGE_ID } },
	{ "two batches are never enough",
	  { { 1, 0.5, 1.2, 0 }, 1, 1, 0, 0, NULL },
	  { SMALL_ID, SMALL_ID } },
	{ "2 % in six", { { 1, 0.98, 1.2, 0 }, 3, 3, 0, 0, NULL }, { SMALL_ID, SMALL_ID } },
	{ "and in sixty", { { 1, 0.98, 1.2, 0 }, 30, 30, 0, 0, NULL }, { LARGE_ID, LARGE_ID } },
	{ "ratios from 0.6 to 1.4 around 0.95",
	  { { 1, 0.95, 1.2, 0 }, 5, 5, 0, 0.4, NULL },
	  { SMALL_ID, SMALL_ID } },
	{ "faster in one leaf, slower in the other",
	  { { 1, 0.8, 1.2, 0 }, 8, 8, 1.25, 0, NULL },
	  { LARGE_ID, SMALL_ID } },
	{ "much faster in one leaf, slightly slower in the other",
	  { { 1, 0.6, 1.2, 0 }, 12, 3, 1.02, 0, NULL },
	  { LARGE_ID, SMALL_ID } },
	{ "the first fails", { { -1, 1, 1.2, 0 }, 3, 3, 0, 0, NULL }, { LARGE_ID, LARGE_ID } },
	{ "the rival fails", { { 1, -1, 1.2, 0 }, 9, 9, 0, 0, NULL }, { SMALL_ID, SMALL_ID } },
	{ "a choice of no row, 30 % faster in eight batches",
	  { { 1, 1.1, 1.2, 0.7 }, 4, 4, 0, 0, NULL },
	  { OTHER_ID, OTHER_ID } },
	{ "7 % in eight are too little",
	  { { 1, 1.1, 1.2, 0.93 }, 4, 4, 0, 0, NULL },
	  { SMALL_ID, SMALL_ID } },
	{ "held-out batches",
	  { { 1, 0.5, 1.2, 0 }, 9, 9, 0, 0, "heldout" },
	  { SMALL_ID, SMALL_ID } },
	{ "the gate's", { { 1, 0.5, 1.2, 0 }, 9, 9, 0, 0, "gate" }, { SMALL_ID, SMALL_ID } },
};

static int is_choice(const struct forest *f, int action, int id)
{
	char wanted[MAX_CHOICE_TEXT];
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, choices[id][0]) };
	const char *where;
	snprintf(wanted, sizeof wanted, "%s", with(choices[id][0], choices[id][1]));
	assert_true(config_parse(&c.config, c.kernel->space, wanted, &where));
	return choice_same(&c, &f->choice[action]);
}

static void test_firsts(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct forest f = rules(), out;
		struct data *d = data_of(&cases[i].t);
		print_message("# %s\n", cases[i].name);
		assert_true(forest_reorder(&out, &f, d));
		assert_string_equal(out.gpu, "h200");
		for (int leaf = 0; leaf < 2; leaf++) {
			const int action = out.tree[DECIDE_DECODE].v[1 + leaf].action;
			assert_true(is_choice(&out, action, cases[i].first[leaf]));
			assert_true(out.list[action].n >= 3);
			assert_int_equal(out.list[action].at[0], action);
		}
		assert_true(is_choice(&out, out.tree[DECIDE_PREFILL].v[0].action, SMALL_ID));
		forest_free(&out);
		forest_free(&f);
		data_free(d);
	}
}

/* Leaves whose rules stay keep their comments; others get the figures of this machine. */
static void test_figures(void **state)
{
	const struct times t = { { 1, 0.8, 1.2, 0 }, 8, 8, 1.25, 0, NULL };
	struct forest f = rules(), out;
	struct data *d = data_of(&t);
	(void)state;
	f.tree[DECIDE_DECODE].v[2].support = 77;
	assert_true(forest_reorder(&out, &f, d));
	const struct node *v = out.tree[DECIDE_DECODE].v;
	assert_int_equal(v[1].support, 8);
	assert_int_equal(v[1].cost, 0);
	assert_true(is_choice(&out, v[1].runner_up, SMALL_ID));
	assert_true(fabs(exp((double)v[1].runner_up_cost / (double)v[1].weight / 1e6) - 1.25) <
		    1e-4);
	assert_int_equal(v[2].support, 77);
	forest_free(&out);
	forest_free(&f);
	data_free(d);
}

/* ---- numbers of segments -------------------------------------------------------------------- */
static int segments_of(const struct choice *c)
{
	return config_value(&c->config, c->kernel->space, "SEGMENTS", 0);
}

/* Where the rules name a number of segments, a formula may take its place. */
static void test_segments(void **state)
{
	static const struct rules two = { { { "segmented",
					      "BLOCK_M=16 TILE_SIZE=32 SEGMENTS=2 NUM_WARPS=2" } },
					  0,
					  0,
					  SAYS_SERIAL };
	struct data *none = data_new("h200", &h200_run), *d = data_new("h200", &h200_run);
	struct row_firsts r;
	struct forest f, out;
	(void)state;
	make_forest(&f, &two);
	row_firsts(&r, &f, 0);
	assert_true(data_finish(none) && r.n > 3);
	for (int i = 0; i < 6; i++) {
		struct measured m;
		struct choice c[ROW_FIRSTS];
		char text[40], choice[MAX_CHOICE_TEXT];
		snprintf(text, sizeof text, "2q1s%d", 16000 + i);
		assert_true(measured_make(&m, none, "llama3.1-8b@1", &llama, text));
		row_firsts_run(&r, none, &f, DECIDE_DECODE, 0, &m, c);
		for (int k = 0; k < r.n; k++) {
			if (!c[k].kernel || (k && !r.named[k].kernel))
				continue;
			config_text(choice, sizeof choice, &c[k].config, c[k].kernel->space);
			struct store_cell cell = cell_like(text, "decode", "segmented", choice,
							   segments_of(&c[k]) == 2 ? 100 : 60);
			cell.ratio = cell.median_us / 100;
			assert_true(data_add(d, &cell));
		}
		measured_free(&m);
	}
	assert_true(data_finish(d) && forest_reorder(&out, &f, d));
	const struct choice *first = &out.choice[out.tree[DECIDE_DECODE].v[0].action];
	assert_true(config_is_formula(&first->config, first->kernel->space));
	assert_int_equal(segments_of(&out.choice[out.tree[DECIDE_PREFILL].v[0].action]), 2);
	forest_free(&out);
	forest_free(&f);
	data_free(none);
	data_free(d);
}

/* ---- what is left --------------------------------------------------------------------------- */
static void test_left(void **state)
{
	static const struct {
		struct times t;
		int n, beyond;
		double mean;
	} v[] = {
		{ { { 1, 1.1, 1.2, 0 }, 4, 4, 0, 0, NULL }, 8, 0, 1 },
		{ { { 1, 1 / 1.06, 1.2, 0.5 }, 4, 4, 1.1, 0, NULL },
		  8,
		  8,
		  1.0295630 },                                           /* in half of them */
		{ { { 1, 0.998, 1.2, 0 }, 4, 4, 0, 0, NULL }, 8, 0, 1 }, /* noise */
		{ { { 1, 0, 0, 0.5 }, 4, 4, 0, 0, NULL }, 0, 8, 1 },
		{ { { 1, 0.5, 1.2, 0 }, 4, 4, 0, 0, "heldout" }, 0, 0, 1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(v); i++) {
		struct forest f = rules();
		struct data *d = data_of(&v[i].t);
		struct rows_left left;
		assert_true(rows_left(&left, d, &f));
		assert_int_equal(left.n, v[i].n);
		assert_true(fabs(left.mean - v[i].mean) < 1e-6);
		assert_true(!left.n || left.most >= left.mean);
		assert_int_equal(times_beyond_rows(d, &f), v[i].beyond);
		data_free(d);
		forest_free(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_firsts),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_left),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
