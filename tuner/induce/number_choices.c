/* number_choices.c - gives ids to the choices that leaves name, the most used first, and renumbers
 * both trees and the segment costs. */
#include "phase_fit.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <stdlib.h>

struct use {
	int choice; /* as in matrix.choice */
	long long weight;
};

static int by_use(const void *pa, const void *pb)
{
	const struct use *a = pa, *b = pb;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return a->choice - b->choice;
}

static int count_use(struct use *use, int n, int choice, long long weight)
{
	int i = 0;
	while (i < n && use[i].choice != choice)
		i++;
	if (i == n)
		use[n++] = (struct use){ choice, 0 };
	use[i].weight += weight;
	return n;
}

/* Adds up how much weight each choice has in the leaves of a tree; 0 for others of their rows. */
static int count_uses(const struct phase_fit *fit, struct use *use, int n)
{
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		if (v->feature >= 0 || v->action < 0)
			continue;
		n = count_use(use, n, fit->m->choice[v->action], v->weight);
		for (int k = 1; k < fit->list[v->action].n; k++)
			n = count_use(use, n, fit->m->choice[fit->list[v->action].at[k]], 0);
	}
	return n;
}

static int id_of(const struct use *use, int n, const struct phase_fit *fit, int column)
{
	int id = 0;
	while (column >= 0 && id < n && use[id].choice != fit->m->choice[column])
		id++;
	return column >= 0 && id < n ? id : SAYS_DEFAULTS;
}

/* Numbers from num_columns on mean a choice with SEGMENTS=fitted, if it has that axis. */
static struct choice choice_of(const struct data *d, int number)
{
	if (number < d->num_columns)
		return d->choice[number];
	struct choice c = d->choice[number - d->num_columns];
	if (c.kernel->space->formula_axis >= 0)
		c.config.v[c.kernel->space->formula_axis] = SEGMENTS_FITTED;
	return c;
}

static int has_costs(const struct forest *f, int n, int id)
{
	int i = 0;
	while (i < n && f->costs[i].id != id)
		i++;
	return i < n;
}

/* Copies the segment costs of choices that leaves name. A choice that both trees name has those of
 * prefills: a header has one row for a choice and head size. */
static void number_costs(struct forest *f, const struct phase_fit *fit)
{
	const int before = f->num_costs;
	for (int i = 0; i < fit->cheapest.num_costs; i++) {
		struct selector_costs row = fit->cheapest.costs[i];
		const struct choice *of = &fit->cheapest.choice[row.id];
		row.id = 0;
		while (row.id < f->num_choices && choice_compare(&f->choice[row.id], of))
			row.id++;
		if (row.id < f->num_choices && !has_costs(f, before, row.id))
			f->costs[f->num_costs++] = row;
	}
}

/* How much weight a column has in the leaves; 0: none names it. */
static long long named_weight(const struct phase_fit *fit, int column)
{
	long long sum = 0;
	for (int i = 0; i < fit->tree.n; i++)
		if (fit->tree.v[i].feature < 0 && fit->tree.v[i].action == column)
			sum += fit->tree.v[i].weight + 1;
	return sum;
}

/* The rows of choices that leaves name. A choice that both trees name has the row of the tree where it
 * has more weight. */
static void number_lists(struct forest *f, const struct use *use, const struct phase_fit fit[2])
{
	long long most[MAX_IDS] = { 0 };
	for (int p = 0; p < 2; p++)
		for (int c = 0; fit[p].m && c < fit[p].m->cols; c++) {
			const long long weight = named_weight(&fit[p], c);
			const int id = id_of(use, f->num_choices, &fit[p], c);
			if (id < 0 || weight <= most[id])
				continue;
			most[id] = weight;
			f->list[id] = fit[p].list[c];
			if (f->list[id].n == 1) /* itself alone needs no row */
				f->list[id].n = 0;
			for (int k = 0; k < f->list[id].n; k++)
				f->list[id].at[k] =
				    (short)id_of(use, f->num_choices, &fit[p], f->list[id].at[k]);
		}
}

int number_choices(struct forest *f, const struct data *d, struct phase_fit fit[2])
{
	struct use use[MAX_IDS] = { 0 };
	int n = 0;
	for (int p = 0; p < 2; p++)
		n = count_uses(&fit[p], use, n);
	qsort(use, (size_t)n, sizeof *use, by_use);
	f->num_choices = n;
	for (int i = 0; i < n; i++)
		f->choice[i] = choice_of(d, use[i].choice);
	number_lists(f, use, fit);
	for (int p = 0; p < 2; p++) {
		if (fit[p].with_estimates)
			number_costs(f, &fit[p]);
		for (int i = 0; i < fit[p].tree.n; i++) {
			struct node *v = &fit[p].tree.v[i];
			v->action = id_of(use, n, &fit[p], v->action);
			v->runner_up = id_of(use, n, &fit[p], v->runner_up);
		}
		f->tree[p] = fit[p].tree;
		fit[p].tree = (struct tree){ 0 };
	}
	return n > 0;
}
