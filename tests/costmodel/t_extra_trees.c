/* t_extra_trees.c - the ensemble that estimates the costs of made-up mixed batches: it finds what
 * decides, a column that some rows do not know is learned from the others, and the same matrix gives
 * the same estimates. */
#include "tuner/costmodel/extra_trees.h"
#include "harness/base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

enum { ROWS = 400, COLS = 3, EDGE = 1000 };

/* Column 0 is best up to EDGE keys, column 1 beyond; other features are noise. */
static int32_t true_cost(const struct attune_features *f, int col)
{
	const int long_keys = f->max_seq > EDGE;
	return col == 2 ? 300000 : col == long_keys ? 0 : 200000;
}

static void draw(struct attune_features *f, unsigned long long *state)
{
	long long *v = (long long *)f;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		v[i] = (long long)(random_bits(state) % (2 * EDGE));
}

/* unknown: one row in so many does not know column 1; 0: all rows know it. */
static struct matrix *drawn(int unknown)
{
	struct matrix *m = matrix_new(ROWS, COLS);
	unsigned long long state = 7;
	assert_non_null(m);
	for (int r = 0; r < ROWS; r++) {
		draw(&m->f[r], &state);
		for (int c = 0; c < COLS; c++)
			m->cost[r * COLS + c] = true_cost(&m->f[r], c);
		if (unknown && r % unknown == 0)
			m->cost[r * COLS + 1] = COST_FORBIDDEN;
	}
	return m;
}

/* The share of new rows, in percent, whose least estimate is the least cost. */
static int right_picks(const struct matrix *m)
{
	struct extra_trees *t = extra_trees_grow(m);
	unsigned long long state = 99;
	int right = 0;
	assert_non_null(t);
	for (int i = 0; i < 1000; i++) {
		struct attune_features f;
		int32_t cost[COLS];
		draw(&f, &state);
		extra_trees_estimate(t, &f, cost);
		for (int c = 0; c < COLS; c++)
			assert_in_range(cost[c], 0, 300000);
		right += true_cost(&f, cost[1] < cost[0]) == 0;
	}
	extra_trees_free(t);
	return right / 10;
}

static void it_finds_what_decides(void **state)
{
	struct matrix *m = drawn(0);
	(void)state;
	assert_true(right_picks(m) >= 90);
	matrix_free(m);
}

static void rows_that_know_a_column_serve_those_that_do_not(void **state)
{
	struct matrix *m = drawn(2);
	(void)state;
	assert_true(right_picks(m) >= 85);
	matrix_free(m);
}

static void a_column_that_nobody_knows_is_dear(void **state)
{
	struct matrix *m = drawn(1);
	struct attune_features f = m->f[0];
	int32_t cost[COLS];
	(void)state;
	struct extra_trees *t = extra_trees_grow(m);
	assert_non_null(t);
	extra_trees_estimate(t, &f, cost);
	assert_true(cost[1] > cost[0] && cost[1] > cost[2]);
	extra_trees_free(t);
	matrix_free(m);
}

static void the_same_matrix_gives_the_same_estimates(void **state)
{
	struct matrix *m = drawn(3);
	struct extra_trees *a = extra_trees_grow(m), *b = extra_trees_grow(m);
	unsigned long long random = 5;
	(void)state;
	assert_true(a && b);
	for (int i = 0; i < 200; i++) {
		struct attune_features f;
		int32_t x[COLS], y[COLS];
		draw(&f, &random);
		extra_trees_estimate(a, &f, x);
		extra_trees_estimate(b, &f, y);
		assert_memory_equal(x, y, sizeof x);
	}
	extra_trees_free(a);
	extra_trees_free(b);
	matrix_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_finds_what_decides),
		cmocka_unit_test(rows_that_know_a_column_serve_those_that_do_not),
		cmocka_unit_test(a_column_that_nobody_knows_is_dear),
		cmocka_unit_test(the_same_matrix_gives_the_same_estimates),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("extra trees", tests, NULL, NULL);
}
