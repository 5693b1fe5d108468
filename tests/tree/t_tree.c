/* t_tree.c - greedy induction of trees against brute force, and invariants of every tree. */
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

/* Least cost over the rows in `mask` of all trees up to `depth`, by trying all. */
static long long brute(struct matrix *m, unsigned mask, int depth)
{
	long long best = -1;
	for (int c = 0; c < m->cols; c++) {
		long long sum = 0;
		for (int r = 0; r < m->rows; r++)
			sum += mask >> r & 1 ? matrix_at(m, r, c) : 0;
		best = best < 0 || sum < best ? sum : best;
	}
	for (int f = 0; depth && f < FEATURES; f++)
		for (int t = 1; t < LEVELS; t++) {
			unsigned below = 0;
			for (int r = 0; r < m->rows; r++)
				if (mask >> r & 1 && *feature(m, r, f) <= t)
					below |= 1u << r;
			if (!below || below == mask)
				continue;
			const long long sum =
			    brute(m, below, depth - 1) + brute(m, mask & ~below, depth - 1);
			best = sum < best ? sum : best;
		}
	return best;
}

static long long walked_cost(const struct tree *t, const struct matrix *m)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++)
		sum += matrix_at(m, r, t->v[tree_leaf(t, &m->f[r])].action);
	return sum;
}

static long long grown_cost(const struct matrix *m, int depth)
{
	const struct growth how = { .max_leaves = 100, .max_depth = depth, .min_support = 1 };
	struct tree t;
	assert_true(tree_grow(&t, m, NULL, m->rows, &how));
	const long long cost = tree_cost(&t, 0);
	assert_true(cost == walked_cost(&t, m));
	assert_true(tree_tidy(&t));
	assert_true(cost == walked_cost(&t, m));
	tree_free(&t);
	return cost;
}

static void test_depth_1_and_2_are_optimal(void **state)
{
	unsigned long long seed = 1;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		const unsigned all = (1u << m->rows) - 1;
		for (int depth = 0; depth <= 2; depth++)
			assert_true(grown_cost(m, depth) == brute(m, all, depth));
		matrix_free(m);
	}
}

static void test_deeper_is_never_dearer_than_one_choice(void **state)
{
	unsigned long long seed = 2;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		const long long single = brute(m, (1u << m->rows) - 1, 0);
		const long long depth1 = brute(m, (1u << m->rows) - 1, 1);
		const long long grown = grown_cost(m, 6);
		assert_true(grown <= depth1 && depth1 <= single);
		matrix_free(m);
	}
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
		for (int b = 0; b < NUM_BLOCKINGS; b++)
			p->block[r * NUM_BLOCKINGS + b] = m->block[order[r] * NUM_BLOCKINGS + b];
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
		assert_true(grown_cost(m, 4) == grown_cost(p, 4));
		matrix_free(m);
		matrix_free(p);
	}
}

static void test_no_leaf_takes_what_a_row_forbids(void **state)
{
	struct matrix *m = matrix_new(4, 2);
	const struct growth how = { .max_leaves = 8, .max_depth = 3, .min_support = 1 };
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

/* Costs depend on num_seqs alone; the tree may be told to part head sizes first. */
static void test_a_feature_is_split_first(void **state)
{
	struct matrix *m = matrix_new(16, 2);
	(void)state;
	for (int r = 0; r < 16; r++) {
		m->weight[r] = 1;
		m->f[r].head_size = r % 2 ? 128 : 64;
		m->f[r].num_seqs = 1 + r / 2;
		m->cost[2 * r + (r < 8)] = 1000;
	}
	for (int first = 0; first < 2; first++) {
		const struct growth how = { .max_leaves = 8,
					    .max_depth = 3,
					    .min_support = 2,
					    .apart = first ? 1 + ATTUNE_FEATURE_head_size : 0 };
		struct tree t;
		assert_true(tree_grow(&t, m, NULL, 16, &how));
		assert_int_equal(t.v[0].feature,
				 first ? ATTUNE_FEATURE_head_size : ATTUNE_FEATURE_num_seqs);
		assert_int_equal(walked_cost(&t, m), 0);
		tree_free(&t);
	}
	matrix_free(m);
}

static void test_support_is_kept(void **state)
{
	unsigned long long seed = 4;
	(void)state;
	for (int i = 0; i < 300; i++) {
		struct matrix *m = random_matrix(&seed);
		const struct growth how = { .max_leaves = 100, .max_depth = 5, .min_support = 3 };
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
	const struct growth how = { .max_leaves = 30, .max_depth = 8, .min_support = 2 };
	struct tree t;
	(void)state;
	for (int r = 0; r < m->rows; r++) {
		const int seqs = 1 + (int)(next_random(&seed) % 128);
		m->weight[r] = 1;
		m->f[r].num_seqs = seqs;
		m->f[r].max_seq = 1 + next_random(&seed) % 10000;
		m->block[r * NUM_BLOCKINGS] = seqs;
		m->block[r * NUM_BLOCKINGS + 1] = (int)(m->f[r].max_seq / 1000);
		m->block[r * NUM_BLOCKINGS + 2] = r % 3;
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
		cmocka_unit_test(test_depth_1_and_2_are_optimal),
		cmocka_unit_test(test_deeper_is_never_dearer_than_one_choice),
		cmocka_unit_test(test_order_of_rows_and_columns_does_not_matter),
		cmocka_unit_test(test_no_leaf_takes_what_a_row_forbids),
		cmocka_unit_test(test_a_feature_is_split_first),
		cmocka_unit_test(test_support_is_kept),
		cmocka_unit_test(test_cross_validation_keeps_the_signal_only),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_tidy_drops_dead_branches_and_merges),
		cmocka_unit_test(test_boxes),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
