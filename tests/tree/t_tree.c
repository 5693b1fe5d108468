/* SPDX-License-Identifier: Apache-2.0 */
/* t_tree.c - greedy induction of trees, their sizes by cross-validation, and invariants of every tree. */
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { FEATURES = 3, LEVELS = 4, INSTANCES = 3000 };

static const int used[FEATURES] = { ATTUNE_FEATURE_group, ATTUNE_FEATURE_num_seqs,
				    ATTUNE_FEATURE_max_seq };

static long long *feature(struct matrix *m, int row, int f)
{
	return &((long long *)&m->f[row])[used[f]];
}

static struct matrix *random_matrix(unsigned long long *seed)
{
	const int rows = 2 + (int)(next_random(seed) % 11), cols = 1 + (int)(next_random(seed) % 4);
	struct matrix *m = matrix_new(rows, cols);
	assert_non_null(m);
	for (int r = 0; r < rows; r++) {
		m->weight[r] = 1 + (int)(next_random(seed) % 3);
		for (int f = 0; f < FEATURES; f++)
			*feature(m, r, f) = 1 + next_random(seed) % LEVELS;
		for (int c = 0; c < cols; c++)
			m->cost[r * cols + c] = next_random(seed) % 8
						    ? (int)(next_random(seed) % 1000)
						    : COST_FORBIDDEN;
	}
	for (int c = 0; c < cols; c++)
		m->choice[c] = c;
	return m;
}

static long long walked_cost(const struct tree *t, const struct matrix *m)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++)
		sum += matrix_at(m, r, t->v[tree_leaf(t, &m->f[r])].action);
	return sum;
}

/* The cost of a grown tree of at most so many leaves. */
static long long grown_cost(const struct matrix *m, int leaves)
{
	const struct growth how = { .max_leaves = leaves, .min_support = 1 };
	struct tree t;
	assert_true(tree_grow(&t, m, NULL, m->rows, &how));
	assert_true(tree_leaves(&t) <= leaves);
	const long long cost = tree_cost(&t, 0);
	assert_true(cost == walked_cost(&t, m));
	assert_true(tree_tidy(&t));
	assert_true(cost == walked_cost(&t, m));
	tree_free(&t);
	return cost;
}

static void test_more_leaves_never_cost_more(void **state)
{
	unsigned long long seed = 1;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		long long cost = grown_cost(m, 1);
		for (int c = 0; c < m->cols; c++) {
			long long one = 0;
			for (int r = 0; r < m->rows; r++)
				one += matrix_at(m, r, c);
			assert_true(cost <= one);
		}
		for (int leaves = 2; leaves < 9; leaves++) {
			const long long fewer = cost;
			cost = grown_cost(m, leaves);
			assert_true(cost <= fewer);
		}
		matrix_free(m);
	}
}

/* Neither num_seqs nor max_seq alone changes the best choice, but rows of many sequences cost
 * otherwise than those of few. */
static void test_a_split_that_saves_only_with_the_next_is_found(void **state)
{
	struct matrix *m = matrix_new(16, 2);
	(void)state;
	for (int r = 0; r < 16; r++) {
		const int many = r / 8, is_long = r % 2;
		m->weight[r] = 1;
		m->f[r].num_seqs = 1 + many;
		m->f[r].max_seq = 1 + is_long;
		m->cost[2 * r] = many && !is_long ? 100000 : 0;
		m->cost[2 * r + 1] = !many ? 400000 : is_long ? 150000 : 0;
	}
	assert_true(grown_cost(m, 2) == grown_cost(m, 1));
	assert_int_equal(grown_cost(m, 3), 0);
	matrix_free(m);
}

/* m with rows in another order and columns mirrored. */
static struct matrix *permuted(struct matrix *m, unsigned long long *seed)
{
	struct matrix *p = matrix_new(m->rows, m->cols);
	int *order = malloc((size_t)m->rows * sizeof *order);
	assert_true(p && order);
	for (int r = 0; r < m->rows; r++)
		order[r] = r;
	for (int r = m->rows - 1; r > 0; r--) {
		const int j = (int)(next_random(seed) % (unsigned)(r + 1)), t = order[r];
		order[r] = order[j];
		order[j] = t;
	}
	for (int r = 0; r < m->rows; r++) {
		p->f[r] = m->f[order[r]];
		p->weight[r] = m->weight[order[r]];
		p->block[r] = m->block[order[r]];
		for (int c = 0; c < m->cols; c++)
			p->cost[r * m->cols + m->cols - 1 - c] = m->cost[order[r] * m->cols + c];
	}
	free(order);
	return p;
}

static void test_order_of_rows_and_columns_does_not_matter(void **state)
{
	unsigned long long seed = 3;
	(void)state;
	for (int i = 0; i < INSTANCES / 3; i++) {
		struct matrix *m = random_matrix(&seed), *p = permuted(m, &seed);
		assert_true(grown_cost(m, 6) == grown_cost(p, 6));
		matrix_free(m);
		matrix_free(p);
	}
}

static void test_no_leaf_takes_what_a_row_forbids(void **state)
{
	struct matrix *m = matrix_new(4, 2);
	const struct growth how = { .max_leaves = 8, .min_support = 1 };
	struct tree t;
	(void)state;
	for (int r = 0; r < 4; r++) {
		m->weight[r] = 1;
		*feature(m, r, 0) = r;
		m->cost[2 * r] = 0;
		m->cost[2 * r + 1] = 1000;
	}
	m->cost[2] = COST_FORBIDDEN;
	*feature(m, 0, 0) = *feature(m, 1, 0); /* 0 and 1 have equal features */
	assert_true(tree_grow(&t, m, NULL, 4, &how));
	assert_int_equal(t.v[tree_leaf(&t, &m->f[0])].action, 1);
	assert_int_equal(t.v[tree_leaf(&t, &m->f[1])].action, 1);
	assert_int_equal(t.v[tree_leaf(&t, &m->f[3])].action, 0);
	tree_free(&t);
	matrix_free(m);
}

static void test_support_is_kept(void **state)
{
	unsigned long long seed = 4;
	(void)state;
	for (int i = 0; i < 300; i++) {
		struct matrix *m = random_matrix(&seed);
		const struct growth how = { .max_leaves = 100, .min_support = 3 };
		struct tree t;
		assert_true(tree_grow(&t, m, NULL, m->rows, &how));
		for (int n = 0; n < t.n; n++)
			assert_true(t.n == 1 || t.v[n].support >= 3);
		tree_free(&t);
		matrix_free(m);
	}
}

/* Choice 0 is best up to 64 sequences, 1 beyond; 2 looks good by chance. */
static void test_cross_validation_keeps_the_signal_only(void **state)
{
	unsigned long long seed = 5;
	struct matrix *m = matrix_new(200, 3);
	const struct growth how = { .max_leaves = 30, .min_support = 2 };
	struct tree t;
	(void)state;
	for (int r = 0; r < m->rows; r++) {
		const int seqs = 1 + (int)(next_random(&seed) % 128);
		m->weight[r] = 1;
		m->f[r].num_seqs = seqs;
		m->f[r].max_seq = 1 + next_random(&seed) % 10000;
		m->block[r] = r % 40;
		for (int c = 0; c < 3; c++)
			m->cost[r * 3 + c] = (int)(next_random(&seed) % 30000);
		m->cost[r * 3 + (seqs > 64)] /= 3;
		m->cost[r * 3 + (seqs <= 64)] += 500000;
	}
	assert_true(tree_fit(&t, m, &how));
	assert_true(tree_leaves(&t) >= 2 && tree_leaves(&t) <= 4);
	assert_int_equal(t.v[0].feature, ATTUNE_FEATURE_num_seqs);
	assert_in_range(t.v[0].threshold, 60, 68);
	tree_free(&t);
	matrix_free(m);
}

static int fitted_leaves(const struct matrix *m, int scenarios)
{
	const struct growth how = { .max_leaves = 30, .min_support = 2, .scenarios = scenarios };
	struct tree t;
	assert_true(tree_fit(&t, m, &how));
	const int leaves = tree_leaves(&t);
	tree_free(&t);
	return leaves;
}

/* The best choice of a block follows from nothing but the block, which num_seqs gives away. */
static void test_rows_of_a_block_are_held_out_together(void **state)
{
	unsigned long long seed = 6;
	struct matrix *m = matrix_new(200, 2);
	int best[20];
	(void)state;
	for (int b = 0; b < 20; b++)
		best[b] = (int)(next_random(&seed) % 2);
	for (int r = 0; r < m->rows; r++) {
		m->weight[r] = 1;
		m->f[r].num_seqs = 1 + r / 10;
		m->cost[2 * r + !best[r / 10]] = 300000;
		m->block[r] = r;
	}
	const int apart = fitted_leaves(m, 0);
	assert_in_range(apart, 8, 20);
	for (int r = 0; r < m->rows; r++)
		m->block[r] = r / 10;
	assert_true(fitted_leaves(m, 0) <= apart / 2);
	matrix_free(m);
}

/* Only made-up rows, those after the scenarios, have a best choice. */
static void test_made_up_rows_are_not_scored(void **state)
{
	struct matrix *m = matrix_new(120, 2);
	(void)state;
	for (int r = 0; r < m->rows; r++) {
		m->weight[r] = 1;
		m->f[r].num_seqs = 1 + r % 10;
		m->block[r] = r % 30;
		m->cost[2 * r + (r % 10 < 5)] = r < 60 ? 0 : 300000;
	}
	assert_int_equal(fitted_leaves(m, 0), 2);
	assert_int_equal(fitted_leaves(m, 60), 1);
	matrix_free(m);
}

static void test_rounding(void **state)
{
	static const long long rows[][3] = { { 5, 5, 5 },          { 4, 63, 8 },
					     { 17, 100, 32 },      { 9, 15, 12 },
					     { 0, 0, 0 },          { 0, 15, 2 },
					     { 33, 47, 40 },       { 65, 66, 66 },
					     { 1000, 1023, 1008 }, { 1023, 1025, 1024 } };
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(round_between(rows[i][0], rows[i][1]), rows[i][2]);
}

static void add_split(struct tree *t, int at, int f, long long threshold, int a, int b)
{
	t->v[at].feature = f;
	t->v[at].threshold = threshold;
	t->v[at].below = tree_new_node(t);
	t->v[t->v[at].below].action = a;
	const int above = tree_new_node(t);
	t->v[at].above = above;
	t->v[above].action = b;
}

static void test_tidy_drops_dead_branches_and_merges(void **state)
{
	struct tree t = { 0 };
	(void)state;
	tree_new_node(&t);
	add_split(&t, 0, 8, 16, 0, 1);
	add_split(&t, 1, 8, 32, 2, 3); /* above 32 while at most 16: dead */
	add_split(&t, 2, 9, 4, 1, 1);  /* two equal columns */
	t.v[2].action = 1;
	assert_true(tree_tidy(&t));
	assert_int_equal(t.n, 3);
	assert_int_equal(tree_leaves(&t), 2);
	assert_int_equal(t.v[t.v[0].below].action, 2);
	assert_int_equal(t.v[t.v[0].above].action, 1);
	tree_free(&t);
}

static void count_leaf(void *arg, int leaf, const struct box *b)
{
	struct {
		int leaves;
		long long hi;
	} *seen = arg;
	(void)leaf;
	seen->leaves++;
	seen->hi = b->hi[8];
}

static void test_boxes(void **state)
{
	struct tree t = { 0 };
	struct box box;
	struct {
		int leaves;
		long long hi;
	} seen = { 0, 0 };
	(void)state;
	tree_new_node(&t);
	add_split(&t, 0, 8, 16, 0, 1);
	box_all(&box);
	tree_boxes(&t, &box, count_leaf, &seen);
	assert_int_equal(seen.leaves, 2);
	box.hi[8] = 9;
	seen.leaves = 0;
	tree_boxes(&t, &box, count_leaf, &seen);
	assert_int_equal(seen.leaves, 1);
	assert_int_equal(seen.hi, 9);
	tree_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_leaves_never_cost_more),
		cmocka_unit_test(test_a_split_that_saves_only_with_the_next_is_found),
		cmocka_unit_test(test_order_of_rows_and_columns_does_not_matter),
		cmocka_unit_test(test_no_leaf_takes_what_a_row_forbids),
		cmocka_unit_test(test_support_is_kept),
		cmocka_unit_test(test_cross_validation_keeps_the_signal_only),
		cmocka_unit_test(test_rows_of_a_block_are_held_out_together),
		cmocka_unit_test(test_made_up_rows_are_not_scored),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_tidy_drops_dead_branches_and_merges),
		cmocka_unit_test(test_boxes),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
