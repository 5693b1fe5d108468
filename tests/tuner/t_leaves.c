/* SPDX-License-Identifier: Apache-2.0 */
/* t_leaves.c - the final pass over leaves: defaults where nothing is faster, remarks, and
 * choices that are not legal everywhere in a leaf's box. */
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Four rows, two columns, one split at num_seqs <= 2 into a leaf for each column. */
static struct matrix *small_matrix(const int32_t cost[4][2], const int32_t fallback[4])
{
	struct matrix *m = matrix_new(4, 2);
	assert_non_null(m);
	for (int r = 0; r < 4; r++) {
		m->f[r].num_seqs = r + 1;
		m->weight[r] = 1;
		m->fallback[r] = fallback[r];
		for (int c = 0; c < 2; c++)
			m->cost[2 * r + c] = cost[r][c];
	}
	return m;
}

static struct tree two_leaves(void)
{
	struct tree t = { 0 };
	for (int i = 0; i < 3; i++)
		tree_new_node(&t);
	t.v[0].feature = ATTUNE_FEATURE_num_seqs;
	t.v[0].threshold = 2;
	t.v[0].below = 1;
	t.v[0].above = 2;
	t.v[1].action = 0;
	t.v[2].action = 1;
	return t;
}

static void test_defaults_where_nothing_beats_them(void **state)
{
	static const int32_t cost[4][2] = {
		{ 0, 90000 }, { 0, 90000 }, { 50000, 40000 }, { 50000, 0 }
	};
	static const int32_t fallback[4] = { 100000, 90000, 0, 30000 };
	struct matrix *m = small_matrix(cost, fallback);
	struct tree t = two_leaves();
	(void)state;
	assert_true(leaves_make_safe(&t, m));
	assert_int_equal(t.v[1].action, 0);
	assert_int_equal(t.v[2].action, -1); /* 40000 + 0 against 0 + 30000 */
	assert_int_equal(t.v[2].remark, REMARK_UNSAFE);
	assert_true(leaves_describe(&t, m));
	assert_int_equal(t.v[2].cost, 30000);
	assert_int_equal(t.v[2].p95, 30000);
	assert_int_equal(t.v[2].support, 2);
	assert_int_equal(t.v[2].runner_up, 1);
	assert_int_equal(t.v[2].runner_up_cost, 40000);
	assert_int_equal(t.v[1].remark, REMARK_FEW);
	tree_free(&t);
	matrix_free(m);
}

static void test_one_scenario_changes_no_leaf(void **state)
{
	static const int32_t cost[4][2] = {
		{ 0, 90000 }, { 0, 90000 }, { 0, 90000 }, { 50000, 40000 }
	};
	static const int32_t fallback[4] = { 100000, 90000, 100000, 0 };
	struct matrix *m = small_matrix(cost, fallback);
	struct tree t = two_leaves();
	(void)state;
	t.v[0].threshold = 3;
	assert_true(leaves_make_safe(&t, m));
	assert_int_equal(t.v[2].action, 1); /* 40000 against 0 */
	tree_free(&t);
	matrix_free(m);
}

/* A tree that also learns from estimates may name what is slower in the scenarios. */
static void test_the_best_choice_where_it_beats_them(void **state)
{
	static const int32_t cost[4][2] = {
		{ 0, 90000 }, { 0, 90000 }, { 10000, 40000 }, { 20000, 10000 }
	};
	static const int32_t fallback[4] = { 100000, 90000, 0, 30000 };
	struct matrix *m = small_matrix(cost, fallback);
	struct tree t = two_leaves();
	(void)state;
	assert_true(leaves_make_safe(&t, m));
	assert_int_equal(t.v[2].action, 0); /* 10000 + 20000 against 0 + 30000 */
	assert_int_equal(t.v[2].remark, REMARK_NONE);
	tree_free(&t);
	matrix_free(m);
}

static void test_a_small_gain_is_not_sure(void **state)
{
	static const int32_t cost[4][2] = { { 0, 1 }, { 0, 1 }, { 0, 1 }, { 30000, 1 } };
	static const struct {
		int32_t fallback[4];
		enum remark remark;
	} rows[] = { { { 10000, 10000, 20000, 0 }, REMARK_UNSURE },
		     { { 0, 0, 0, 30000 }, REMARK_UNSURE }, /* no gain at all */
		     { { 100000, 110000, 120000, 150000 }, REMARK_NONE } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct matrix *m = small_matrix(cost, rows[i].fallback);
		struct tree t = { 0 };
		tree_new_node(&t);
		assert_true(leaves_make_safe(&t, m));
		assert_true(leaves_describe(&t, m));
		assert_int_equal(t.v[0].action, 0);
		assert_int_equal(t.v[0].remark, rows[i].remark);
		assert_int_equal(t.v[0].p95, 30000);
		tree_free(&t);
		matrix_free(m);
	}
}

/* BLOCK_M=128 with 4 warps does not fit the registers at head size 256. */
static void test_illegal_corners_are_guarded(void **state)
{
	struct data *d = synthetic_data(0);
	struct forest f = { .gpu = "h200", .num_choices = 1 };
	const char *where;
	(void)state;
	f.choice[0].kernel = kernel_find(BACKEND_GPU, "qblock");
	assert_true(config_parse(&f.choice[0].config, f.choice[0].kernel->space,
				 with("qblock", "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=4"), &where));
	for (int i = 0; i < NUM_DECISIONS; i++)
		tree_new_node(&f.tree[i]);
	f.tree[DECIDE_DECODE].v[0].action = -1;
	assert_true(forest_prove(&f, d));
	assert_non_null(f.tree[DECIDE_PREFILL].v[0].guarded);
	assert_null(f.tree[DECIDE_DECODE].v[0].guarded);
	tree_free(&f.tree[DECIDE_PREFILL]);
	f.tree[DECIDE_PREFILL] = two_leaves();
	f.tree[DECIDE_PREFILL].v[0].feature = ATTUNE_FEATURE_head_size;
	f.tree[DECIDE_PREFILL].v[0].threshold = 128;
	f.tree[DECIDE_PREFILL].v[2].action = 0;
	assert_true(forest_prove(&f, d));
	assert_null(f.tree[DECIDE_PREFILL].v[1].guarded);
	assert_non_null(f.tree[DECIDE_PREFILL].v[2].guarded);
	forest_free(&f);
	data_free(d);
}

/* A formula is legal wherever one of its values is, a number is not. */
static void test_formulas_need_no_guard(void **state)
{
	struct data *d = synthetic_data(0);
	(void)state;
	for (int formula = 0; formula < 2; formula++) {
		struct forest f = { .gpu = "h200", .num_choices = 1 };
		const struct space *s = kernel_find(BACKEND_GPU, "segmented")->space;
		f.choice[0].kernel = kernel_find(BACKEND_GPU, "segmented");
		config_default(&f.choice[0].config, s);
		f.choice[0].config.v[s->formula_axis] = formula ? -1 : 64;
		for (int i = 0; i < NUM_DECISIONS; i++)
			tree_new_node(&f.tree[i]);
		assert_true(forest_prove(&f, d));
		assert_int_equal(f.tree[DECIDE_DECODE].v[0].guarded == NULL, formula);
		forest_free(&f);
	}
	data_free(d);
}

/* A warpgroup's pages are multiples of 8, which no corner of a box shows. */
static void test_pages_between_corners_are_tried(void **state)
{
	struct data *d = synthetic_data(0);
	struct forest f = { .gpu = "h200", .num_choices = 1 };
	struct tree *t = &f.tree[DECIDE_PREFILL];
	const char *where;
	(void)state;
	f.choice[0].kernel = kernel_find(BACKEND_GPU, "warpgroup");
	assert_true(config_parse(&f.choice[0].config, f.choice[0].kernel->space,
				 with("warpgroup", "BLOCK_M=64 TILE_SIZE=64"), &where));
	for (int i = 0; i < NUM_DECISIONS; i++)
		assert_true(tree_constant(&f.tree[i], -1));
	tree_free(t);
	*t = two_leaves();
	t->v[0].feature = ATTUNE_FEATURE_page_size;
	t->v[0].threshold = 20;
	t->v[2].action = 0;
	assert_true(forest_prove(&f, d));
	assert_non_null(strstr(t->v[1].guarded, "multiples of 8"));
	assert_null(strstr(t->v[2].guarded, "multiples of 8")); /* but heads of 80 */
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_where_nothing_beats_them),
		cmocka_unit_test(test_one_scenario_changes_no_leaf),
		cmocka_unit_test(test_the_best_choice_where_it_beats_them),
		cmocka_unit_test(test_a_small_gain_is_not_sure),
		cmocka_unit_test(test_illegal_corners_are_guarded),
		cmocka_unit_test(test_pages_between_corners_are_tried),
		cmocka_unit_test(test_formulas_need_no_guard),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
