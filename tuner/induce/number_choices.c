/* SPDX-License-Identifier: Apache-2.0 */
/* number_choices.c - gives ids to the choices that leaves name, the most used first, and renumbers
 * both trees and the segment costs. A choice has two ids, each with a row and costs of its tree, if leaves
 * of both trees name it, or if it has costs and both trees use it, in leaves or in their rows. */
#include "phase_fit.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <stdlib.h>

enum { EITHER = -1 };
struct use {
	int choice; /* as in matrix.choice */
	int tree;   /* EITHER: it has one id */
	long long weight;
};

static int by_use(const void *pa, const void *pb)
{
	const struct use *a = pa, *b = pb;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return a->choice != b->choice ? a->choice - b->choice : a->tree - b->tree;
}

static int leaf_names(const struct phase_fit *fit, int choice)
{
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		if (v->feature < 0 && v->action >= 0 && fit->m->choice[v->action] == choice)
			return 1;
	}
	return 0;
}

/* Whether a leaf names the choice, or one in whose row it is. */
static int tree_uses(const struct phase_fit *fit, int choice)
{
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		if (v->feature >= 0 || v->action < 0)
			continue;
		const struct attune_list *row = &fit->list[v->action];
		if (fit->m->choice[v->action] == choice)
			return 1;
		for (int k = 0; k < row->n; k++)
			if (fit->m->choice[row->at[k]] == choice)
				return 1;
	}
	return 0;
}

/* Numbers from num_columns on mean a choice with SEGMENTS=fitted, if it has that axis. */
struct choice choice_of(const struct data *d, int number)
{
	if (number < d->num_columns)
		return d->choice[number];
	struct choice c = d->choice[number - d->num_columns];
	if (c.kernel->space->formula_axis >= 0)
		c.config.v[c.kernel->space->formula_axis] = SEGMENTS_FITTED;
	return c;
}

static int has_two_ids(const struct phase_fit fit[2], int choice)
{
	const struct choice c = choice_of(fit[0].d, choice);
	if (leaf_names(&fit[0], choice) && leaf_names(&fit[1], choice))
		return 1;
	return config_is_fitted(&c.config, c.kernel->space) && tree_uses(&fit[0], choice) &&
	       tree_uses(&fit[1], choice);
}

static int count_use(const struct phase_fit fit[2], int tree, struct use *use, int n, int choice,
		     long long weight)
{
	const int both = has_two_ids(fit, choice);
	int i = 0;
	while (i < n && (use[i].choice != choice || (both && use[i].tree != tree)))
		i++;
	if (i == n)
		use[n++] = (struct use){ choice, both ? tree : EITHER, 0 };
	use[i].weight += weight;
	return n;
}

/* Adds up how much weight each choice has in the leaves of a tree; 0 for others of their rows. */
static int count_uses(const struct phase_fit fit[2], int tree, struct use *use, int n)
{
	const struct phase_fit *of = &fit[tree];
	for (int i = 0; i < of->tree.n; i++) {
		const struct node *v = &of->tree.v[i];
		if (v->feature >= 0 || v->action < 0)
			continue;
		n = count_use(fit, tree, use, n, of->m->choice[v->action], v->weight);
		for (int k = 1; k < of->list[v->action].n; k++)
			n = count_use(fit, tree, use, n, of->m->choice[of->list[v->action].at[k]],
				      0);
	}
	return n;
}

static int is_of(const struct use *u, int tree)
{
	return u->tree == EITHER || u->tree == tree;
}

static int id_of(const struct use *use, int n, const struct phase_fit fit[2], int tree, int column)
{
	int id = 0;
	while (column >= 0 && id < n &&
	       (use[id].choice != fit[tree].m->choice[column] || !is_of(&use[id], tree)))
		id++;
	return column >= 0 && id < n ? id : SAYS_DEFAULTS;
}

static int has_costs(const struct forest *f, int n, int id)
{
	int i = 0;
	while (i < n && f->costs[i].id != id)
		i++;
	return i < n;
}

/* Copies the segment costs of a tree's choices. */
static void number_costs(struct forest *f, const struct use *use, const struct phase_fit fit[2],
			 int tree)
{
	const struct cheapest_set *of = &fit[tree].cheapest;
	const int before = f->num_costs;
	for (int i = 0; i < of->num_costs; i++) {
		struct selector_costs row = of->costs[i];
		const struct choice *c = &of->choice[row.id];
		row.id = 0;
		while (row.id < f->num_choices &&
		       (choice_compare(&f->choice[row.id], c) || !is_of(&use[row.id], tree)))
			row.id++;
		if (row.id < f->num_choices && !has_costs(f, before, row.id))
			f->costs[f->num_costs++] = row;
	}
}

/* The rows of choices that leaves name. */
static void number_lists(struct forest *f, const struct use *use, const struct phase_fit fit[2],
			 int tree)
{
	const struct phase_fit *of = &fit[tree];
	for (int c = 0; of->m && c < of->m->cols; c++) {
		const int id = id_of(use, f->num_choices, fit, tree, c);
		if (id < 0 || !leaf_names(of, of->m->choice[c]))
			continue;
		f->list[id] = of->list[c];
		if (f->list[id].n == 1) /* itself alone needs no row */
			f->list[id].n = 0;
		for (int k = 0; k < f->list[id].n; k++)
			f->list[id].at[k] =
			    (short)id_of(use, f->num_choices, fit, tree, f->list[id].at[k]);
	}
}

static void number_tree(struct forest *f, const struct use *use, struct phase_fit fit[2], int tree)
{
	struct tree *t = &fit[tree].tree;
	for (int i = 0; i < t->n; i++) {
		struct node *v = &t->v[i];
		v->action = id_of(use, f->num_choices, fit, tree, v->action);
		v->runner_up = id_of(use, f->num_choices, fit, tree, v->runner_up);
	}
	f->tree[tree] = *t;
	*t = (struct tree){ 0 };
}

int number_choices(struct forest *f, const struct data *d, struct phase_fit fit[2])
{
	struct use use[MAX_IDS] = { 0 };
	int n = 0;
	for (int p = 0; p < 2; p++)
		n = count_uses(fit, p, use, n);
	qsort(use, (size_t)n, sizeof *use, by_use);
	f->num_choices = n;
	for (int i = 0; i < n; i++)
		f->choice[i] = choice_of(d, use[i].choice);
	for (int p = 0; p < 2; p++)
		number_lists(f, use, fit, p);
	for (int p = 0; p < 2; p++) {
		if (fit[p].with_estimates)
			number_costs(f, use, fit, p);
		number_tree(f, use, fit, p);
	}
	return n > 0;
}
