/* branch_and_bound.c - finds the least-cost tree of a given depth and proves that it is optimal.
 *
 * The trees are "policy trees" over per-instance costs (Zhou, Athey, Wager 2023; policytree). The
 * search combines two papers:
 *   - STreeD, van der Linden, de Weerdt, Demirovic 2023, arXiv 2305.19706, sections 4.2-4.4. Costs
 *     of subtrees add up, so the answer depends only on the rows and the depth. The similarity
 *     bound relates sets that differ by a few rows. depth2.c is the depth-2 step.
 *   - ConTree, Brita, van der Linden, Demirovic 2025, arXiv 2501.07903, section 4.2. Thresholds
 *     come in bisection order; the answers at the ends of an interval bound all thresholds between.
 *     The paper counts errors. The bound holds for any non-negative cost: a tree costs no more on a
 *     subset than on the whole set.
 *
 *       left(lo) in left(a), right(hi) in right(a)  for lo < a < hi
 *       => cost(a) >= relaxed(left(lo)) + relaxed(right(hi))
 *
 * On a subset a leaf can fall below the minimum support. Bounds therefore ignore minimum support
 * (`relaxed` in struct half); only incumbents observe it.
 *
 * Ties go to fewer leaves, then at each node to the first feature and the lowest threshold. A bound
 * prunes a tie only if it would lose, so the answer does not depend on the order of search. */
#include "solver.h"
#include <stdlib.h>
#include <string.h>

/* ---- search ------------------------------------------------------------------------- */
/* The highest cost at which a tree with root (f, rank) replaces the best: the best cost if it wins
 * the tie, else one less. */
static int64_t limit_at(const struct search *x, int f, int rank)
{
	const struct answer *b = &x->best;
	const int wins = b->f > f || (b->f == f && b->at > rank);
	const int64_t limit = wins ? b->value : b->value - 1;
	return limit < x->budget ? limit : x->budget;
}

/* Publishes the own best tree if it beats the team's; then takes over the team's. */
static void exchange(struct search *x)
{
	struct answer *own = &x->best, *all = &x->team->best;
	pthread_mutex_lock(&x->team->lock);
	const int first = own->f < all->f || (own->f == all->f && own->at < all->at);
	if (own->value < all->value || (own->value == all->value && first)) {
		*all = *own;
		x->team->winner = x->member;
	}
	own->value = all->value;
	own->f = all->f;
	own->at = all->at;
	pthread_mutex_unlock(&x->team->lock);
}

static int next_feature(struct search *x)
{
	pthread_mutex_lock(&x->team->lock);
	const int next = x->team->next++;
	pthread_mutex_unlock(&x->team->lock);
	return next;
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
	if (wins) {
		x->best.value = lower;
		x->best.f = f;
		x->best.at = rank;
	}
	lower_to(&x->best.relaxed, side[0].relaxed + side[1].relaxed);
	lower_to(&x->best.lower, lower);
	if (x->team)
		exchange(x);
}

static void raise_to(int64_t *v, int64_t to)
{
	*v = to > *v ? to : *v;
}

static struct answer search(struct solver *, const int *rows, int n, int depth, int64_t budget,
			    int64_t *table);

/* A table has relaxed bounds of both sides of every split of a set at a depth, [2][p][room] by
 * rank. The bounds also hold for supersets. The child at a neighbouring threshold is a superset, so the
 * bounds of one threshold rule out most splits of the next. */
static int64_t *table_copy(const struct solver *s, const int64_t *from)
{
	const size_t size = 2 * (size_t)s->p * (size_t)s->room * sizeof *from;
	int64_t *table = malloc(size);
	if (table && from)
		memcpy(table, from, size);
	else if (table)
		memset(table, 0, size);
	return table;
}

static int64_t *table_at(const struct search *x, int side, int f)
{
	return &x->table[(side * x->s->p + f) * x->s->room];
}

/* Carries bounds to other ranks: left sides grow with the rank, right sides shrink. */
static void table_spread(const struct search *x)
{
	for (int f = 0; f < x->s->p; f++) {
		int64_t *left = table_at(x, 0, f), *right = table_at(x, 1, f);
		for (int r = 1; r < x->s->levels[f]; r++)
			raise_to(&left[r], left[r - 1]);
		for (int r = x->s->levels[f] - 2; r >= 0; r--)
			raise_to(&right[r], right[r + 1]);
	}
}

/* Searches the larger side, then the other one unless the sum already exceeds the limit. On entry
 * side[] has bounds and table[] the bounds of subsets. */
static void try_children(struct search *x, int f, int rank, struct half side[2],
			 int64_t *const table[2])
{
	struct solver *s = x->s;
	int *rows = s->sides[x->depth];
	const int64_t limit = limit_at(x, f, rank);
	const int below = view_divide(s, x->v, f, rank, rows);
	const int n[2] = { below, x->v->n - below };
	const int first = n[1] > n[0];
	for (int i = 0; i < 2; i++) {
		const int k = i ? !first : first;
		if (side[0].lower + side[1].lower > limit)
			return;
		const struct answer a = search(s, rows + (k ? below : 0), n[k], x->depth - 1,
					       limit - side[!k].lower, table[k]);
		raise_to(&side[k].relaxed, a.relaxed);
		raise_to(&side[k].lower, a.lower);
		side[k].solved = a.solved;
	}
}

/* Prefix sums, by level of a feature, of the greatest cost of each row. */
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

/* Bounds of both sides at the ends of an interval. The similarity bound is the bound of the larger
 * set minus the most that the rows in between can cost. */
struct ends {
	int lo, hi;
	int64_t left[2], right[2];   /* relaxed bounds at lo and at hi, 0: none */
	int64_t *of_left, *of_right; /* tables of the left side at lo, the right one at hi */
};

/* Relaxed bounds of both sides at threshold a. */
static void bound_sides(const struct search *x, int f, const struct ends *e, int a,
			struct half side[2])
{
	const int rank = x->v->rank[f * x->s->room + a];
	const int64_t *most = x->v->most;
	side[0] = (struct half){ e->left[0], 0, 0 };
	side[1] = (struct half){ e->right[1], 0, 0 };
	if (e->left[1])
		raise_to(&side[0].relaxed, e->left[1] - most[e->hi] + most[a]);
	if (e->right[0])
		raise_to(&side[1].relaxed, e->right[0] - most[a] + most[e->lo]);
	if (x->table) {
		raise_to(&side[0].relaxed, table_at(x, 0, f)[rank]);
		raise_to(&side[1].relaxed, table_at(x, 1, f)[rank]);
	}
	side[0].lower = side[0].relaxed;
	side[1].lower = side[1].relaxed;
}

/* The middle one of the thresholds in the interval that can still win; -1: none can. Notes the
 * bounds of the pruned ones. */
static int middle_of(struct search *x, int f, const struct ends *e)
{
	const uint16_t *rank = &x->v->rank[f * x->s->room];
	struct half side[2];
	int first = -1, last = -1;
	for (int a = e->lo + 1; a < e->hi; a++) {
		bound_sides(x, f, e, a, side);
		const int64_t bound = side[0].relaxed + side[1].relaxed;
		if (bound > limit_at(x, f, rank[a])) {
			note_bound(x, bound);
			continue;
		}
		first = first < 0 ? a : first;
		last = a;
	}
	return first < 0 ? -1 : first + (last - first) / 2;
}

static void try_split(struct search *x, int f, int a, const struct ends *e, struct half side[2],
		      int64_t *table[2])
{
	const int rank = x->v->rank[f * x->s->room + a];
	bound_sides(x, f, e, a, side);
	if (x->depth == 2) {
		solve_pair(x->s, x->v, f, a, side);
	} else {
		table[0] = table_copy(x->s, e->of_left);
		table[1] = table_copy(x->s, e->of_right);
		try_children(x, f, rank, side, table);
	}
	note_trial(x, f, rank, side);
	if (x->table) {
		raise_to(&table_at(x, 0, f)[rank], side[0].relaxed);
		raise_to(&table_at(x, 1, f)[rank], side[1].relaxed);
	}
	if (a < x->tried[0]) {
		x->tried[0] = a;
		x->right_of_first = side[1].relaxed;
	}
	if (a > x->tried[1]) {
		x->tried[1] = a;
		x->left_of_last = side[0].relaxed;
	}
}

/* Tries the thresholds lo < a < hi of a feature. */
static void bisect(struct search *x, int f, const struct ends *e)
{
	const int mid = middle_of(x, f, e);
	int64_t *table[2] = { NULL, NULL };
	struct half side[2];
	if (mid < 0)
		return;
	try_split(x, f, mid, e, side, table);
	const struct ends lower = { e->lo,
				    mid,
				    { e->left[0], side[0].relaxed },
				    { e->right[0], side[1].relaxed },
				    e->of_left,
				    table[1] ? table[1] : e->of_right };
	const struct ends upper = { mid,
				    e->hi,
				    { side[0].relaxed, e->left[1] },
				    { side[1].relaxed, e->right[1] },
				    table[0] ? table[0] : e->of_left,
				    e->of_right };
	bisect(x, f, &lower);
	bisect(x, f, &upper);
	free(table[0]);
	free(table[1]);
}

/* The thresholds with enough support on both sides form one interval. A threshold outside it only
 * enters the relaxed bound: a leaf plus the far side of the nearest tried threshold. */
static void try_feature(struct search *x, int f)
{
	const struct view *v = x->v;
	const int *below = &v->below[f * x->s->room], support = x->s->support;
	int lo = -1, hi = v->u[f] - 1;
	if (hi < 1)
		return;
	while (lo + 1 < hi && below[lo + 1] < support)
		lo++;
	while (hi - 1 > lo && v->count - below[hi - 1] < support)
		hi--;
	const struct ends all = { lo, hi, { LEAF, 0 }, { 0, LEAF }, NULL, NULL };
	x->tried[0] = v->u[f];
	x->tried[1] = -1;
	x->right_of_first = x->left_of_last = LEAF;
	sum_most(x, f);
	bisect(x, f, &all);
	if (lo >= 0)
		lower_to(&x->best.relaxed, LEAF + x->right_of_first);
	if (hi < v->u[f] - 1)
		lower_to(&x->best.relaxed, x->left_of_last + LEAF);
}

/* Searches features in the order of their best single split, to find good trees early. */
static void search_features(struct search *x, const int64_t *cost)
{
	int order[ATTUNE_NUM_FEATURES];
	for (int f = 0; f < x->s->p; f++) {
		int i = f;
		for (; i > 0 && cost[order[i - 1]] > cost[f]; i--)
			order[i] = order[i - 1];
		order[i] = f;
	}
	if (!x->team)
		for (int i = 0; i < x->s->p; i++)
			try_feature(x, order[i]);
	else
		for (int i = next_feature(x); i < x->s->p; i = next_feature(x))
			try_feature(x, order[i]);
}

/* Searches depth 1, then 2, then `depth`: each result is the next one's incumbent. */
void search_view(struct search *x, int depth, int64_t *table)
{
	int64_t by_feature[ATTUNE_NUM_FEATURES];
	struct team *team = x->team;
	solve_single(x->s, x->v, &x->best, by_feature);
	for (x->depth = 2; x->depth <= depth; x->depth = x->depth < depth ? depth : depth + 1) {
		x->best.relaxed = x->best.lower = least_of(x->v->total, x->s->d) + LEAF;
		x->table = x->depth == depth ? table : NULL;
		x->team = x->depth == depth ? team : NULL;
		if (x->team)
			exchange(x);
		search_features(x, by_feature);
		lower_to(&x->best.lower, x->best.value);
		x->best.solved = x->best.value <= x->budget && x->best.lower == x->best.value;
	}
	if (table)
		table_spread(x);
}

/* table: bounds of subsets on entry, of these rows on return; may be NULL. */
static struct answer search(struct solver *s, const int *rows, int n, int depth, int64_t budget,
			    int64_t *table)
{
	struct search x = { .s = s, .v = &s->view[depth], .budget = budget, .table = table };
	view_fill(s, &s->view[depth], rows, n);
	const int64_t leaf = least_of(x.v->total, s->d) + LEAF;
	if (!depth || leaf <= 2 * LEAF)
		return (struct answer){ leaf, leaf, leaf, -1, 0, 1 };
	search_view(&x, depth, table);
	return x.best;
}

struct answer solve(struct solver *s, const int *rows, int n, int depth, int64_t budget)
{
	return search(s, rows, n, depth, budget, NULL);
}
