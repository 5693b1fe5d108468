/* pairs.c - the terminal step of the search: given a split, the best tree of one
 * more split on either side. The four quadrants that two splits make take their
 * columns independently of each other, so a pair of splits costs four minima
 * over columns and not columns squared (as in the depth-2 solvers of MurTree,
 * Demirovic et al. 2022, and STreeD, van der Linden et al. 2023, section 4.3).
 *
 * Over the levels b of feature g, with the split (f, a) fixed:
 *
 *            g <= b    g > b
 *   small      X       S - X      S: all rows of the smaller side
 *   large    P[b] - X  L-P[b]+X   P: prefix sums of the node; L: of the larger
 *
 * X is summed from the smaller side's rows only; the rest follows by subtraction.
 * Where a level holds no row of a side that side's sums have not changed. */
#include "solver.h"
#include <string.h>

/* Compiled for several instruction sets; the widest that the CPU has is taken. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define CLONES
#endif

struct sweep {
	const int64_t *prefix, *bin; /* [u][d] */
	const int64_t *all[2];       /* [d] of the small and the large side */
	int64_t *passed;             /* [d] */
	const int *in_bin, *below;   /* [u] rows stood for: small, at a level; both, up to it */
	int u, d, count[2], support;
};

CLONES int64_t least_of(const int64_t *v, int d)
{
	int64_t least = INT64_MAX;
	for (int c = 0; c < d; c++)
		least = v[c] < least ? v[c] : least;
	return least;
}

CLONES static void subtract(int64_t *restrict to, const int64_t *restrict a,
			    const int64_t *restrict b, int d)
{
	for (int c = 0; c < d; c++)
		to[c] = a[c] - b[c];
}

/* Cheapest cut of each side over the levels of one feature: [side][with support]. */
CLONES static void sweep_levels(const struct sweep *s, int64_t least[2][2])
{
	const int d = s->d;
	int64_t *restrict passed = s->passed;
	int small = 0, large = 0;
	memset(passed, 0, sizeof *passed * (size_t)d);
	for (int b = 0; b + 1 < s->u; b++) {
		const int64_t *restrict prefix = &s->prefix[(size_t)b * (size_t)d];
		const int changed = s->in_bin[b] > 0;
		small += s->in_bin[b];
		if (changed) {
			const int64_t *restrict bin = &s->bin[(size_t)b * (size_t)d];
			const int64_t *restrict all = s->all[0];
			int64_t below = INT64_MAX, above = INT64_MAX;
			for (int c = 0; c < d; c++) {
				const int64_t x = passed[c] + bin[c], rest = all[c] - x;
				passed[c] = x;
				below = x < below ? x : below;
				above = rest < above ? rest : above;
			}
			const int fits = small >= s->support && s->count[0] - small >= s->support;
			below += above;
			if (small < s->count[0]) {
				least[0][0] = below < least[0][0] ? below : least[0][0];
				least[0][1] = fits && below < least[0][1] ? below : least[0][1];
			}
		}
		if (s->below[b] - small > large) {
			const int64_t *restrict all = s->all[1];
			int64_t below = INT64_MAX, above = INT64_MAX;
			large = s->below[b] - small;
			if (large == s->count[1])
				continue;
			for (int c = 0; c < d; c++) {
				const int64_t x = prefix[c] - passed[c], rest = all[c] - x;
				below = x < below ? x : below;
				above = rest < above ? rest : above;
			}
			const int fits = large >= s->support && s->count[1] - large >= s->support;
			below += above;
			least[1][0] = below < least[1][0] ? below : least[1][0];
			least[1][1] = fits && below < least[1][1] ? below : least[1][1];
		}
	}
}

/* Positions in the view of the rows on the smaller side; which side that is. */
static int list_smaller(struct solver *s, const struct view *v, int f, int a, int *n)
{
	const uint16_t *local = &v->local[(size_t)f * (size_t)s->n];
	int below = 0, side;
	for (int i = 0; i < v->n; i++)
		below += local[i] <= a;
	side = 2 * below > v->n;
	*n = 0;
	for (int i = 0; i < v->n; i++)
		if ((local[i] > a) == side)
			s->list[(*n)++] = i;
	return side;
}

/* Sums the listed rows by their level of feature g. */
CLONES static void fill_bins(struct solver *s, const struct view *v, int g, int n)
{
	const uint16_t *local = &v->local[(size_t)g * (size_t)s->n];
	const size_t d = (size_t)s->d;
	memset(s->in_bin, 0, sizeof *s->in_bin * (size_t)v->u[g]);
	for (int i = 0; i < n; i++) {
		const int row = v->row[s->list[i]], b = local[s->list[i]];
		const int64_t *restrict cost = &s->cost[(size_t)row * d];
		int64_t *restrict bin = &s->bin[(size_t)b * d];
		if (s->in_bin[b])
			for (size_t c = 0; c < d; c++)
				bin[c] += cost[c];
		else
			memcpy(bin, cost, sizeof *cost * d);
		s->in_bin[b] += s->count[row];
	}
}

static void settle(struct half *side, const struct solver *s, const int64_t *all,
		   const int64_t least[2])
{
	const int64_t leaf = least_of(all, s->d) + s->leaf, twice = 2 * s->leaf;
	side->relaxed = least[0] < leaf - twice ? least[0] + twice : leaf;
	side->lower = least[1] < leaf - twice ? least[1] + twice : leaf;
	side->solved = 1;
}

void solve_pair(struct solver *s, const struct view *v, int f, int a, struct half side[2])
{
	const size_t d = (size_t)s->d;
	const int64_t *below = &v->prefix[(v->start[f] + (size_t)a) * d];
	int64_t *all[2] = { s->all_of, s->all_of + d }; /* by side */
	int64_t least[2][2] = { { INT64_MAX, INT64_MAX }, { INT64_MAX, INT64_MAX } };
	int count[2] = { v->below[f * s->room + a], 0 }, n;
	const int small = list_smaller(s, v, f, a, &n);
	count[1] = v->count - count[0];
	memcpy(all[0], below, sizeof *below * d);
	subtract(all[1], v->total, below, s->d);
	struct sweep w = { .bin = s->bin,
			   .all = { all[small], all[!small] },
			   .passed = s->passed,
			   .in_bin = s->in_bin,
			   .d = s->d,
			   .count = { count[small], count[!small] },
			   .support = s->support };
	for (int g = 0; g < s->p; g++) {
		if (v->u[g] < 2)
			continue;
		fill_bins(s, v, g, n);
		w.prefix = &v->prefix[v->start[g] * d];
		w.below = &v->below[g * s->room];
		w.u = v->u[g];
		sweep_levels(&w, least);
	}
	settle(&side[small], s, all[small], least[0]);
	settle(&side[!small], s, all[!small], least[1]);
}

/* Least of x and of all - x, added. */
CLONES static int64_t cut(const int64_t *restrict x, const int64_t *restrict all, int d)
{
	int64_t below = INT64_MAX, above = INT64_MAX;
	for (int c = 0; c < d; c++) {
		const int64_t rest = all[c] - x[c];
		below = x[c] < below ? x[c] : below;
		above = rest < above ? rest : above;
	}
	return below + above;
}

void solve_single(const struct solver *s, const struct view *v, struct answer *answer,
		  int64_t *by_feature)
{
	const int64_t leaf = least_of(v->total, s->d) + s->leaf;
	*answer = (struct answer){ leaf, leaf, leaf, -1, 0, 1 };
	for (int f = 0; f < s->p; f++) {
		const int *below = &v->below[f * s->room];
		int64_t least = leaf;
		for (int a = 0; a + 1 < v->u[f]; a++) {
			const int64_t *x = &v->prefix[(v->start[f] + (size_t)a) * (size_t)s->d];
			const int64_t cost = cut(x, v->total, s->d) + 2 * s->leaf;
			answer->relaxed = cost < answer->relaxed ? cost : answer->relaxed;
			least = cost < least ? cost : least;
			if (cost < answer->value && below[a] >= s->support &&
			    v->count - below[a] >= s->support) {
				answer->value = answer->lower = cost;
				answer->f = f;
				answer->at = v->rank[f * s->room + a];
			}
		}
		if (by_feature)
			by_feature[f] = least;
	}
}
