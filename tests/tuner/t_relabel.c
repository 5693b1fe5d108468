/* t_relabel.c - the smallest set of kernels that leaves need, against all sets. */
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { ROWS = 40, MOST_COLS = 9, INSTANCES = 800 };

struct instance {
	struct matrix *m;
	struct tree t;
	int group[MOST_COLS], groups;
	double epsilon;
};

static struct instance make(unsigned long long *seed)
{
	static const double epsilons[] = { 0, 0.00005, 0.0002, 0.0005, 0.1 };
	const int cols = 1 + (int)(next_random(seed) % MOST_COLS), kinds = next_random(seed) % 2;
	struct instance x = { .m = matrix_new(ROWS, cols),
			      .groups = 1 + (int)(next_random(seed) % (unsigned)cols),
			      .epsilon = epsilons[next_random(seed) % COUNT(epsilons)] };
	const struct growth how = { .max_leaves = 16, .max_depth = 4, .min_support = 1 };
	assert_non_null(x.m);
	for (int r = 0; r < ROWS; r++) {
		x.m->weight[r] = 1 + (int)(next_random(seed) % 3);
		x.m->f[r].group = 1 + next_random(seed) % 4;
		x.m->f[r].num_seqs = 1 + next_random(seed) % 6;
		for (int c = 0; c < cols; c++)
			x.m->cost[r * cols + c] =
			    next_random(seed) % 20 ? (int)(next_random(seed) % (kinds ? 9 : 1000))
						   : COST_FORBIDDEN;
	}
	for (int c = 0; c < cols; c++)
		x.group[c] = kinds ? c : (int)(next_random(seed) % (unsigned)x.groups);
	x.groups = kinds ? cols : x.groups;
	assert_true(tree_grow(&x.t, x.m, NULL, ROWS, &how));
	return x;
}

/* The cost of the leaves if these groups serve them within epsilon; -1: they do not. */
static long long served(const struct instance *x, unsigned groups)
{
	long long total = 0;
	for (int n = 0; n < x->t.n; n++) {
		const struct node *v = &x->t.v[n];
		long long best = -1;
		for (int c = 0; c < x->m->cols && v->feature < 0; c++) {
			long long sum = 0;
			for (int r = 0; r < ROWS; r++)
				if (tree_leaf(&x->t, &x->m->f[r]) == n)
					sum += matrix_at(x->m, r, c);
			if (groups >> x->group[c] & 1 &&
			    sum <= v->cost + (long long)(1e6 * x->epsilon) * v->weight)
				best = best < 0 || sum < best ? sum : best;
		}
		if (v->feature < 0 && best < 0)
			return -1;
		total += v->feature < 0 ? best : 0;
	}
	return total;
}

static unsigned groups_of(const struct instance *x, const struct tree *t)
{
	unsigned groups = 0;
	for (int n = 0; n < t->n; n++)
		if (t->v[n].feature < 0)
			groups |= 1u << x->group[t->v[n].action];
	return groups;
}

static void test_fewest_then_cheapest(void **state)
{
	unsigned long long seed = 1;
	int fewer = 0;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct instance x = make(&seed);
		const int before = __builtin_popcount(groups_of(&x, &x.t));
		int least = MOST_COLS + 1;
		long long cost = -1, walked = 0;
		for (unsigned s = 1; s < 1u << x.groups; s++) {
			const long long sum = served(&x, s);
			const int n = __builtin_popcount(s);
			if (sum < 0 || n > least || (n == least && sum >= cost))
				continue;
			least = n;
			cost = sum;
		}
		const int leaves = tree_leaves(&x.t);
		assert_true(tree_relabel(&x.t, x.m, x.epsilon, x.group));
		for (int r = 0; r < ROWS; r++)
			walked += matrix_at(x.m, r, x.t.v[tree_leaf(&x.t, &x.m->f[r])].action);
		assert_int_equal(__builtin_popcount(groups_of(&x, &x.t)), least);
		assert_true(walked == cost && tree_cost(&x.t, 0) == cost);
		assert_true(tree_leaves(&x.t) <= leaves);
		fewer += least < before;
		tree_free(&x.t);
		matrix_free(x.m);
	}
	assert_true(fewer > INSTANCES / 10);
}

/* Three leaves with options ab, bc, c: {a, c} and {b, c} cost the same; the first makes the
 * latter two leaves equal. */
static void test_equal_siblings_become_one(void **state)
{
	static const int cost[3][3] = { { 9, 10, 999 }, { 999, 10, 10 }, { 999, 999, 10 } };
	const struct growth how = { .max_leaves = 8, .max_depth = 3, .min_support = 1 };
	struct matrix *m = matrix_new(3, 3);
	struct tree t;
	(void)state;
	for (int r = 0; r < 3; r++) {
		m->weight[r] = 1;
		m->f[r].num_seqs = r + 1;
		for (int c = 0; c < 3; c++)
			m->cost[3 * r + c] = cost[r][c];
	}
	m->cost[3 * 1 + 1] = 9;
	assert_true(tree_grow(&t, m, NULL, 3, &how));
	assert_int_equal(tree_leaves(&t), 3);
	assert_true(tree_relabel(&t, m, 0.000001, NULL));
	assert_int_equal(tree_leaves(&t), 2);
	assert_int_equal(t.v[t.v[0].below].action, 0);
	assert_int_equal(t.v[t.v[0].above].action, 2);
	assert_true(tree_cost(&t, 0) == 29);
	tree_free(&t);
	matrix_free(m);
}

/* More leaves than a word has bits: left alone. */
static void test_large_trees_stay(void **state)
{
	const struct growth how = { .max_leaves = 99, .max_depth = 80, .min_support = 1 };
	struct matrix *m = matrix_new(80, 80);
	struct tree t;
	(void)state;
	for (int r = 0; r < m->rows; r++) {
		m->weight[r] = 1;
		m->f[r].num_seqs = r;
		for (int c = 0; c < m->cols; c++)
			m->cost[80 * r + c] = c == r ? 0 : 1000;
	}
	assert_true(tree_grow(&t, m, NULL, m->rows, &how));
	assert_int_equal(tree_leaves(&t), 80);
	assert_true(tree_relabel(&t, m, 0.1, NULL));
	assert_int_equal(tree_leaves(&t), 80);
	tree_free(&t);
	matrix_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fewest_then_cheapest),
		cmocka_unit_test(test_equal_siblings_become_one),
		cmocka_unit_test(test_large_trees_stay),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
