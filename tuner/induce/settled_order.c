/* SPDX-License-Identifier: Apache-2.0 */
/* settled_order.c - the order of a row's members behind the first, by batches that the library settled: a
 * member that won more of them comes before one that won fewer. What runs where the first is illegal then
 * changes, too, so a row whose members would be slower there, beyond noise, stays as it was learned. */
#include "phase_fit.h"
#include "tuner/data/data.h"
#include <string.h>

/* Settled batches of the first column that the other one won. */
static int wins_of(const struct phase_fit *fit, enum phase phase, int first, int other)
{
	const struct choice a = choice_of(fit->d, fit->m->choice[first]);
	const struct choice b = choice_of(fit->d, fit->m->choice[other]);
	for (int i = 0; i < fit->d->num_wins; i++) {
		const struct settled_win *w = &fit->d->win[i];
		if (w->phase == phase && choice_same(&w->first, &a) && choice_same(&w->winner, &b))
			return w->batches;
	}
	return 0;
}

static struct attune_list by_wins(const struct phase_fit *fit, enum phase phase,
				  struct attune_list l)
{
	int wins[ATTUNE_LIST_MEMBERS] = { 0 };
	for (int i = 1; i < l.n; i++) {
		const short member = l.at[i];
		const int its = wins_of(fit, phase, l.at[0], member);
		int at = i;
		for (; at > 1 && its > wins[at - 1]; at--)
			l.at[at] = l.at[at - 1], wins[at] = wins[at - 1];
		l.at[at] = member, wins[at] = its;
	}
	return l;
}

/* weight x cost of what a row runs. */
static long long weigh(const struct matrix *m, int row, const struct attune_list *l)
{
	const int32_t cost = row_runs(m, row, l);
	return is_forbidden(cost) ? FORBIDDEN_SUM : (long long)m->weight[row] * cost;
}

/* Whether the row `to` costs more than `from` where a leaf names their first and it is illegal. */
static int is_slower(const struct phase_fit *fit, const struct attune_list *from,
		     const struct attune_list *to)
{
	const struct matrix *m = fit->raw;
	const int first = from->at[0];
	long long more = 0, weight = 0;
	for (int r = 0; r < m->rows; r++) {
		if (m->cost[(size_t)r * (size_t)m->cols + (size_t)first] != COST_ILLEGAL ||
		    fit->tree.v[tree_leaf(&fit->tree, &m->f[r])].action != first)
			continue;
		more += weigh(m, r, to) - weigh(m, r, from);
		weight += m->weight[r];
	}
	return more > NOISE_FLOOR * weight;
}

static int is_named(const struct tree *t, int col)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].feature < 0 && t->v[i].action == col)
			return 1;
	return 0;
}

void order_by_settled(struct phase_fit *fit, enum phase phase)
{
	for (int c = 0; fit->d->num_wins && c < fit->m->cols; c++) {
		const struct attune_list row = by_wins(fit, phase, fit->list[c]);
		if (!memcmp(&row, &fit->list[c], sizeof row) || is_slower(fit, &fit->list[c], &row))
			continue;
		fit->list[c] = row;
		fit->making.by_settled += is_named(&fit->tree, c);
	}
}
