/* t_exact_large.c - the exact solver on larger instances: depth 3 is the best of all roots. */
#include "matrix_features.h"

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

/* Kernels that differ in rows a block, keys a step and segments, each with its own fixed and
 * per-key cost, run in waves over 132 units; costs are log slowdowns with 1 % of noise.
 * Features: heads, sequences, lengths and their derivatives, rounded to about `levels` levels. */
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

/* Depth 3 over 120 rows by every root split and the exact depth 2 below it. */
static void test_depth_3_is_the_best_of_all_roots(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++)
		for (int support = 1; support <= 9; support += 4) {
			struct matrix *m = large_matrix(120, 5, 6, 10, kind, 7);
			const struct growth below = { .max_leaves = 8,
						      .max_depth = 2,
						      .min_support = support };
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
			assert_true(tree_exact(&t, m, 3, support, 2));
			assert_true(tree_cost(&t, 0) == best && walked_cost(&t, m) == best);
			tree_free(&t);
			matrix_free(m);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depth_3_is_the_best_of_all_roots),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
