/* depth2.c - the steps of the search: the best single split, and, given a split, finds the best second split on each side.
 * Two splits make four quadrants, and each picks its column independently. So a pair of splits
 * costs four minima over the columns, not columns squared. MurTree (Demirovic et al. 2022) and
 * STreeD (van der Linden et al. 2023, section 4.3) do the same.
 *
 * Over the levels b of feature g, with the split (f, a) fixed:
 *
 *            g <= b    g > b
 *   small      X       S - X      S: sum of the smaller side
 *   large    P[b] - X  L-P[b]+X   P: prefix sums of the node; L: sum of the larger side
 *
 * X is the sum over the smaller side's rows up to level b. Adding rows in order of level keeps X in
 * registers; the other three sums follow by subtraction. A level without rows of a side leaves that
 * side's sums as they were, so it is skipped. */
#include "solver.h"
#include "harness/base/base.h"
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

struct sweep {
	const int64_t *cost, *prefix; /* [rows][d]; [u][d] */
	const int64_t *all[2];        /* [d] of the small and the large side */
	const int *list, *end;        /* rows of the small side by level; [u] where each ends */
	const int *changed[2];        /* [u] of each side: whether the level holds a row of it */
	int64_t *least[2];            /* [u] of each side: cost of a cut after the level */
	int u, d;
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

typedef int64_t lanes __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8)));

INLINE void lower_lanes(lanes *v, const lanes *x)
{
	for (int i = 0; i < LANES; i++)
		(*v)[i] = (*x)[i] < (*v)[i] ? (*x)[i] : (*v)[i];
}

INLINE void lower_least(int64_t *least, const lanes *v)
{
	for (int i = 0; i < LANES; i++)
		*least = (*v)[i] < *least ? (*v)[i] : *least;
}

/* Lowers least[0] to min(x), least[1] to min(all - x). */
INLINE void cut_after(int64_t least[2], const lanes *x, const lanes *all, int width)
{
	lanes below = x[0], above = all[0] - x[0];
	for (int k = 1; k < width; k++) {
		const lanes rest = all[k] - x[k];
		lower_lanes(&below, &x[k]);
		lower_lanes(&above, &rest);
	}
	lower_least(&least[0], &below);
	lower_least(&least[1], &above);
}

/* width: in lanes; a compile-time constant in each call. */
INLINE void sweep_columns(const struct sweep *s, int from, int width)
{
	const size_t d = (size_t)s->d;
	const lanes *small = (const lanes *)&s->all[0][from];
	const lanes *large = (const lanes *)&s->all[1][from];
	lanes x[MAX_WIDTH], y[MAX_WIDTH];
	for (int k = 0; k < width; k++)
		x[k] = (lanes){ 0 };
	for (int b = 0, i = 0; b + 1 < s->u; b++) {
		for (; i < s->end[b]; i++) {
			const lanes *cost =
			    (const lanes *)&s->cost[(size_t)s->list[i] * d + (size_t)from];
			for (int k = 0; k < width; k++)
				x[k] += cost[k];
		}
		if (s->changed[0][b])
			cut_after(&s->least[0][2 * b], x, small, width);
		if (s->changed[1][b]) {
			const lanes *prefix =
			    (const lanes *)&s->prefix[(size_t)b * d + (size_t)from];
			for (int k = 0; k < width; k++)
				y[k] = prefix[k] - x[k];
			cut_after(&s->least[1][2 * b], y, large, width);
		}
	}
}

CLONES static void sweep_levels(const struct sweep *s)
{
	int from = 0;
	for (; from + MAX_WIDTH * LANES <= s->d; from += MAX_WIDTH * LANES)
		sweep_columns(s, from, MAX_WIDTH);
	switch ((s->d - from) / LANES) {
	case 1: sweep_columns(s, from, 1); break;
	case 2: sweep_columns(s, from, 2); break;
	case 3: sweep_columns(s, from, 3); break;
	case 4: sweep_columns(s, from, 4); break;
	case 5: sweep_columns(s, from, 5); break;
	case 6: sweep_columns(s, from, 6); break;
	case 7: sweep_columns(s, from, 7); break;
	default: break;
	}
}

/* Finds the smaller side of a split. Sets s->small to the count of its rows, 0 for other rows. */
static int mark_smaller(struct solver *s, const struct view *v, int f, int a)
{
	const uint16_t *local = &v->local[(size_t)f * (size_t)s->n];
	int below = 0, side;
	for (int i = 0; i < v->n; i++)
		below += local[i] <= a;
	side = 2 * below > v->n;
	for (int i = 0; i < v->n; i++)
		s->small[v->row[i]] = (local[i] > a) == side ? s->count[v->row[i]] : 0;
	return side;
}

/* Lists the smaller side's rows by level of feature g. For each side, marks the levels that have
 * rows of it (s->changed) and counts the matrix rows up to each level (s->passed). */
static void list_levels(struct solver *s, const struct view *v, int g)
{
	const int *order = &v->order[(size_t)g * (size_t)s->n], *below = &v->below[g * s->room];
	const int *end = &v->end[g * s->room], *weight = s->small, room = s->room;
	int *restrict list = s->list, n = 0, small = 0, large = 0;
	for (int b = 0, i = 0; b < v->u[g]; b++) {
		const int small_before = small, large_before = large;
		for (; i < end[b]; i++) {
			const int row = order[i], rows = weight[row];
			list[n] =
			    row; /* without a branch: the next row overwrites it if rows is 0 */
			n += rows > 0;
			small += rows;
		}
		large = below[b] - small;
		s->end[b] = n;
		s->changed[b] = small > small_before;
		s->changed[room + b] = large > large_before;
		s->passed[b] = small;
		s->passed[room + b] = large;
		for (int k = 0; k < 2; k++)
			s->least[2 * (k * room + b)] = s->least[2 * (k * room + b) + 1] =
			    INT64_MAX / 2;
	}
}

/* Lowers least[0] to the best cut of a side, least[1] to the best with minimum support. */
CLONES static void take_least(const struct solver *s, int u, int side, int count, int64_t least[2])
{
	const int *passed = &s->passed[side * s->room];
	const int64_t *part = &s->least[2 * side * s->room];
	int64_t relaxed = least[0], kept = least[1];
	for (int b = 0; b + 1 < u; b++) {
		const int64_t cost = part[2 * b] + part[2 * b + 1];
		const int64_t fits = (passed[b] >= s->support) & (count - passed[b] >= s->support);
		const int64_t with = fits ? cost : INT64_MAX;
		relaxed = cost < relaxed ? cost : relaxed;
		kept = with < kept ? with : kept;
	}
	least[0] = relaxed;
	least[1] = kept;
}

static void set_half(struct half *side, const struct solver *s, const int64_t *all,
		     const int64_t least[2])
{
	const int64_t leaf = least_of(all, s->d) + LEAF, twice = 2 * LEAF;
	side->relaxed = least[0] < leaf - twice ? least[0] + twice : leaf;
	side->cost = least[1] < leaf - twice ? least[1] + twice : leaf;
}

void solve_pair(struct solver *s, const struct view *v, int f, int a, struct half side[2])
{
	const size_t d = (size_t)s->d;
	const int64_t *below = &v->prefix[(v->start[f] + (size_t)a) * d];
	int64_t *all[2] = { s->all_of, s->all_of + d }; /* by side */
	int64_t least[2][2] = { { INT64_MAX, INT64_MAX }, { INT64_MAX, INT64_MAX } };
	const int rows = v->below[f * s->room + a], count[2] = { rows, v->count - rows };
	const int small = mark_smaller(s, v, f, a);
	memcpy(all[0], below, sizeof *below * d);
	subtract(all[1], v->total, below, s->d);
	for (int g = 0; g < s->p; g++) {
		const struct sweep w = { .cost = s->cost,
					 .prefix = &v->prefix[v->start[g] * d],
					 .all = { all[small], all[!small] },
					 .list = s->list,
					 .end = s->end,
					 .changed = { s->changed, s->changed + s->room },
					 .least = { s->least, s->least + 2 * s->room },
					 .u = v->u[g],
					 .d = s->d };
		if (v->u[g] < 2)
			continue;
		list_levels(s, v, g);
		sweep_levels(&w);
		take_least(s, v->u[g], 0, count[small], least[0]);
		take_least(s, v->u[g], 1, count[!small], least[1]);
	}
	set_half(&side[small], s, all[small], least[0]);
	set_half(&side[!small], s, all[!small], least[1]);
}

/* min(x) + min(all - x) */
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
	const int64_t leaf = least_of(v->total, s->d) + LEAF;
	*answer = (struct answer){ leaf, -1, 0 };
	for (int f = 0; f < s->p; f++) {
		const int *below = &v->below[f * s->room];
		int64_t least = leaf;
		for (int a = 0; a + 1 < v->u[f]; a++) {
			const int64_t *x = &v->prefix[(v->start[f] + (size_t)a) * (size_t)s->d];
			const int64_t cost = cut(x, v->total, s->d) + 2 * LEAF;
			least = cost < least ? cost : least;
			if (cost < answer->value && below[a] >= s->support &&
			    v->count - below[a] >= s->support) {
				*answer = (struct answer){ cost, f, v->rank[f * s->room + a] };
			}
		}
		by_feature[f] = least;
	}
}
