/* grow.c - cost-sensitive trees: induction that minimises what the choices cost,
 * not how often they are the winner, and cross-validation for their size.
 *
 * A node tries splits between adjacent levels of every feature and looks one
 * level ahead: a split is worth what its halves cost once each is split again
 * where that is best. Ties go to the lower cost without looking ahead, then
 * to the feature that is first in features.def, the lower threshold, the lower
 * column. All sums are integers, and nothing is random, so the tree depends on
 * the matrix alone. */
#include "tuner.h"
#include <stdlib.h>
#include <string.h>

enum {
	CANDIDATES = 4, /* thresholds a feature that are looked beyond */
	WORK = 1 << 22  /* below this many steps a node looks beyond all of them */
};

struct split {
	int feature;
	long long lo, hi; /* `value <= t` separates for every t in lo..hi */
	long long cost;
};

/* Rows of a node, sorted by each feature: order[f * n + i]. */
struct sample {
	int *order, n;
};

struct grower {
	const struct matrix *m;
	const struct growth *how;
	struct tree *tree;
	long long *w; /* [rows][cols] weight x cost */
	int active[ATTUNE_NUM_FEATURES], num_active;
	signed char *half;            /* [rows] of the split that is being looked beyond */
	long long *total[2], *sum[2]; /* [cols] of each half: all its rows; those passed */
	struct split *all;            /* [rows x features] candidates of the node at hand */
};

static long long value(const struct grower *g, int row, int feature)
{
	return ((const long long *)&g->m->f[row])[feature];
}

static void add_row(const struct grower *g, long long *sum, int row)
{
	const long long *w = &g->w[(size_t)row * (size_t)g->m->cols];
	for (int c = 0; c < g->m->cols; c++)
		sum[c] += w[c];
}

static long long least(const long long *sum, int n)
{
	long long v = sum[0];
	for (int c = 1; c < n; c++)
		v = sum[c] < v ? sum[c] : v;
	return v;
}

/* Cost of cutting a half here: the rows passed, and the rest. */
static long long cut(const struct grower *g, int half)
{
	const long long *sum = g->sum[half], *total = g->total[half];
	long long below = sum[0], above = total[0] - sum[0];
	for (int c = 1; c < g->m->cols; c++) {
		const long long rest = total[c] - sum[c];
		below = sum[c] < below ? sum[c] : below;
		above = rest < above ? rest : above;
	}
	return below + above;
}

/* Tries every threshold of a feature in both halves at once. best[] keeps the
 * first of the cheapest; all of half 0 go to `list`, if given, which grows. */
static void scan(struct grower *g, const struct sample *s, int feature, const int count[2],
		 struct split best[2], struct split *list, int *listed)
{
	const int *order = &s->order[(size_t)feature * (size_t)s->n];
	const int support = g->how->min_support;
	long long last[2] = { 0, 0 };
	int passed[2] = { 0, 0 };
	memset(g->sum[0], 0, sizeof *g->sum[0] * (size_t)g->m->cols);
	memset(g->sum[1], 0, sizeof *g->sum[1] * (size_t)g->m->cols);
	for (int i = 0; i < s->n; i++) {
		const int h = g->half[order[i]];
		const long long v = value(g, order[i], feature);
		if (v != last[h] && passed[h] >= support && count[h] - passed[h] >= support) {
			const struct split here = { feature, last[h], v - 1, cut(g, h) };
			if (here.cost < best[h].cost)
				best[h] = here;
			if (list && !h)
				list[(*listed)++] = here;
		}
		last[h] = v;
		passed[h]++;
		add_row(g, g->sum[h], order[i]);
	}
}

/* Puts rows into halves and adds up each; order of feature 0 serves as the list. */
static void halve(struct grower *g, const struct sample *s, const struct split *at, int count[2])
{
	count[0] = count[1] = 0;
	memset(g->total[0], 0, sizeof *g->total[0] * (size_t)g->m->cols);
	memset(g->total[1], 0, sizeof *g->total[1] * (size_t)g->m->cols);
	for (int i = 0; i < s->n; i++) {
		const int row = s->order[i], h = at && value(g, row, at->feature) > at->lo;
		g->half[row] = (signed char)h;
		count[h]++;
		add_row(g, g->total[h], row);
	}
}

/* What the sample costs when split here and each half once more. */
static long long look_beyond(struct grower *g, const struct sample *s, const struct split *at)
{
	struct split best[2];
	int count[2];
	halve(g, s, at, count);
	best[0].cost = least(g->total[0], g->m->cols);
	best[1].cost = least(g->total[1], g->m->cols);
	for (int i = 0; i < g->num_active; i++)
		scan(g, s, g->active[i], count, best, NULL, NULL);
	return best[0].cost + best[1].cost;
}

/* Keeps the CANDIDATES cheapest of list[from..n), in order; returns the new n. */
static int shorten(struct split *list, int from, int n)
{
	while (n - from > CANDIDATES) {
		int worst = from;
		for (int i = from; i < n; i++)
			if (list[i].cost >= list[worst].cost)
				worst = i;
		memmove(&list[worst], &list[worst + 1], sizeof *list * (size_t)(n - worst - 1));
		n--;
	}
	return n;
}

/* The node's splits worth a look, by feature and threshold; how many. */
static int candidates(struct grower *g, const struct sample *s)
{
	struct split best[2] = { { .cost = 0 }, { .cost = 0 } };
	int count[2], n = 0;
	halve(g, s, NULL, count);
	for (int i = 0; i < g->num_active; i++)
		scan(g, s, g->active[i], count, best, g->all, &n);
	const long long step = (long long)g->num_active * s->n * g->m->cols;
	if (g->how->exhaustive || step * n <= WORK)
		return n;
	int kept = 0;
	for (int i = 0; i < n;) {
		const int from = kept, feature = g->all[i].feature;
		for (; i < n && g->all[i].feature == feature; i++)
			g->all[kept++] = g->all[i];
		kept = shorten(g->all, from, kept);
	}
	return kept;
}

/* 0 when no split makes the sample cheaper than `leaf`. */
static int choose_split(struct grower *g, const struct sample *s, int depth, long long leaf,
			struct split *chosen)
{
	const int n = candidates(g, s);
	long long lowest = leaf;
	int found = 0;
	for (int i = 0; i < n; i++) {
		const struct split at = g->all[i];
		const long long cost = depth > 1 ? look_beyond(g, s, &at) : at.cost;
		if (cost > lowest || (cost == lowest && (!found || at.cost >= chosen->cost)))
			continue;
		lowest = cost;
		*chosen = at;
		found = 1;
	}
	return found;
}

static void describe(const struct grower *g, const struct sample *s, struct node *v)
{
	const long long *total = g->total[0];
	v->support = s->n;
	for (int i = 0; i < s->n; i++)
		v->weight += g->m->weight[s->order[i]];
	for (int c = 1; c < g->m->cols; c++)
		if (total[c] < total[v->action])
			v->action = c;
	v->cost = total[v->action];
	for (int c = 0; c < g->m->cols; c++)
		if (c != v->action && (v->runner_up < 0 || total[c] < total[v->runner_up]))
			v->runner_up = c;
	if (v->runner_up >= 0)
		v->runner_up_cost = total[v->runner_up];
}

/* Least that any tree could cost: every row at its own best. */
static long long floor_cost(const struct grower *g, const struct sample *s)
{
	long long sum = 0;
	for (int i = 0; i < s->n; i++)
		sum += least(&g->w[(size_t)s->order[i] * (size_t)g->m->cols], g->m->cols);
	return sum;
}

static int part_of(const struct grower *g, const struct sample *s, const struct split *at, int side,
		   struct sample *part)
{
	const size_t n = (size_t)s->n;
	part->n = 0;
	for (size_t i = 0; i < n; i++)
		part->n += (value(g, s->order[i], at->feature) > at->lo) == side;
	part->order = malloc(sizeof *part->order * (size_t)part->n * ATTUNE_NUM_FEATURES);
	if (!part->order)
		return 0;
	int *to = part->order;
	for (size_t i = 0; i < n * ATTUNE_NUM_FEATURES; i++)
		if ((value(g, s->order[i], at->feature) > at->lo) == side)
			*to++ = s->order[i];
	return 1;
}

/* Grows the subtree over `s`; its root, or -1 without memory. */
static int grow_node(struct grower *g, const struct sample *s, int depth)
{
	const int at = tree_new_node(g->tree);
	struct split split = { 0 };
	int count[2], child[2] = { -1, -1 };
	if (at < 0)
		return -1;
	halve(g, s, NULL, count);
	describe(g, s, &g->tree->v[at]);
	if (!depth || g->tree->v[at].cost == floor_cost(g, s) ||
	    !choose_split(g, s, depth, g->tree->v[at].cost, &split))
		return at;
	for (int side = 0; side < 2; side++) {
		struct sample part;
		if (!part_of(g, s, &split, side, &part))
			return -1;
		child[side] = grow_node(g, &part, depth - 1);
		free(part.order);
		if (child[side] < 0)
			return -1;
	}
	g->tree->v[at].feature = split.feature;
	g->tree->v[at].threshold = round_between(split.lo, split.hi);
	g->tree->v[at].below = child[0];
	g->tree->v[at].above = child[1];
	return at;
}

struct sorting {
	const struct grower *g;
	int feature;
};

static int by_value(const void *pa, const void *pb, void *arg)
{
	const struct sorting *by = arg;
	const int a = *(const int *)pa, b = *(const int *)pb;
	const long long x = value(by->g, a, by->feature), y = value(by->g, b, by->feature);
	return x != y ? (x > y) - (x < y) : (a > b) - (a < b);
}

static int sort_rows(struct grower *g, const int *rows, int n, struct sample *s)
{
	s->n = n;
	s->order = malloc(sizeof *s->order * (size_t)(n + 1) * ATTUNE_NUM_FEATURES);
	if (!s->order)
		return 0;
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++) {
		int *order = &s->order[(size_t)f * (size_t)n];
		const struct sorting by = { g, f };
		for (int i = 0; i < n; i++)
			order[i] = rows ? rows[i] : i;
		qsort_r(order, (size_t)n, sizeof *order, by_value, (void *)&by);
		if (n && value(g, order[0], f) != value(g, order[n - 1], f))
			g->active[g->num_active++] = f;
	}
	return 1;
}

static int grower_open(struct grower *g)
{
	const size_t rows = (size_t)g->m->rows + 1, cols = (size_t)g->m->cols + 1;
	g->w = malloc(sizeof *g->w * rows * cols);
	g->half = calloc(rows, 1);
	g->all = malloc(sizeof *g->all * rows * ATTUNE_NUM_FEATURES);
	for (int h = 0; h < 2; h++) {
		g->total[h] = calloc(cols, sizeof *g->total[h]);
		g->sum[h] = calloc(cols, sizeof *g->sum[h]);
	}
	if (!g->w || !g->half || !g->all || !g->total[0] || !g->total[1] || !g->sum[0] ||
	    !g->sum[1])
		return 0;
	for (int r = 0; r < g->m->rows; r++)
		for (int c = 0; c < g->m->cols; c++)
			g->w[(size_t)r * (size_t)g->m->cols + (size_t)c] = matrix_at(g->m, r, c);
	return 1;
}

static void grower_close(struct grower *g)
{
	free(g->w);
	free(g->half);
	free(g->all);
	for (int h = 0; h < 2; h++) {
		free(g->total[h]);
		free(g->sum[h]);
	}
}

int tree_grow(struct tree *t, const struct matrix *m, const int *rows, int n,
	      const struct growth *how)
{
	struct grower g = { .m = m, .how = how, .tree = t };
	struct sample s = { 0 };
	int done = 0;
	*t = (struct tree){ 0 };
	if (grower_open(&g) && sort_rows(&g, rows, n, &s))
		done = grow_node(&g, &s, how->max_depth) == 0;
	free(s.order);
	grower_close(&g);
	return done;
}
