/* SPDX-License-Identifier: Apache-2.0 */
/* row_search.c - finds the row of each choice: up to two rivals and a stand-in, of all columns.
 *
 * A row is judged by the training rows whose leaf names its first choice:
 *
 *   the first is legal     the least cost of its measured members: settling finds it
 *   the first is illegal   the cost of the first legal member: this runs
 *   none is legal          the cost of the defaults
 *
 * All rivals and stand-ins are tried together, since a rival also stands in: a rival that the rule of
 * the first forbids, too, leaves its place to the stand-in. Made-up rows count where the first is
 * illegal. A rival must have been measured in half of the scenarios where it is legal. A member that
 * stands in nowhere may be in the row as a third rival. */
#include "rows.h"
#include "tuner/tree/tree.h"
#include <limits.h>
#include <stdlib.h>

static int32_t cost_at(const struct matrix *m, int row, int col)
{
	return m->cost[(size_t)row * (size_t)m->cols + (size_t)col];
}

int32_t row_runs(const struct matrix *m, int row, const struct attune_list *l)
{
	for (int i = 0; i < l->n; i++)
		if (cost_at(m, row, l->at[i]) != COST_ILLEGAL)
			return cost_at(m, row, l->at[i]);
	return m->fallback[row];
}

static int is_timed(const struct row_basis *b, int row, int col)
{
	return row < b->scenarios && b->timed[(size_t)row * (size_t)b->m->cols + (size_t)col];
}

/* What a member may lower the cost to; COST_FORBIDDEN: nothing. */
static int32_t rival_cost(const struct row_basis *b, int row, int col)
{
	return is_timed(b, row, col) ? cost_at(b->m, row, col) : COST_FORBIDDEN;
}

int32_t row_settled(const struct row_basis *b, int row, const struct attune_list *l)
{
	int32_t least = row_runs(b->m, row, l);
	for (int i = 1; i < l->n; i++) {
		const int32_t cost = rival_cost(b, row, l->at[i]);
		least = cost < least ? cost : least;
	}
	return least;
}

/* What a third rival must gain: 0.2 %. */
enum { THIRD_RIVAL = 2000 };

/* ---- the search for one column ----------------------------------------------------------- */
struct search {
	const struct row_basis *b;
	int first;
	int *legal, num_legal;     /* scenarios where the first is legal */
	int *illegal, num_illegal; /* rows where it is not */
	char *is_rival;            /* [cols] */
	long long *alone;          /* [cols] the sum of legal rows with that rival alone */
	long long weight;          /* of the legal rows */
};

static long long weigh(const struct matrix *m, int row, int32_t cost)
{
	return is_forbidden(cost) ? FORBIDDEN_SUM : (long long)m->weight[row] * cost;
}

/* The members behind the first; -1: none. */
struct members {
	int rival[ROW_RIVALS], stand_in;
};

static struct attune_list list_of(int first, const struct members *x)
{
	struct attune_list l = { 1, { (short)first } };
	for (int i = 0; i < ROW_RIVALS; i++)
		if (x->rival[i] >= 0)
			l.at[l.n++] = (short)x->rival[i];
	if (x->stand_in >= 0)
		l.at[l.n++] = (short)x->stand_in;
	return l;
}

static long long settled_sum(const struct search *s, const struct members *x)
{
	const struct attune_list l = list_of(s->first, x);
	long long sum = 0;
	for (int i = 0; i < s->num_legal; i++)
		sum += weigh(s->b->m, s->legal[i], row_settled(s->b, s->legal[i], &l));
	return sum;
}

static long long illegal_sum(const struct search *s, const struct members *x, long long most)
{
	const struct attune_list l = list_of(s->first, x);
	long long sum = 0;
	for (int i = 0; i < s->num_illegal && sum < most; i++)
		sum += weigh(s->b->m, s->illegal[i], row_runs(s->b->m, s->illegal[i], &l));
	return sum;
}

/* Sums of one list: of both kinds of rows. */
static long long sum_of(const struct search *s, const struct members *x, long long most)
{
	const long long legal = settled_sum(s, x);
	return legal < most ? legal + illegal_sum(s, x, most - legal) : legal;
}

/* Tries all members behind two rivals in this order. One that stands in nowhere is a third rival. */
static void try_order(const struct search *s, int a, int b, struct members *best, long long *least)
{
	struct members x = { { a, b }, -1 };
	const long long without = illegal_sum(s, &x, LLONG_MAX);
	for (x.stand_in = -1; x.stand_in < s->b->m->cols; x.stand_in++) {
		if (x.stand_in >= 0 &&
		    (x.stand_in == s->first || x.stand_in == a || x.stand_in == b ||
		     !(s->num_illegal || s->is_rival[x.stand_in])))
			continue;
		long long sum = sum_of(s, &x, *least);
		if (sum < *least && x.stand_in >= 0 && illegal_sum(s, &x, LLONG_MAX) == without)
			sum += THIRD_RIVAL * s->weight;
		if (sum < *least)
			*least = sum, *best = x;
	}
}

/* Tries two rivals in either order: that which gains more alone is first, if the order does not matter.
 * -1: no rival. */
static void try_rivals(const struct search *s, int a, int b, struct members *best, long long *least)
{
	const int turned = a >= 0 && s->alone[b] < s->alone[a];
	try_order(s, turned ? b : a, turned ? a : b, best, least);
	if (a >= 0 && s->num_illegal)
		try_order(s, turned ? a : b, turned ? b : a, best, least);
}

/* Fewer members come first, so another one is in the row only if it gains. */
static struct attune_list best_row(const struct search *s)
{
	struct members best = { { -1, -1 }, -1 };
	long long least = LLONG_MAX;
	try_rivals(s, -1, -1, &best, &least);
	for (int b = 0; b < s->b->m->cols; b++)
		if (s->is_rival[b])
			try_rivals(s, -1, b, &best, &least);
	for (int b = 0; b < s->b->m->cols; b++)
		for (int a = 0; s->is_rival[b] && a < b; a++)
			if (s->is_rival[a])
				try_rivals(s, a, b, &best, &least);
	return list_of(s->first, &best);
}

/* ---- all columns ------------------------------------------------------------------------- */
static void find_rivals(struct search *s)
{
	for (int c = 0; c < s->b->m->cols; c++) {
		int could = 0, did = 0;
		for (int i = 0; i < s->num_legal; i++) {
			could += cost_at(s->b->m, s->legal[i], c) != COST_ILLEGAL;
			did += is_timed(s->b, s->legal[i], c);
		}
		s->is_rival[c] = (char)(c != s->first && did && 2 * did >= could);
		s->alone[c] = settled_sum(s, &(struct members){ { c, -1 }, -1 });
	}
}

/* named: [rows] the column of the row's leaf; all: of any leaf */
static void list_rows(struct search *s, const int *named, int all)
{
	const struct matrix *m = s->b->m;
	s->num_legal = s->num_illegal = 0;
	s->weight = 0;
	for (int r = 0; r < m->rows; r++) {
		if (!all && named[r] != s->first)
			continue;
		if (cost_at(m, r, s->first) == COST_ILLEGAL)
			s->illegal[s->num_illegal++] = r;
		else if (r < s->b->scenarios)
			s->legal[s->num_legal++] = r, s->weight += m->weight[r];
	}
}

static int is_covered(const struct matrix *m, int row, const struct attune_list *l)
{
	for (int i = 0; i < l->n; i++)
		if (cost_at(m, row, l->at[i]) != COST_ILLEGAL)
			return 1;
	return 0;
}

/* Appends what is best where no member is legal, in whatever leaf: a batch like that may come to any. */
static void widen(const struct row_basis *b, struct attune_list *l)
{
	const struct matrix *m = b->m;
	long long least = 0;
	int best = -1;
	for (int c = 0; c < m->cols && l->n < ATTUNE_LIST_MEMBERS; c++) {
		long long sum = 0;
		for (int r = 0; r < m->rows; r++)
			if (!is_covered(m, r, l))
				sum += weigh(m, r,
					     cost_at(m, r, c) == COST_ILLEGAL ? m->fallback[r]
									      : cost_at(m, r, c)) -
				       weigh(m, r, m->fallback[r]);
		if (sum < least)
			least = sum, best = c;
	}
	if (best >= 0)
		l->at[l->n++] = (short)best;
}

static int is_named(const struct tree *t, int col)
{
	for (int i = 0; t && i < t->n; i++)
		if (t->v[i].feature < 0 && t->v[i].action == col)
			return 1;
	return 0;
}

int rows_learn(struct attune_list *list, const struct row_basis *b, const struct tree *t)
{
	const size_t rows = (size_t)b->m->rows + 1;
	struct search s = { .b = b,
			    .legal = malloc(sizeof *s.legal * rows),
			    .illegal = malloc(sizeof *s.illegal * rows),
			    .is_rival = malloc((size_t)b->m->cols + 1),
			    .alone = malloc(sizeof *s.alone * ((size_t)b->m->cols + 1)) };
	int *named = malloc(sizeof *named * rows);
	const int done = s.legal && s.illegal && s.is_rival && s.alone && named;
	for (int r = 0; done && t && r < b->m->rows; r++)
		named[r] = t->v[tree_leaf(t, &b->m->f[r])].action;
	for (s.first = 0; done && s.first < b->m->cols; s.first++) {
		list_rows(&s, named, !is_named(t, s.first));
		find_rivals(&s);
		list[s.first] = best_row(&s);
		widen(b, &list[s.first]);
	}
	free(s.legal);
	free(s.illegal);
	free(s.is_rival);
	free(s.alone);
	free(named);
	return done;
}
