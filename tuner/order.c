/* order.c - puts what was added into an order that does not depend on how the rows
 * were inserted: all that is generated from here must come out the same from the
 * same cells. */
#include "data.h"
#include "early.h"
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
	const struct choice *a = &d->choice[*(const int *)pa], *b = &d->choice[*(const int *)pb];
	if (a->kernel != b->kernel)
		return a->kernel < b->kernel ? -1 : 1;
	for (int i = 0; i < MAX_AXES; i++)
		if (a->config.v[i] != b->config.v[i])
			return a->config.v[i] < b->config.v[i] ? -1 : 1;
	return 0;
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

static size_t place_of(const struct data *d, enum pass pass, int scenario, int phase, int choice)
{
	const size_t row = ((size_t)pass * (size_t)d->n + (size_t)scenario) * NUM_PHASES;
	return (row + (size_t)phase) * (size_t)d->num_choices + (size_t)choice;
}

static int place_cells(struct data *d, const int *scenario, const int *choice)
{
	const size_t places = place_of(d, NUM_PASSES, 0, 0, 0);
	d->place = malloc(sizeof *d->place * (places + 1));
	d->cell = malloc(sizeof *d->cell * (size_t)(d->num_raw + 1));
	d->plan = malloc(sizeof *d->plan * (size_t)(d->num_raw + 1));
	d->paced = malloc(sizeof *d->paced * (size_t)(d->num_raw + 1));
	if (!d->place || !d->cell || !d->plan || !d->paced)
		return 0;
	for (size_t i = 0; i < places; i++)
		d->place[i] = -1;
	for (int i = 0; i < d->num_raw; i++) {
		const struct raw *r = &d->raw[i];
		const int s = scenario[r->scenario], c = choice[r->choice];
		if (r->phase == PHASE_PLAN) {
			d->plan[d->num_plans++] = (struct composed){
				s, c, choice[r->decode], r->how, r->pass, r->cell, 0
			};
			continue;
		}
		if (r->is_paced)
			d->paced[d->num_paced++] =
			    (struct paced){ s, c, r->early, (enum phase)r->phase, r->cell };
		if (r->is_paced || r->early)
			continue;
		d->cell[i] = r->cell;
		d->place[place_of(d, r->pass, s, r->phase, c)] = i;
	}
	return 1;
}

int data_finish(struct data *d)
{
	int *scenario = sort_ranked(d, d->v, d->n, sizeof *d->v, scenario_order);
	int *choice = sort_ranked(d, d->choice, d->num_choices, sizeof *d->choice, choice_order);
	const int done = energy_mark(d) && scenario && choice && place_cells(d, scenario, choice) &&
			 formulas_add(d) && times_prepare(d);
	d->pass = PASS_B;
	free(scenario);
	free(choice);
	return done;
}
