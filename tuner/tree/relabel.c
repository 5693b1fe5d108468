/* relabel.c - reduces the choices that leaves name. A leaf may take any column within epsilon of
 * its best one, so the fewest columns for all leaves are a minimum hitting set. It is found exactly
 * by branch and bound; with at most 64 leaves, sets are words of 64 bits.
 *
 *   leaf    within epsilon     of the smallest hitting sets the one that costs least:
 *    0      a  b               {b, c}
 *    1         b  c            leaves take the cheapest of it
 *    2            c
 *
 * It branches on the leaf with the fewest options; each option excludes the earlier ones, so that
 * no set is tried twice. Two bounds: leaves that share no option need one each, and each leaf costs
 * at least its cheapest remaining option. */
#include "tree.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct hitting {
	int leaves, groups;
	uint64_t options[MOST];     /* of each leaf: groups within epsilon */
	long long cost[MOST][MOST]; /* [leaf][group] cheapest column of it */
	uint64_t best;              /* set of groups */
	int size;
	long long sum;
};

static long long served_at(const struct hitting *h, int leaf, uint64_t groups)
{
	long long least = -1;
	for (uint64_t left = h->options[leaf] & groups; left; left &= left - 1) {
		const long long cost = h->cost[leaf][__builtin_ctzll(left)];
		least = least < 0 || cost < least ? cost : least;
	}
	return least;
}

/* Cost if all these groups may be used; -1: some leaf has none of them. */
static long long sum_served(const struct hitting *h, uint64_t groups)
{
	long long sum = 0;
	for (int i = 0; i < h->leaves; i++) {
		const long long cost = served_at(h, i, groups);
		if (cost < 0)
			return -1;
		sum += cost;
	}
	return sum;
}

/* Counts unserved leaves that pairwise share no option; *fewest: the leaf to branch on. */
static int count_disjoint(const struct hitting *h, uint64_t chosen, uint64_t allowed, int *fewest)
{
	uint64_t taken = 0;
	int n = 0, least = MOST + 1;
	*fewest = -1;
	for (int i = 0; i < h->leaves; i++) {
		const uint64_t options = h->options[i] & allowed;
		const int count = __builtin_popcountll(options);
		if (h->options[i] & chosen)
			continue;
		if (count < least) {
			least = count;
			*fewest = i;
		}
		if (!(options & taken)) {
			taken |= options;
			n++;
		}
	}
	return n;
}

/* The lowest group in which two sets differ is in a. */
static int comes_first(uint64_t a, uint64_t b)
{
	const uint64_t differ = a ^ b;
	return differ && a & differ & -differ;
}

static void choose(struct hitting *h, uint64_t chosen, uint64_t allowed)
{
	const int size = __builtin_popcountll(chosen);
	const long long sum = sum_served(h, chosen | allowed);
	int leaf;
	const int more = count_disjoint(h, chosen, allowed, &leaf);
	if (sum < 0 || size + more > h->size || (size + more == h->size && sum > h->sum))
		return;
	if (leaf < 0) {
		const long long own = sum_served(h, chosen);
		if (size < h->size || own < h->sum ||
		    (own == h->sum && comes_first(chosen, h->best))) {
			h->best = chosen;
			h->size = size;
			h->sum = own;
		}
		return;
	}
	for (uint64_t left = h->options[leaf] & allowed; left; left &= left - 1) {
		const uint64_t one = left & -left;
		choose(h, chosen | one, allowed & ~one);
		allowed &= ~one;
	}
}

/* ---- the tree -------------------------------------------------------------------------- */
struct relabel {
	const struct tree *t;
	const struct matrix *m;
	const int *group; /* [cols], numbered from 0 as they come up */
	int *leaf;        /* [nodes] number of each leaf */
	struct hitting h;
};

/* Numbers groups 0, 1, ... in the order of columns; returns how many. */
static int number_groups(const struct matrix *m, const int *given, int *group)
{
	int n = 0;
	for (int c = 0; c < m->cols; c++) {
		int like = 0;
		while (given && like < c && given[like] != given[c])
			like++;
		group[c] = given && like < c ? group[like] : n++;
	}
	return n;
}

/* sum: [leaves][cols]. */
static void sum_leaves(const struct relabel *x, long long *sum)
{
	for (int r = 0; r < x->m->rows; r++) {
		const int leaf = x->leaf[tree_leaf(x->t, &x->m->f[r])];
		for (int c = 0; c < x->m->cols; c++)
			sum[(size_t)leaf * (size_t)x->m->cols + (size_t)c] += matrix_at(x->m, r, c);
	}
}

static void list_options(struct relabel *x, const long long *sum, long long slack)
{
	for (int n = 0; n < x->t->n; n++) {
		const struct node *v = &x->t->v[n];
		if (v->feature >= 0)
			continue;
		const int leaf = x->leaf[n];
		const long long *cost = &sum[(size_t)leaf * (size_t)x->m->cols];
		for (int c = 0; c < x->m->cols; c++) {
			const uint64_t one = 1ull << x->group[c];
			long long *least = &x->h.cost[leaf][x->group[c]];
			if (cost[c] > v->cost + slack * v->weight)
				continue;
			*least = x->h.options[leaf] & one && *least < cost[c] ? *least : cost[c];
			x->h.options[leaf] |= one;
		}
	}
}

/* Marks the column that each leaf takes: its cheapest of the chosen groups. */
static void mark_taken(const struct relabel *x, const long long *sum, char *taken)
{
	memset(taken, 0, (size_t)x->m->cols);
	for (int leaf = 0; leaf < x->h.leaves; leaf++) {
		const long long *cost = &sum[(size_t)leaf * (size_t)x->m->cols];
		int best = -1;
		for (int c = 0; c < x->m->cols; c++)
			if (x->h.best >> x->group[c] & 1 && (best < 0 || cost[c] < cost[best]))
				best = c;
		taken[best] = 1;
	}
}

static int relabel(struct relabel *x, struct tree *t, int *rows, long long slack)
{
	const size_t leaves = (size_t)x->h.leaves, cols = (size_t)x->m->cols;
	long long *sum = calloc(leaves * cols, sizeof *sum);
	char *taken = malloc(cols);
	int done = sum && taken;
	if (done) {
		sum_leaves(x, sum);
		list_options(x, sum, slack);
		x->h.size = MOST + 1;
		choose(&x->h, 0, x->h.groups == MOST ? UINT64_MAX : (1ull << x->h.groups) - 1);
		mark_taken(x, sum, taken);
		done = tree_annotate_among(t, x->m, rows, x->m->rows, taken) && tree_tidy(t);
	}
	free(sum);
	free(taken);
	return done;
}

int tree_relabel(struct tree *t, const struct matrix *m, double epsilon, const int *group)
{
	struct relabel x = { .t = t, .m = m };
	int *own = malloc(sizeof *own * (size_t)(m->cols + 1)), *rows = matrix_rows(m), done;
	x.leaf = malloc(sizeof *x.leaf * (size_t)(t->n + 1));
	done = own && rows && x.leaf && tree_annotate(t, m, rows, m->rows);
	if (done) {
		x.h.groups = number_groups(m, group, own);
		x.group = own;
		for (int n = 0; n < t->n; n++)
			x.leaf[n] = t->v[n].feature < 0 ? x.h.leaves++ : -1;
		if (x.h.leaves <= MOST && x.h.groups <= MOST)
			done = relabel(&x, t, rows, (long long)(1e6 * epsilon));
	}
	free(own);
	free(rows);
	free(x.leaf);
	return done;
}
