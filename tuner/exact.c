/* exact.c - the tree of least cost of all trees of a depth, and proof of it.
 *
 * "Policy trees" over per-instance costs (Zhou, Athey, Wager 2023; policytree), by
 * branch and bound. What is whose:
 *   - costs of subtrees add up, so that a set of rows and a depth have one answer
 *     wherever they come up, kept by a 128-bit Zobrist hash; the similarity bound
 *     between sets that differ by a few rows; the depth-2 step (pairs.c): STreeD,
 *     van der Linden, de Weerdt, Demirovic 2023, arXiv 2305.19706, sections 4.2-4.4;
 *   - thresholds in bisection order, where the answers at the ends of an interval
 *     bound all that lies between them: ConTree, Brita, van der Linden, Demirovic
 *     2025, arXiv 2501.07903, section 4.2, there for errors. It holds for any cost
 *     that is not negative: a tree for a set costs its subsets no more.
 *
 *       left(lo) in left(a), right(hi) in right(a)  for lo < a < hi
 *       => cost(a) >= relaxed(left(lo)) + relaxed(right(hi))
 *
 * With a minimum support restriction makes leaves that are too small, and the bound
 * would be none; so bounds are of the problem without it (struct half, `relaxed`),
 * and only incumbents observe it.
 *
 * Among trees that cost the same the one of fewest leaves wins, then at each node
 * the first feature, then the lowest threshold; so bounds cut off a tie only
 * where it would lose. The answer hence does not depend on the order of search. */
#include "solver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- cache ------------------------------------------------------------------------ */
struct entry {
	uint64_t hash[2];
	int n, depth; /* depth 0: free */
	struct answer answer;
};
enum { FIRST_ROOM = 1 << 10, MOST_ROOM = 1 << 20 }; /* powers of two; 72 MB */

static struct entry *find(const struct cache *c, const uint64_t hash[2], int n, int depth)
{
	size_t i = (hash[0] + (uint64_t)depth) & (c->room - 1);
	for (; c->v[i].depth; i = (i + 1) & (c->room - 1)) {
		struct entry *e = &c->v[i];
		if (e->hash[0] == hash[0] && e->hash[1] == hash[1] && e->n == n &&
		    e->depth == depth)
			return e;
	}
	return &c->v[i];
}

static void grow_cache(struct cache *c)
{
	struct cache to = { .room = c->room ? 2 * c->room : FIRST_ROOM, .used = c->used };
	to.v = calloc(to.room, sizeof *to.v);
	if (!to.v)
		return;
	for (size_t i = 0; i < c->room; i++)
		if (c->v[i].depth)
			*find(&to, c->v[i].hash, c->v[i].n, c->v[i].depth) = c->v[i];
	free(c->v);
	*c = to;
}

/* NULL: nothing known. */
static const struct answer *recall(const struct solver *s, const uint64_t hash[2], int n, int depth)
{
	const struct entry *e = s->cache.v ? find(&s->cache, hash, n, depth) : NULL;
	return e && e->depth ? &e->answer : NULL;
}

static void remember(struct solver *s, const uint64_t hash[2], int n, int depth,
		     const struct answer *answer)
{
	struct cache *c = &s->cache;
	if (2 * c->used >= c->room && c->room < MOST_ROOM)
		grow_cache(c);
	if (!c->v)
		return;
	struct entry *e = find(c, hash, n, depth);
	if (!e->depth && 4 * c->used > 3 * c->room)
		return;
	c->used += !e->depth;
	*e = (struct entry){ { hash[0], hash[1] }, n, depth, *answer };
}

/* ---- search ------------------------------------------------------------------------- */
static double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A node of the search at work. */
struct search {
	struct solver *s;
	const struct view *v;
	int depth;
	int64_t budget;
	struct answer best;
	/* Of the feature at hand: the ends of the thresholds tried, and what is known there. */
	int tried[2];
	int64_t right_of_first, left_of_last;
};

/* What a tree at (f, rank) may cost to be of use: as much as the best when it
 * would win the tie. */
static int64_t limit_at(const struct search *x, int f, int rank)
{
	const struct answer *b = &x->best;
	const int wins = b->f > f || (b->f == f && b->at > rank);
	const int64_t limit = wins ? b->value : b->value - 1;
	return limit < x->budget ? limit : x->budget;
}

static void lower_to(int64_t *v, int64_t to)
{
	*v = to < *v ? to : *v;
}

static void note_bound(struct search *x, int64_t bound)
{
	lower_to(&x->best.relaxed, bound);
	lower_to(&x->best.lower, bound);
}

static void note_trial(struct search *x, int f, int rank, const struct half side[2])
{
	const int64_t lower = side[0].lower + side[1].lower;
	const int solved = side[0].solved && side[1].solved;
	const int wins = solved && lower <= limit_at(x, f, rank);
	lower_to(&x->best.relaxed, side[0].relaxed + side[1].relaxed);
	lower_to(&x->best.lower, lower);
	if (wins) {
		x->best.value = lower;
		x->best.f = f;
		x->best.at = rank;
	}
}

static void raise_to(int64_t *v, int64_t to)
{
	*v = to > *v ? to : *v;
}

static struct half half_of(const struct answer *a)
{
	return (struct half){ a->relaxed, a->lower, a->solved };
}

static void set_hash(const struct solver *s, const int *rows, int n, uint64_t hash[2])
{
	hash[0] = hash[1] = 0;
	for (int i = 0; i < n; i++)
		for (int h = 0; h < 2; h++)
			hash[h] ^= s->hash[rows[i]][h];
}

/* Both sides by search, the larger first; the other only if the sum may be of use.
 * side[] comes with bounds. */
static void try_children(struct search *x, int f, int rank, struct half side[2])
{
	struct solver *s = x->s;
	int *rows = s->sides[x->depth];
	const int64_t limit = limit_at(x, f, rank);
	const int below = view_divide(s, x->v, f, rank, rows);
	const int n[2] = { below, x->v->n - below };
	const int first = n[1] > n[0];
	for (int k = 0; k < 2; k++) {
		uint64_t hash[2];
		set_hash(s, rows + (k ? below : 0), n[k], hash);
		const struct answer *known = recall(s, hash, n[k], x->depth - 1);
		if (known) {
			raise_to(&side[k].relaxed, known->relaxed);
			raise_to(&side[k].lower, known->lower);
		}
	}
	for (int i = 0; i < 2; i++) {
		const int k = i ? !first : first;
		if (side[0].lower + side[1].lower > limit)
			return;
		const struct answer a =
		    solve(s, rows + (k ? below : 0), n[k], x->depth - 1, limit - side[!k].lower);
		const struct half got = half_of(&a);
		raise_to(&side[k].relaxed, got.relaxed);
		raise_to(&side[k].lower, got.lower);
		side[k].solved = got.solved;
	}
}

/* Sums of the greatest costs of rows, by level of a feature. */
static void sum_most(const struct search *x, int f)
{
	const uint16_t *local = &x->v->local[(size_t)f * (size_t)x->s->n];
	int64_t *most = x->v->most;
	memset(most, 0, sizeof *most * (size_t)x->v->u[f]);
	for (int i = 0; i < x->v->n; i++)
		most[local[i]] += x->s->most[x->v->row[i]];
	for (int l = 1; l < x->v->u[f]; l++)
		most[l] += most[l - 1];
}

/* What is known of the two sides at the ends of an interval; the similarity bound
 * takes from the larger set what the rows between could cost at the most. */
struct ends {
	int lo, hi;
	int64_t left[2], right[2]; /* relaxed bounds at lo and at hi, 0: none */
};

/* The thresholds lo < a < hi of a feature. */
static void bisect(struct search *x, int f, const struct ends *e)
{
	const uint16_t *rank = &x->v->rank[f * x->s->room];
	const int mid = e->lo + (e->hi - e->lo) / 2;
	const int64_t bound = e->left[0] + e->right[1];
	if (mid == e->lo)
		return;
	if (x->s->late || bound > limit_at(x, f, rank[e->lo + 1])) {
		note_bound(x, bound);
		return;
	}
	struct half side[2] = { { e->left[0], e->left[0], 0 }, { e->right[1], e->right[1], 0 } };
	if (e->left[1])
		raise_to(&side[0].relaxed, e->left[1] - x->v->most[e->hi] + x->v->most[mid]);
	if (e->right[0])
		raise_to(&side[1].relaxed, e->right[0] - x->v->most[mid] + x->v->most[e->lo]);
	raise_to(&side[0].lower, side[0].relaxed);
	raise_to(&side[1].lower, side[1].relaxed);
	if (side[0].relaxed + side[1].relaxed <= limit_at(x, f, rank[mid])) {
		if (x->depth == 2)
			solve_pair(x->s, x->v, f, mid, side);
		else
			try_children(x, f, rank[mid], side);
	}
	note_trial(x, f, rank[mid], side);
	if (mid < x->tried[0]) {
		x->tried[0] = mid;
		x->right_of_first = side[1].relaxed;
	}
	if (mid > x->tried[1]) {
		x->tried[1] = mid;
		x->left_of_last = side[0].relaxed;
	}
	const struct ends lower = {
		e->lo, mid, { e->left[0], side[0].relaxed }, { e->right[0], side[1].relaxed }
	};
	const struct ends upper = {
		mid, e->hi, { side[0].relaxed, e->left[1] }, { side[1].relaxed, e->right[1] }
	};
	bisect(x, f, &lower);
	bisect(x, f, &upper);
}

/* Thresholds that leave both sides their support lie in one interval. Those beyond
 * it count for the relaxed bound alone: a leaf, and the far side of what was tried. */
static void try_feature(struct search *x, int f)
{
	const struct view *v = x->v;
	const int *below = &v->below[f * x->s->room], support = x->s->support;
	const int64_t leaf = x->s->leaf;
	int lo = -1, hi = v->u[f] - 1;
	if (hi < 1)
		return;
	while (lo + 1 < hi && below[lo + 1] < support)
		lo++;
	while (hi - 1 > lo && v->count - below[hi - 1] < support)
		hi--;
	const struct ends all = { lo, hi, { leaf, 0 }, { 0, leaf } };
	x->tried[0] = v->u[f];
	x->tried[1] = -1;
	x->right_of_first = x->left_of_last = leaf;
	sum_most(x, f);
	bisect(x, f, &all);
	if (lo >= 0)
		lower_to(&x->best.relaxed, leaf + x->right_of_first);
	if (hi < v->u[f] - 1)
		lower_to(&x->best.relaxed, x->left_of_last + leaf);
}

/* Features in order of what one split on them costs: good trees early. */
static void search_features(struct search *x, const int64_t *cost)
{
	int order[ATTUNE_NUM_FEATURES];
	for (int f = 0; f < x->s->p; f++) {
		int i = f;
		for (; i > 0 && cost[order[i - 1]] > cost[f]; i--)
			order[i] = order[i - 1];
		order[i] = f;
	}
	for (int i = 0; i < x->s->p; i++)
		try_feature(x, order[i]);
}

/* The best trees of depth 1 and 2 are where a deeper search begins. */
static void search_view(struct search *x, int depth)
{
	int64_t by_feature[ATTUNE_NUM_FEATURES];
	solve_single(x->s, x->v, &x->best, by_feature);
	for (x->depth = 2; x->depth <= depth; x->depth = x->depth < depth ? depth : depth + 1) {
		x->best.relaxed = x->best.lower = least_of(x->v->total, x->s->d) + x->s->leaf;
		search_features(x, by_feature);
		lower_to(&x->best.lower, x->best.value);
		x->best.solved = x->best.value <= x->budget && x->best.lower == x->best.value;
	}
}

struct answer solve(struct solver *s, const int *rows, int n, int depth, int64_t budget)
{
	struct search x = { .s = s, .v = &s->view[depth], .budget = budget };
	uint64_t hash[2];
	set_hash(s, rows, n, hash);
	const struct answer *known = depth > 1 ? recall(s, hash, n, depth) : NULL;
	const int64_t bounds[2] = { known ? known->relaxed : 0, known ? known->lower : 0 };
	if (known && (known->solved || known->lower > budget))
		return *known;
	s->nodes++;
	if (s->deadline > 0 && !(s->nodes % 64) && seconds_now() > s->deadline)
		s->late = 1;
	view_fill(s, &s->view[depth], rows, n);
	const int64_t leaf = least_of(x.v->total, s->d) + s->leaf;
	if (!depth || leaf <= 2 * s->leaf)
		return (struct answer){ leaf, leaf, leaf, -1, 0, 1 };
	search_view(&x, depth);
	raise_to(&x.best.relaxed, bounds[0]);
	raise_to(&x.best.lower, bounds[1]);
	if (depth > 1)
		remember(s, hash, n, depth, &x.best);
	return x.best;
}

/* ---- the tree and its certificate ------------------------------------------------- */
static int64_t tree_as_cost(const struct solver *s, const struct tree *t, long long lambda)
{
	const long long cost = tree_cost(t, 0), leaves = tree_leaves(t);
	return (cost / FORBIDDEN_SUM * s->forbidden + cost % FORBIDDEN_SUM + lambda * leaves) *
		   s->scale +
	       leaves - s->base;
}

static void certify(struct certificate *c, const struct tree *t, const struct exact_options *o,
		    long long bound)
{
	c->cost = tree_cost(t, 0);
	c->objective = c->cost + o->lambda * tree_leaves(t);
	c->bound = bound < c->objective ? bound : c->objective;
	c->gap = c->objective == c->bound ? 0
		 : c->bound > 0           ? (double)(c->objective - c->bound) / (double)c->bound
					  : INFINITY;
}

int tree_exact(struct tree *t, const struct matrix *m, const struct exact_options *o,
	       struct certificate *c)
{
	const int look = o->depth > 3 ? 3 : 2; /* the nearer the first tree, the less is searched */
	const struct growth first = { 1 << o->depth, o->depth, o->min_support, look, o->lambda };
	const double begin = seconds_now();
	struct solver s;
	struct answer a;
	*c = (struct certificate){ 0 };
	if (!tree_grow(t, m, NULL, m->rows, &first))
		return 0;
	int done = solver_open(&s, m, NULL, m->rows, o->depth, o->min_support, o->lambda);
	if (done) {
		const int64_t budget = tree_as_cost(&s, t, o->lambda);
		s.deadline = o->seconds > 0 ? begin + o->seconds : 0;
		a = solve(&s, s.all, s.n, o->depth, budget);
		s.deadline = s.late = 0;
		if (a.value < budget || a.solved) {
			tree_free(t);
			done = tree_extract(t, &s, &a, o->depth);
		}
	}
	if (done) {
		certify(c, t, o, solver_cost(&s, a.lower));
		c->nodes = s.nodes;
		c->seconds = seconds_now() - begin;
	}
	solver_close(&s);
	return done;
}
