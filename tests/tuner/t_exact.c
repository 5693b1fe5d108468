/* t_exact.c - the exact solver against brute force on thousands of small instances,
 * and what must hold of its certificate.
 *
 *   t_exact --bench [ROWS FEATURES COLUMNS DEPTH LEVELS SECONDS KIND]
 *
 * times it instead (not run by make test). */
#include "tuner/tree/tree.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include <time.h>

enum { MOST_ROWS = 12, FEATURES = 3, LEVELS = 4, INSTANCES = 4000, MOST_DEPTH = 3 };

static const int used[] = { ATTUNE_FEATURE_group,     ATTUNE_FEATURE_num_seqs,
			    ATTUNE_FEATURE_max_seq,   ATTUNE_FEATURE_rows,
			    ATTUNE_FEATURE_skew,      ATTUNE_FEATURE_work,
			    ATTUNE_FEATURE_kv_tokens, ATTUNE_FEATURE_row_blocks,
			    ATTUNE_FEATURE_mean_seq,  ATTUNE_FEATURE_num_kv_heads,
			    ATTUNE_FEATURE_page_size, ATTUNE_FEATURE_query_tokens,
			    ATTUNE_FEATURE_max_query, ATTUNE_FEATURE_heads_x_seqs,
			    ATTUNE_FEATURE_window,    ATTUNE_FEATURE_decode_kv };

static long long *feature(const struct matrix *m, int row, int f)
{
	return &((long long *)&m->f[row])[used[f]];
}

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

static struct exact_options random_options(unsigned long long *seed)
{
	static const long long lambdas[] = { 0, 0, 1, 5, 100, 1000 };
	return (struct exact_options){ .depth = (int)(next_random(seed) % (MOST_DEPTH + 1)),
				       .min_support = 1 + (int)(next_random(seed) % 3),
				       .lambda = lambdas[next_random(seed) % COUNT(lambdas)] };
}

/* ---- brute force ------------------------------------------------------------------ */
struct best {
	int known, leaves, feature; /* feature -1: a leaf */
	long long objective, threshold;
};
struct brute {
	const struct matrix *m;
	const struct exact_options *o;
	struct best memo[MOST_DEPTH + 1][1 << MOST_ROWS];
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

/* Of all trees up to a depth over the rows in `mask`: least objective, then fewest
 * leaves, then the first feature, then the lowest threshold. */
static struct best brute(struct brute *b, unsigned mask, int depth)
{
	const int support = b->o->min_support;
	struct best *best = &b->memo[depth][mask];
	if (best->known)
		return *best;
	*best = (struct best){ 1, 1, -1, leaf_cost(b->m, mask) + b->o->lambda, 0 };
	for (int f = 0; depth && f < FEATURES; f++)
		for (int t = 1; t < LEVELS; t++) {
			const unsigned below = rows_below(b->m, mask, f, t);
			if (!below || below == mask || __builtin_popcount(below) < support ||
			    __builtin_popcount(mask & ~below) < support)
				continue;
			const struct best l = brute(b, below, depth - 1);
			const struct best r = brute(b, mask & ~below, depth - 1);
			const long long objective = l.objective + r.objective;
			const int leaves = l.leaves + r.leaves;
			if (objective < best->objective ||
			    (objective == best->objective && leaves < best->leaves))
				*best = (struct best){ 1, leaves, f, objective, t };
		}
	return *best;
}

/* The tree is the one that brute force says is first. */
static void check_same(struct brute *b, const struct tree *t, int node, unsigned mask, int depth)
{
	const struct best best = brute(b, mask, depth);
	const struct node *v = &t->v[node];
	if (best.feature < 0) {
		assert_int_equal(v->feature, -1);
		assert_true(v->cost + b->o->lambda == best.objective);
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

static long long walked_cost(const struct tree *t, const struct matrix *m)
{
	long long sum = 0;
	for (int r = 0; r < m->rows; r++)
		sum += matrix_at(m, r, t->v[tree_leaf(t, &m->f[r])].action);
	return sum;
}

static void test_exact_is_brute_force(void **state)
{
	static struct brute b;
	unsigned long long seed = 1;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		const struct exact_options o = random_options(&seed);
		struct certificate c;
		struct tree t;
		memset(&b, 0, sizeof b);
		b.m = m;
		b.o = &o;
		const struct best best = brute(&b, (1u << m->rows) - 1, o.depth);
		assert_true(tree_exact(&t, m, &o, &c));
		assert_true(c.objective == best.objective);
		assert_true(c.cost == walked_cost(&t, m));
		assert_true(c.bound == c.objective && c.gap == 0);
		assert_int_equal(tree_leaves(&t), best.leaves);
		check_same(&b, &t, 0, (1u << m->rows) - 1, o.depth);
		tree_free(&t);
		matrix_free(m);
	}
}

static long long objective_of(const struct tree *t, const struct exact_options *o)
{
	return tree_cost(t, 0) + o->lambda * tree_leaves(t);
}

static void test_exact_hybrid_leaf_are_in_that_order(void **state)
{
	unsigned long long seed = 2;
	(void)state;
	for (int i = 0; i < INSTANCES; i++) {
		struct matrix *m = random_matrix(&seed);
		const struct exact_options o = random_options(&seed);
		long long last = -1;
		struct certificate c;
		struct tree t;
		assert_true(tree_exact(&t, m, &o, &c));
		tree_free(&t);
		for (int look = 3; look >= 1; look--) {
			const struct growth how = { 8,    o.depth,  o.min_support,
						    look, o.lambda, SIZE_MOST,
						    0 };
			assert_true(tree_grow(&t, m, NULL, m->rows, &how));
			assert_true(c.objective <= objective_of(&t, &o));
			assert_true(look != 3 || c.objective == objective_of(&t, &o));
			last = objective_of(&t, &o);
			tree_free(&t);
		}
		assert_true(last <= leaf_cost(m, (1u << m->rows) - 1) + o.lambda);
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
		const struct exact_options o = random_options(&seed);
		struct certificate c;
		struct tree a, b;
		assert_true(tree_exact(&a, m, &o, &c) && tree_exact(&b, p, &o, &c));
		check_same_splits(&a, 0, &b, 0);
		tree_free(&a);
		tree_free(&b);
		matrix_free(m);
		matrix_free(p);
	}
}

static void test_threads_do_not_show(void **state)
{
	unsigned long long seed = 5;
	(void)state;
	for (int i = 0; i < INSTANCES / 8; i++) {
		struct matrix *m = random_matrix(&seed);
		struct exact_options o = random_options(&seed);
		struct certificate c, d;
		struct tree a, b;
		o.threads = 1;
		assert_true(tree_exact(&a, m, &o, &c));
		o.threads = 3;
		assert_true(tree_exact(&b, m, &o, &d));
		assert_true(c.objective == d.objective && c.bound == d.bound);
		check_same_splits(&a, 0, &b, 0);
		tree_free(&a);
		tree_free(&b);
		matrix_free(m);
	}
}

/* ---- larger ones ------------------------------------------------------------------- */
/* Costs without any structure: the hardest. */
static void fill_random(struct matrix *m, int features, int levels, unsigned long long *seed)
{
	for (int r = 0; r < m->rows; r++) {
		m->weight[r] = 1 + (int)(next_random(seed) % 4);
		for (int f = 0; f < features; f++)
			*feature(m, r, f) = 1 + next_random(seed) % (unsigned)levels;
		for (int c = 0; c < m->cols; c++)
			m->cost[r * m->cols + c] = (int)(next_random(seed) % 500000);
	}
}

/* Kernels that differ in rows a block, keys a step and segments, each with its own
 * fixed and per-key cost, run in waves over 132 units; costs are log slowdowns with
 * 1 % of noise. Features: heads, sequences, lengths, and what follows from them,
 * rounded to about `levels` levels. */
static void fill_latencies(struct matrix *m, int features, int levels, unsigned long long *seed)
{
	double step = pow(65536.0 / 64, 1.0 / levels);
	for (int r = 0; r < m->rows; r++) {
		double us[256], best = INFINITY;
		const int heads = 1 << next_random(seed) % 4, group = 1 << next_random(seed) % 4;
		const int seqs = (int)pow(2, 8.0 * (next_random(seed) % (unsigned)levels) / levels);
		const int query = next_random(seed) % 2 ? 1 : 1 << next_random(seed) % 12;
		const double keys = floor(64 * pow(step, next_random(seed) % (unsigned)levels));
		const double mean = floor(keys * (2 + next_random(seed) % 7) / 8);
		const long long of[] = { group,
					 seqs,
					 (long long)keys,
					 (long long)query * group,
					 (long long)(16 * keys / mean),
					 (long long)(query * mean / 4096),
					 (long long)(seqs * mean),
					 (long long)seqs * query * group * heads / 64,
					 (long long)mean,
					 heads,
					 16 << next_random(seed) % 3,
					 (long long)seqs * query,
					 query,
					 (long long)seqs * heads,
					 1 << 30,
					 0 };
		m->weight[r] = 1 + (int)(next_random(seed) % 4);
		for (int f = 0; f < features; f++)
			*feature(m, r, f) = of[f];
		for (int c = 0; c < m->cols; c++) {
			const int block = 16 << c % 4, segments = 1 << c / 4 % 6,
				  tile = 32 << c / 24;
			const double q_blocks = ceil((double)query * group / block) * seqs * heads;
			const double waves = ceil(q_blocks * segments / 132);
			const double part = fmax(ceil(mean / segments / tile), 1) * tile;
			const double tail = ceil(keys / segments / tile) * tile - part;
			us[c] = 3 + waves * (1.5 + part * (0.004 + 0.00015 * block)) +
				fmax(tail, 0) * 0.004 + (segments > 1) * 2.5 + 0.03 * segments;
			us[c] *= 1 + 0.01 * (next_random(seed) % 1000 / 500.0 - 1);
			best = fmin(best, us[c]);
		}
		for (int c = 0; c < m->cols; c++)
			m->cost[r * m->cols + c] = cost_of(us[c], best);
	}
}

static struct matrix *large_matrix(int rows, int features, int cols, int levels, int kind,
				   unsigned long long seed)
{
	struct matrix *m = matrix_new(rows, cols);
	assert_non_null(m);
	if (kind)
		fill_random(m, features, levels, &seed);
	else
		fill_latencies(m, features, levels, &seed);
	return m;
}

/* Out of time at once, or soon: what is said of the optimum must still hold. */
static void test_time_limits_keep_the_bounds(void **state)
{
	static const double seconds[] = { 1e-9, 1e-3, 5e-3 };
	(void)state;
	for (int kind = 0; kind < 2; kind++)
		for (unsigned seed = 1; seed <= 4; seed++) {
			struct matrix *m = large_matrix(80, 6, 6, 12, kind, seed);
			struct exact_options o = { .depth = 3, .min_support = seed % 3 };
			struct certificate full, c;
			struct tree t;
			assert_true(tree_exact(&t, m, &o, &full));
			tree_free(&t);
			assert_true(full.gap == 0);
			for (size_t i = 0; i < COUNT(seconds); i++) {
				o.seconds = seconds[i];
				assert_true(tree_exact(&t, m, &o, &c));
				assert_true(c.bound <= full.objective);
				assert_true(full.objective <= c.objective);
				assert_true(c.cost == walked_cost(&t, m));
				assert_true((c.gap == 0) == (c.bound == c.objective));
				tree_free(&t);
			}
			matrix_free(m);
		}
}

/* Depth 3 over 120 rows by every root split and the exact depth 2 below it. */
static void test_depth_3_is_the_best_of_all_roots(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++)
		for (int support = 1; support <= 9; support += 4) {
			struct matrix *m = large_matrix(120, 5, 6, 10, kind, 7);
			const struct exact_options o = { .depth = 3, .min_support = support };
			const struct growth below = { 8, 2, support, 2, 0, SIZE_MOST, 0 };
			struct certificate c;
			struct tree t;
			int rows[120];
			long long best = -1;
			for (int f = 0; f < 5; f++)
				for (int at = 0; at < 120; at++) {
					int n = 0, end = 120;
					for (int r = 0; r < 120; r++)
						if (*feature(m, r, f) <= *feature(m, at, f))
							rows[n++] = r;
						else
							rows[--end] = r;
					if (n < support || 120 - n < support)
						continue;
					assert_true(tree_grow(&t, m, rows, n, &below));
					long long sum = tree_cost(&t, 0);
					tree_free(&t);
					if (n < 120) {
						assert_true(
						    tree_grow(&t, m, rows + n, 120 - n, &below));
						sum += tree_cost(&t, 0);
						tree_free(&t);
					}
					best = best < 0 || sum < best ? sum : best;
				}
			assert_true(tree_exact(&t, m, &o, &c));
			assert_true(c.cost == best && c.bound == best);
			tree_free(&t);
			matrix_free(m);
		}
}

static int bench(int argc, char **argv)
{
	int v[] = { 1000, 12, 32, 3, 30, 0, 0 };
	for (int i = 2; i < argc && i - 2 < (int)COUNT(v); i++)
		v[i - 2] = atoi(argv[i]);
	struct matrix *m = large_matrix(v[0], v[1], v[2], v[4], v[6], 1);
	const struct exact_options o = { .depth = v[3], .min_support = 1, .seconds = v[5] };
	struct certificate c;
	struct timespec cpu;
	struct tree t;
	const int done = tree_exact(&t, m, &o, &c);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("%d x %d x %d, %d levels, %s, depth %d: cost %lld, bound %lld, gap %.4f, %d leaves, "
	       "%lld sets, %.3f s, %.3f s of CPU\n",
	       v[0], v[1], v[2], v[4], v[6] ? "random" : "latencies", v[3], c.cost, c.bound, c.gap,
	       tree_leaves(&t), c.nodes, c.seconds,
	       (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec);
	tree_free(&t);
	matrix_free(m);
	return !done;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_is_brute_force),
		cmocka_unit_test(test_exact_hybrid_leaf_are_in_that_order),
		cmocka_unit_test(test_order_of_rows_and_columns_does_not_matter),
		cmocka_unit_test(test_threads_do_not_show),
		cmocka_unit_test(test_time_limits_keep_the_bounds),
		cmocka_unit_test(test_depth_3_is_the_best_of_all_roots),
	};
	if (argc > 1 && !strcmp(argv[1], "--bench"))
		return bench(argc, argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
