/* solver.c - prepares a sample of a matrix for the search. It replaces feature values by ranks and
 * merges rows with equal features. It drops dominated columns, and features that rank the rows as
 * an earlier one does. None of this changes the cost of the best tree. */
#include "solver.h"
#include "tree.h"
#include "tuner/matrix/matrix.h"
#include <stdlib.h>
#include <string.h>

struct sorting {
	const struct matrix *m;
	const int *rows;
	int feature;
};

static long long feature_of(const struct matrix *m, int row, int feature)
{
	return ((const long long *)&m->f[row])[feature];
}

static int by_value(const void *pa, const void *pb, void *arg)
{
	const struct sorting *by = arg;
	const int a = *(const int *)pa, b = *(const int *)pb;
	const long long x = feature_of(by->m, by->rows[a], by->feature);
	const long long y = feature_of(by->m, by->rows[b], by->feature);
	return x != y ? (x > y) - (x < y) : a - b;
}

/* Sets the rank of each of the n rows on a feature, and value[rank]. Returns the number of
 * ranks. */
static int rank_rows(const struct matrix *m, const int *rows, int n, int feature, int *order,
		     uint16_t *rank, long long *value)
{
	struct sorting by = { m, rows, feature };
	int levels = 0;
	for (int i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, (size_t)n, sizeof *order, by_value, &by);
	for (int i = 0; i < n; i++) {
		const long long v = feature_of(m, rows[order[i]], feature);
		if (!levels || v != value[levels - 1])
			value[levels++] = v;
		rank[order[i]] = (uint16_t)(levels - 1);
	}
	return levels;
}

static int rank_features(struct solver *s, const int *rows, int n, int *order)
{
	s->p = s->room = 0;
	for (int f = 0; f < ATTUNE_NUM_FEATURES; f++) {
		uint16_t *rank = &s->rank[(size_t)s->p * (size_t)n];
		const int levels =
		    rank_rows(s->m, rows, n, f, order, rank, &s->value[(size_t)s->p * (size_t)n]);
		int new = levels > 1;
		for (int g = 0; g < s->p && new; g++)
			new = memcmp(&s->rank[(size_t)g * (size_t)n], rank,
				     sizeof *rank * (size_t)n) != 0;
		if (!new)
			continue;
		s->feature[s->p] = f;
		s->levels[s->p++] = levels;
		s->room = levels > s->room ? levels : s->room;
	}
	s->room = s->room ? s->room : 1;
	return s->p;
}

struct ranks {
	const uint16_t *rank;
	int n, p;
};

static int by_ranks(const void *pa, const void *pb, void *arg)
{
	const struct ranks *r = arg;
	const int a = *(const int *)pa, b = *(const int *)pb;
	for (int f = 0; f < r->p; f++) {
		const uint16_t *rank = &r->rank[(size_t)f * (size_t)r->n];
		if (rank[a] != rank[b])
			return rank[a] - rank[b];
	}
	return 0;
}

/* to[i]: the merged row of each of the n rows; returns the number of merged rows. */
static int merge_rows(struct solver *s, int n, int *order, int *to)
{
	struct ranks by = { s->rank, n, s->p };
	uint16_t *rank = s->rank, *kept = malloc(sizeof *kept * (size_t)n);
	int merged = 0;
	if (!kept)
		return 0;
	for (int i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, (size_t)n, sizeof *order, by_ranks, &by);
	for (int i = 0; i < n; i++) {
		merged += i && by_ranks(&order[i - 1], &order[i], &by);
		to[order[i]] = merged;
	}
	merged += n > 0;
	for (int f = 0; f < s->p; f++) { /* merged <= n, so every overwritten rank has been read */
		memcpy(kept, &rank[(size_t)f * (size_t)n], sizeof *kept * (size_t)n);
		for (int i = 0; i < n; i++)
			rank[(size_t)f * (size_t)merged + (size_t)to[i]] = kept[i];
	}
	free(kept);
	return merged;
}

/* The cost of a forbidden cell: more than all other cells together. */
static int64_t forbidden_cost(const struct matrix *m, const int *rows, int n)
{
	int64_t sum = 1;
	for (int i = 0; i < n; i++) {
		int64_t most = 0;
		for (int c = 0; c < m->cols; c++) {
			const long long v = matrix_at(m, rows[i], c);
			most = v != FORBIDDEN_SUM && v > most ? v : most;
		}
		sum += most;
	}
	return sum;
}

/* Whether another column costs no more in any row. Of equal columns the first stays. */
static int is_dominated(const struct matrix *m, const int *rows, int n, int col)
{
	for (int other = 0; other < m->cols; other++) {
		int never = other != col, equal = 1;
		for (int i = 0; i < n && never; i++) {
			const long long a = matrix_at(m, rows[i], other);
			const long long b = matrix_at(m, rows[i], col);
			never = a <= b;
			equal &= a == b;
		}
		if (never && (!equal || other < col))
			return 1;
	}
	return 0;
}

static void finish_row(struct solver *s, int row, int cols)
{
	int64_t *cost = &s->cost[(size_t)row * (size_t)s->d];
	const int64_t least = least_of(cost, cols);
	for (int c = 0; c < cols; c++) {
		cost[c] -= least;
		s->most[row] = cost[c] > s->most[row] ? cost[c] : s->most[row];
	}
	for (int c = cols; c < s->d; c++)
		cost[c] = cost[0]; /* padding: never below the row's minimum */
	s->base += least;
}

static int fill_costs(struct solver *s, const int *rows, int n, const int *to)
{
	const struct matrix *m = s->m;
	int *column = malloc(sizeof *column * (size_t)(m->cols + 1)), cols = 0;
	if (!column)
		return 0;
	for (int c = 0; c < m->cols; c++)
		if (!is_dominated(m, rows, n, c))
			column[cols++] = c;
	s->d = (cols + LANES - 1) / LANES * LANES;
	s->cost = calloc((size_t)s->n * (size_t)s->d, sizeof *s->cost);
	for (int i = 0; s->cost && i < n; i++) {
		int64_t *cost = &s->cost[(size_t)to[i] * (size_t)s->d];
		s->count[to[i]]++;
		for (int c = 0; c < cols; c++) {
			const long long v = matrix_at(m, rows[i], column[c]);
			cost[c] += (v == FORBIDDEN_SUM ? s->forbidden : v) * s->scale;
		}
	}
	for (int r = 0; s->cost && r < s->n; r++) {
		s->all[r] = r;
		finish_row(s, r, cols);
	}
	free(column);
	return s->cost != NULL;
}

static int open_view(struct solver *s)
{
	const size_t n = (size_t)s->n, p = (size_t)s->p + 1, room = (size_t)s->room;
	const size_t d = (size_t)s->d;
	struct view *v = &s->view;
	size_t levels = 0;
	for (int f = 0; f < s->p; f++)
		levels += (size_t)s->levels[f];
	v->u = calloc(p, sizeof *v->u);
	v->local = malloc(p * n * sizeof *v->local);
	v->rank = malloc(p * room * sizeof *v->rank);
	v->below = malloc(p * room * sizeof *v->below);
	v->start = malloc(p * sizeof *v->start);
	v->prefix = malloc((levels + 1) * d * sizeof *v->prefix);
	v->total = malloc(d * sizeof *v->total);
	v->most = malloc(room * sizeof *v->most);
	v->order = malloc(p * n * sizeof *v->order);
	v->end = malloc(p * room * sizeof *v->end);
	s->all_of = malloc(2 * d * sizeof *s->all_of);
	s->least = malloc(4 * room * sizeof *s->least);
	s->list = malloc((n + 1) * sizeof *s->list);
	s->end = malloc(room * sizeof *s->end);
	s->passed = malloc(2 * room * sizeof *s->passed);
	s->changed = malloc(2 * room * sizeof *s->changed);
	s->small = malloc(n * sizeof *s->small);
	return v->u && v->local && v->rank && v->below && v->start && v->prefix && v->total &&
	       v->most && v->order && v->end && s->all_of && s->least && s->list && s->end &&
	       s->passed && s->changed && s->small;
}

static int read_sample(struct solver *s, const int *rows, int n)
{
	int *order = malloc(sizeof *order * (size_t)n), *to = malloc(sizeof *to * (size_t)n);
	int done = order && to;
	if (done) {
		rank_features(s, rows, n, order);
		s->n = merge_rows(s, n, order, to);
		done = s->n > 0 && fill_costs(s, rows, n, to);
	}
	free(order);
	free(to);
	return done;
}

int solver_open(struct solver *s, const struct matrix *m, const int *rows, int n, int support)
{
	const size_t k = (size_t)n + 1;
	*s = (struct solver){ .m = m, .support = support, .scale = 2ll << LOOK, .stride = n };
	s->feature = calloc(ATTUNE_NUM_FEATURES, sizeof *s->feature);
	s->levels = calloc(ATTUNE_NUM_FEATURES, sizeof *s->levels);
	s->value = malloc(k * ATTUNE_NUM_FEATURES * sizeof *s->value);
	s->rank = malloc(k * ATTUNE_NUM_FEATURES * sizeof *s->rank);
	s->most = calloc(k, sizeof *s->most);
	s->count = calloc(k, sizeof *s->count);
	s->all = calloc(k, sizeof *s->all);
	if (!s->feature || !s->levels || !s->value || !s->rank || !s->most || !s->count ||
	    !s->all || n < 1 || n > UINT16_MAX || m->cols < 1)
		return 0;
	s->forbidden = forbidden_cost(m, rows, n);
	return s->forbidden <= (INT64_MAX / 4 - s->scale) / s->scale / n &&
	       read_sample(s, rows, n) && open_view(s);
}

void solver_close(struct solver *s)
{
	struct view *v = &s->view;
	void *const all[] = { v->u,       v->local,  v->rank,   v->order,   v->end,
			      v->below,   v->start,  v->prefix, v->total,   v->most,
			      s->feature, s->levels, s->value,  s->rank,    s->cost,
			      s->most,    s->count,  s->all,    s->all_of,  s->least,
			      s->list,    s->end,    s->passed, s->changed, s->small };
	for (size_t i = 0; i < COUNT(all); i++)
		free(all[i]);
	*s = (struct solver){ 0 };
}

/* Numbers the ranks that occur in the view as levels, and sorts the rows by level. */
static void view_levels(const struct solver *s, struct view *v, int f)
{
	const uint16_t *rank = &s->rank[(size_t)f * (size_t)s->n];
	uint16_t *local = &v->local[(size_t)f * (size_t)s->n];
	uint16_t *kept = &v->rank[f * s->room];
	int *below = &v->below[f * s->room], *end = &v->end[f * s->room], *at = s->passed;
	int *order = &v->order[(size_t)f * (size_t)s->n], u = 0, sum = 0;
	memset(at, 0, sizeof *at * (size_t)s->levels[f]);
	for (int i = 0; i < v->n; i++)
		at[rank[v->row[i]]]++;
	for (int l = 0; l < s->levels[f]; l++) {
		if (!at[l])
			continue;
		end[u] = sum;
		sum += at[l];
		kept[u] = (uint16_t)l;
		at[l] = u++;
	}
	memset(below, 0, sizeof *below * (size_t)u);
	for (int i = 0; i < v->n; i++) {
		const int l = at[rank[v->row[i]]];
		local[i] = (uint16_t)l;
		order[end[l]++] = v->row[i];
		below[l] += s->count[v->row[i]];
	}
	for (int l = 1; l < u; l++)
		below[l] += below[l - 1];
	v->u[f] = u;
}

void view_fill(struct solver *s, const int *rows, int n)
{
	const size_t d = (size_t)s->d;
	struct view *v = &s->view;
	size_t start = 0;
	v->n = n;
	v->row = rows;
	v->count = 0;
	memset(v->total, 0, sizeof *v->total * d);
	for (int i = 0; i < n; i++) {
		const int64_t *cost = &s->cost[(size_t)rows[i] * d];
		v->count += s->count[rows[i]];
		for (size_t c = 0; c < d; c++)
			v->total[c] += cost[c];
	}
	for (int f = 0; f < s->p; f++) {
		view_levels(s, v, f);
		int64_t *prefix = &v->prefix[start * d];
		const uint16_t *local = &v->local[(size_t)f * (size_t)s->n];
		memset(prefix, 0, sizeof *prefix * (size_t)v->u[f] * d);
		for (int i = 0; i < n; i++) {
			int64_t *to = &prefix[local[i] * d];
			const int64_t *cost = &s->cost[(size_t)rows[i] * d];
			for (size_t c = 0; c < d; c++)
				to[c] += cost[c];
		}
		for (size_t i = d; i < (size_t)v->u[f] * d; i++)
			prefix[i] += prefix[i - d];
		v->start[f] = start;
		start += (size_t)v->u[f];
	}
}

int view_divide(const struct solver *s, const struct view *v, int f, int at, int *to)
{
	const uint16_t *rank = &s->rank[(size_t)f * (size_t)s->n];
	int below = 0, end = v->n;
	for (int i = 0; i < v->n; i++)
		if (rank[v->row[i]] <= at)
			to[below++] = v->row[i];
	for (int i = v->n - 1; i >= 0; i--)
		if (rank[v->row[i]] > at)
			to[--end] = v->row[i];
	return below;
}

long long view_threshold(const struct solver *s, const struct view *v, int f, int at)
{
	const uint16_t *rank = &v->rank[f * s->room];
	const long long *value = &s->value[(size_t)f * (size_t)s->stride];
	int l = 0;
	while (rank[l] < at)
		l++;
	return round_between(value[rank[l]], value[rank[l + 1]] - 1);
}
