/* SPDX-License-Identifier: Apache-2.0 */
/* data_finish.c - sorts struct data after all rows were added and runs the steps that derive times.
 * The order does not depend on how rows were inserted: the same cells must generate the same
 * header. */
#include "data.h"
#include "filling.h"
#include <stdlib.h>
#include <string.h>

static int scenario_order(const void *pa, const void *pb, void *arg)
{
	const struct data *d = arg;
	const struct measured *a = &d->v[*(const int *)pa], *b = &d->v[*(const int *)pb];
	return strverscmp(a->key, b->key); /* page 8 before page 16 */
}

static int choice_order(const void *pa, const void *pb, void *arg)
{
	const struct data *d = arg;
	return choice_compare(&d->choice[*(const int *)pa], &d->choice[*(const int *)pb]);
}

/* Sorts the `n` elements of `size` bytes at `v`; rank[old] = new. NULL without
 * memory. */
static int *sort_ranked(struct data *d, void *v, int n, size_t size,
			int (*order)(const void *, const void *, void *))
{
	int *index = malloc(sizeof *index * (size_t)(n + 1));
	int *rank = malloc(sizeof *rank * (size_t)(n + 1));
	char *copy = malloc(size * (size_t)(n + 1));
	if (index && rank && copy && n) {
		for (int i = 0; i < n; i++)
			index[i] = i;
		qsort_r(index, (size_t)n, sizeof *index, order, d);
		memcpy(copy, v, size * (size_t)n);
		for (int i = 0; i < n; i++) {
			rank[index[i]] = i;
			memcpy((char *)v + size * (size_t)i, copy + size * (size_t)index[i], size);
		}
	}
	if (!index || !copy) {
		free(rank);
		rank = NULL;
	}
	free(index);
	free(copy);
	return rank;
}

/* ---- cells ------------------------------------------------------------------------ */
static int by_place(const void *pa, const void *pb)
{
	const struct cell *a = pa, *b = pb;
	return a->row != b->row   ? a->row - b->row
	       : a->key != b->key ? a->key - b->key
				  : a->arrival - b->arrival;
}

/* The last of the cells with the same row and key. */
static int is_newest(const struct data *d, const struct cell *c)
{
	return c + 1 == d->cell + d->num_cells || c->row != c[1].row || c->key != c[1].key;
}

static int order_cells(struct data *d, const int *scenario, const int *choice)
{
	for (int i = 0; i < d->num_cells; i++) {
		struct cell *c = &d->cell[i];
		c->row = scenario[c->row / NUM_PHASES] * NUM_PHASES + c->row % NUM_PHASES;
		c->key = choice[c->key / NUM_PASSES] * NUM_PASSES + c->key % NUM_PASSES;
	}
	if (d->num_cells)
		qsort(d->cell, (size_t)d->num_cells, sizeof *d->cell, by_place);
	d->row = malloc(sizeof *d->row * ((size_t)d->n * NUM_PHASES + 1));
	if (d->row)
		cells_keep(d, is_newest);
	return d->row != NULL;
}

/* ---- plans, and early launches ------------------------------------------------------ */
static int by_scenario(const void *pa, const void *pb)
{
	const struct composed *a = pa, *b = pb;
	return a->scenario != b->scenario ? a->scenario - b->scenario
					  : a->cell.arrival - b->cell.arrival;
}

static int order_plans(struct data *d, const int *scenario, const int *choice)
{
	for (int i = 0; i < d->num_plans; i++) {
		d->plan[i].scenario = scenario[d->plan[i].scenario];
		d->plan[i].prefill = choice[d->plan[i].prefill];
		d->plan[i].decode = choice[d->plan[i].decode];
	}
	if (d->num_plans)
		qsort(d->plan, (size_t)d->num_plans, sizeof *d->plan, by_scenario);
	d->plan_at = malloc(sizeof *d->plan_at * ((size_t)d->n + 1));
	if (d->plan_at)
		plans_keep(d, NULL);
	return d->plan_at != NULL;
}

static int by_part(const void *pa, const void *pb)
{
	const struct early_launch *a = pa, *b = pb;
	return a->scenario != b->scenario ? a->scenario - b->scenario
	       : a->phase != b->phase     ? (int)a->phase - (int)b->phase
	       : a->choice != b->choice   ? a->choice - b->choice
					  : a->cell.arrival - b->cell.arrival;
}

static void order_early(struct data *d, const int *scenario, const int *choice)
{
	for (int i = 0; i < d->num_early; i++) {
		d->early_launch[i].scenario = scenario[d->early_launch[i].scenario];
		d->early_launch[i].choice = choice[d->early_launch[i].choice];
	}
	if (d->num_early)
		qsort(d->early_launch, (size_t)d->num_early, sizeof *d->early_launch, by_part);
}

/* Sorts everything and frees the scaffold. */
static int data_order(struct data *d)
{
	int *scenario = sort_ranked(d, d->v, d->n, sizeof *d->v, scenario_order);
	int *choice = sort_ranked(d, d->choice, d->num_choices, sizeof *d->choice, choice_order);
	const int done = scenario && choice && order_cells(d, scenario, choice) &&
			 order_plans(d, scenario, choice);
	if (done)
		order_early(d, scenario, choice);
	free(scenario);
	free(choice);
	scaffold_free(d);
	return done;
}

/* ---- the steps ---------------------------------------------------------------------- */
static int derive(struct data *d)
{
	const int done = passes_compare(d) && fastest_find(d);
	d->pass = PASS_B;
	return done;
}

int data_finish(struct data *d)
{
	return data_order(d) && sessions_choose(d) && formulas_add(d) && clocks_set(d) && derive(d);
}
