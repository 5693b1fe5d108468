/* number.c - ids of the choices that leaves name or take the cheapest of, the most used
 * first; both trees and all prices move over to them. */
#include "phase_fit.h"
#include <stdlib.h>

struct use {
	int choice; /* of data */
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

/* Whether the leaves of a tree ask for the cheapest. */
static int asks_cheapest(const struct phase_fit *fit)
{
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		if (v->feature < 0 && v->action >= 0 &&
		    fit->m->choice[v->action] >= fit->d.num_columns)
			return 1;
	}
	return 0;
}

/* Choices that leaves name, and those among which the cheapest is taken. */
static int count_uses(const struct phase_fit *fit, struct use *use, int n)
{
	for (int i = 0; i < fit->tree.n; i++) {
		const struct node *v = &fit->tree.v[i];
		const int named = v->feature < 0 && v->action >= 0;
		if (named && fit->m->choice[v->action] < fit->d.num_columns)
			n = count_use(use, n, fit->m->choice[v->action], v->weight);
	}
	for (int i = 0; asks_cheapest(fit) && i < fit->prices.num_choices; i++)
		n = count_use(use, n, data_find(&fit->d, &fit->prices.choice[i]), 0);
	return n;
}

static int id_of(const struct use *use, int n, const struct phase_fit *fit, int column)
{
	int id = 0;
	if (column < 0)
		return SAYS_DEFAULTS;
	if (fit->m->choice[column] >= fit->d.num_columns)
		return SAYS_CHEAPEST;
	while (id < n && use[id].choice != fit->m->choice[column])
		id++;
	return id < n ? id : SAYS_DEFAULTS;
}

static void number_prices(struct forest *f, const struct use *use, int n,
			  const struct phase_fit *fit)
{
	for (int i = 0; asks_cheapest(fit) && i < fit->prices.num_prices; i++) {
		struct selector_price p = fit->prices.price[i];
		const int choice = data_find(&fit->d, &fit->prices.choice[p.id]);
		p.id = 0;
		while (p.id < n && use[p.id].choice != choice)
			p.id++;
		f->price[f->num_prices++] = p;
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
		f->choice[i] = d->choice[use[i].choice];
	for (int p = 0; p < 2; p++) {
		number_prices(f, use, n, &fit[p]);
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
