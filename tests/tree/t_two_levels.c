/* t_two_levels.c - grown trees of up to two levels are the ones that brute force puts first, on thousands
 * of small instances; the order of rows and columns changes nothing. */
#include "matrix_features.h"

enum { MOST_ROWS = 12, LEAST_COST_LEVELS = 2, FEATURES = 3, LEVELS = 4, INSTANCES = 4000 };

/* Few levels, equal rows, equal columns and ties are all common. */
static struct matrix *random_matrix(unsigned long long *seed)
{
	const int rows = 2 + (int)(next_random(seed) % (MOST_ROWS - 1));
	const int cols = 1 + (int)(next_random(seed) % 3);
	const int costs = next_random(seed) % 2 ? 1000 : 4, forbid = (int)(next_random(seed) % 9);
	struct matrix *m = matrix_new(rows, cols);
	assert_non_null(m);
	for (int r = 0; r < rows; r++) {
		m->weight[r] = 1 + (int)(next_random(seed) % 3);
		for (int f = 0; f < FEATURES; f++)
			*feature(m, r, f) = 1 + next_random(seed) % LEVELS;
		for (int c = 0; c < cols; c++)
			m->cost[r * cols + c] = next_random(seed) % 9 < (unsigned)forbid / 3
						    ? COST_FORBIDDEN
						    : (int)(next_random(seed) % (unsigned)costs);
	}
	return m;
}

struct options {
	int depth, support;
};

static struct options random_options(unsigned long long *seed)
{
	return (struct options){ .depth = (int)(next_random(seed) % (LEAST_COST_LEVELS + 1)),
				 .support = 1 + (int)(next_random(seed) % 3) };
}

static int grow(struct tree *t, const struct matrix *m, struct options o)
{
	const struct growth how = { .max_leaves = 8,
				    .max_depth = o.depth,
				    .min_support = o.support };
	return tree_grow(t, m, NULL, m->rows, &how);
}

/* ---- brute force ------------------------------------------------------------------ */
struct best {
	int known, leaves, feature; /* feature -1: a leaf */
	long long cost, threshold;
};
struct brute {
	const struct matrix *m;
	int support;
	struct best memo[LEAST_COST_LEVELS + 1][1 << MOST_ROWS];
};

static unsigned rows_below(const struct matrix *m, unsigned mask, int f, long long threshold)
{
	unsigned below = 0;
	for (int r = 0; r < m->rows; r++)
		if (mask >> r & 1 && *feature(m, r, f) <= threshold)
			below |= 1u << r;
	return below;
}

static long long leaf_cost(const struct matrix *m, unsigned mask)
{
	long long best = -1;
	for (int c = 0; c < m->cols; c++) {
		long long sum = 0;
		for (int r = 0; r < m->rows; r++)
			sum += mask >> r & 1 ? matrix_at(m, r, c) : 0;
		best = best < 0 || sum < best ? sum : best;
	}
	return best;
}

/* Of all trees up to a depth over the rows in `mask`: least cost, then fewest
 * leaves, then the first feature, then the lowest threshold. */
static struct best brute(struct brute *b, unsigned mask, int depth)
{
	struct best *best = &b->memo[depth][mask];
	if (best->known)
		return *best;
	*best = (struct best){ 1, 1, -1, leaf_cost(b->m, mask), 0 };
	for (int f = 0; depth && f < FEATURES; f++)
		for (int t = 1; t < LEVELS; t++) {
			const unsigned below = rows_below(b->m, mask, f, t);
			if (!below || below == mask || __builtin_popcount(below) < b->support ||
			    __builtin_popcount(mask & ~below) < b->support)
				continue;
			const struct best l = brute(b, below, depth - 1);
			const struct best r = brute(b, mask & ~below, depth - 1);
			const long long cost = l.cost + r.cost;
			const int leaves = l.leaves + r.leaves;
			if (cost < best->cost || (cost == best->cost && leaves < best->leaves))
				*best = (struct best){ 1, leaves, f, cost, t };
		}
	return *best;
}

/* The tree is the one that brute force puts first. */
static void check_same(struct brute *b, const struct tree *t, int node, unsigned mask, int depth)
{
	const struct best best = brute(b, mask, depth);
	const struct node *v = &t->v[node];
	if (best.feature < 0) {
		assert_int_equal(v->feature, -1);
		assert_true(v->cost == best.cost);
		return;
	}
	int feature_rank = 0; /* by features.def, as ties go */
	while (used[feature_rank] != v->feature)
		feature_rank++;
	const unsigned below = rows_below(b->m, mask, feature_rank, v->threshold);
	assert_true(below == rows_below(b->m, mask, best.feature, best.threshold));
	check_same(b, t, v->below, below, depth - 1);
	check_same(b, t, v->above, mask & ~below, depth - 1);
}

static void test_two_levels_are_brute_force(void **state)
{
	static struct brute b;
	unsigned long long seed = 1;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		const struct options o = random_options(&seed);
		struct tree t;
		memset(&b, 0, sizeof b);
		b.m = m;
		b.support = o.support;
		const struct best best = brute(&b, (1u << m->rows) - 1, o.depth);
		assert_true(grow(&t, m, o));
		assert_true(tree_cost(&t, 0) == best.cost);
		assert_true(walked_cost(&t, m) == best.cost);
		assert_int_equal(tree_leaves(&t), best.leaves);
		check_same(&b, &t, 0, (1u << m->rows) - 1, o.depth);
		tree_free(&t);
		matrix_free(m);
	}
}

/* m with rows and columns in another order. */
static struct matrix *permuted(const struct matrix *m, unsigned long long *seed)
{
	struct matrix *p = matrix_new(m->rows, m->cols);
	int order[MOST_ROWS];
	assert_non_null(p);
	for (int r = 0; r < m->rows; r++) {
		const int j = (int)(next_random(seed) % (unsigned)(r + 1));
		order[r] = order[j];
		order[j] = r;
	}
	for (int r = 0; r < m->rows; r++) {
		p->f[r] = m->f[order[r]];
		p->weight[r] = m->weight[order[r]];
		for (int c = 0; c < m->cols; c++)
			p->cost[r * m->cols + m->cols - 1 - c] = m->cost[order[r] * m->cols + c];
	}
	return p;
}

static void check_same_splits(const struct tree *a, int at_a, const struct tree *b, int at_b)
{
	const struct node *x = &a->v[at_a], *y = &b->v[at_b];
	assert_int_equal(x->feature, y->feature);
	assert_true(x->cost == y->cost);
	if (x->feature < 0)
		return;
	assert_true(x->threshold == y->threshold);
	check_same_splits(a, x->below, b, y->below);
	check_same_splits(a, x->above, b, y->above);
}

static void test_order_of_rows_and_columns_does_not_matter(void **state)
{
	unsigned long long seed = 3;
	(void)state;
	for (int i = 0; i < INSTANCES / 4; i++) {
		struct matrix *m = random_matrix(&seed), *p = permuted(m, &seed);
		const struct options o = random_options(&seed);
		struct tree a, b;
		assert_true(grow(&a, m, o) && grow(&b, p, o));
		check_same_splits(&a, 0, &b, 0);
		tree_free(&a);
		tree_free(&b);
		matrix_free(m);
		matrix_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_levels_are_brute_force),
		cmocka_unit_test(test_order_of_rows_and_columns_does_not_matter),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
