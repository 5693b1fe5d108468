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
/* Counting sort; stable. Element order[i] comes to place i; group g begins at at[g], and at[groups]
 * is n. NULL without memory. */
static int *group(const int *of, size_t stride, int n, int groups, int *at)
{
	int *order = malloc(sizeof *order * ((size_t)n + 1));
	const char *p = (const char *)of;
	memset(at, 0, sizeof *at * ((size_t)groups + 1));
	for (int i = 0; order && i < n; i++)
		at[1 + *(const int *)(p + stride * (size_t)i)]++;
	for (int g = 0; g < groups; g++)
		at[g + 1] += at[g];
	for (int i = n - 1; order && i >= 0; i--)
		order[--at[1 + *(const int *)(p + stride * (size_t)i)]] = i;
	for (int g = 0; order && g < groups; g++)
		at[g] = at[g + 1];
	at[groups] = n;
	return order;
}

static int by_number(const void *pa, const void *pb)
{
	const long long a = *(const long long *)pa, b = *(const long long *)pb;
	return (a > b) - (a < b);
}

/* Sorts the n cells of one row by key, then by arrival. sorted: scratch, [n]. */
static void sort_row(const struct place *place, int *order, int n, long long *sorted)
{
	for (int i = 0; i < n; i++)
		sorted[i] = (long long)place[order[i]].key << 32 | order[i];
	qsort(sorted, (size_t)n, sizeof *sorted, by_number);
	for (int i = 0; i < n; i++)
		order[i] = (int)(sorted[i] & INT32_MAX);
}

static int sort_rows(const struct data *d, int *order)
{
	int most = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		most = d->row[r + 1] - d->row[r] > most ? d->row[r + 1] - d->row[r] : most;
	long long *sorted = malloc(sizeof *sorted * ((size_t)most + 1));
	for (int r = 0; sorted && r < d->n * NUM_PHASES; r++)
		sort_row(d->scaffold->place, order + d->row[r], d->row[r + 1] - d->row[r], sorted);
	free(sorted);
	return sorted != NULL;
}

/* cell[i] = cell[order[i]] for all i, in place: follows each cycle and sets its elements of order
 * to -1. */
static void move_cells(struct cell *cell, int *order, int n)
{
	for (int i = 0; i < n; i++) {
		if (order[i] < 0)
			continue;
		const struct cell first = cell[i];
		int at = i;
		while (order[at] != i) {
			const int from = order[at];
			cell[at] = cell[from];
			order[at] = -1;
			at = from;
		}
		cell[at] = first;
		order[at] = -1;
	}
}

/* Keeps the newest of the cells with the same row and key. */
static void drop_older(struct data *d)
{
	int kept = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++) {
		const int from = d->row[r], end = d->row[r + 1];
		d->row[r] = kept;
		for (int i = from; i < end; i++) {
			if (i + 1 < end && d->key[i] == d->key[i + 1])
				continue;
			d->key[kept] = d->key[i];
			d->cell[kept++] = d->cell[i];
		}
	}
	d->row[d->n * NUM_PHASES] = d->num_cells = kept;
}

static int order_cells(struct data *d, const int *scenario, const int *choice)
{
	const int rows = d->n * NUM_PHASES;
	struct place *place = d->scaffold->place;
	for (int i = 0; i < d->num_cells; i++) {
		place[i].row =
		    scenario[place[i].row / NUM_PHASES] * NUM_PHASES + place[i].row % NUM_PHASES;
		place[i].key =
		    choice[place[i].key / NUM_PASSES] * NUM_PASSES + place[i].key % NUM_PASSES;
	}
	d->row = malloc(sizeof *d->row * ((size_t)rows + 1));
	d->key = malloc(sizeof *d->key * ((size_t)d->num_cells + 1));
	const int *row = d->num_cells ? &place->row : NULL;
	int *order =
	    d->row && d->key ? group(row, sizeof *place, d->num_cells, rows, d->row) : NULL;
	const int done = order && sort_rows(d, order);
	for (int i = 0; done && i < d->num_cells; i++)
		d->key[i] = place[order[i]].key;
	if (done) {
		move_cells(d->cell, order, d->num_cells);
		drop_older(d);
	}
	free(order);
	return done;
}

/* ---- plans, and early launches ------------------------------------------------------ */
static int order_plans(struct data *d, const int *scenario, const int *choice)
{
	struct composed *sorted = malloc(sizeof *sorted * ((size_t)d->num_plans + 1));
	for (int i = 0; i < d->num_plans; i++) {
		d->plan[i].scenario = scenario[d->plan[i].scenario];
		d->plan[i].prefill = choice[d->plan[i].prefill];
		d->plan[i].decode = choice[d->plan[i].decode];
	}
	d->plan_at = malloc(sizeof *d->plan_at * ((size_t)d->n + 1));
	const int *of = d->num_plans ? &d->plan->scenario : NULL;
	int *order = sorted && d->plan_at
			 ? group(of, sizeof *d->plan, d->num_plans, d->n, d->plan_at)
			 : NULL;
	for (int i = 0; order && i < d->num_plans; i++)
		sorted[i] = d->plan[order[i]];
	free(d->plan);
	d->plan = sorted;
	free(order);
	return order != NULL;
}

static int by_part(const void *pa, const void *pb, void *arg)
{
	const struct data *d = arg;
	const struct early_launch *a = &d->early_launch[*(const int *)pa],
				  *b = &d->early_launch[*(const int *)pb];
	if (a->scenario != b->scenario)
		return a->scenario - b->scenario;
	if (a->phase != b->phase)
		return (int)a->phase - (int)b->phase;
	return *(const int *)pa - *(const int *)pb;
}

static int order_early(struct data *d, const int *scenario, const int *choice)
{
	for (int i = 0; i < d->num_early; i++) {
		d->early_launch[i].scenario = scenario[d->early_launch[i].scenario];
		d->early_launch[i].choice = choice[d->early_launch[i].choice];
	}
	int *rank = sort_ranked(d, d->early_launch, d->num_early, sizeof *d->early_launch, by_part);
	free(rank);
	return rank != NULL;
}

/* Sorts everything and frees the scaffold. */
static int data_order(struct data *d)
{
	int *scenario = sort_ranked(d, d->v, d->n, sizeof *d->v, scenario_order);
	int *choice = sort_ranked(d, d->choice, d->num_choices, sizeof *d->choice, choice_order);
	const int done = scenario && choice && order_cells(d, scenario, choice) &&
			 order_plans(d, scenario, choice) && order_early(d, scenario, choice);
	free(scenario);
	free(choice);
	scaffold_free(d);
	return done;
}

/* ---- the steps ---------------------------------------------------------------------- */
int data_finish(struct data *d)
{
	d->basics = calloc(1, sizeof *d->basics);
	const int done = d->basics && energy_mark(d) && data_order(d) && sessions_choose(d) &&
			 formulas_add(d) && clocks_set(d) && passes_compare(d) && fastest_find(d);
	d->pass = PASS_B;
	return done;
}

int data_finish_again(struct data *d)
{
	d->basics = calloc(1, sizeof *d->basics);
	const int done =
	    d->basics && data_order(d) && formulas_add(d) && passes_compare(d) && fastest_find(d);
	d->pass = PASS_B;
	return done;
}
