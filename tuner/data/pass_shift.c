/* SPDX-License-Identifier: Apache-2.0 */
/* pass_shift.c - finds which scenarios pass B scores, and how much slower or faster it ran than
 * pass A. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pass B counts only if it contains a choice within this factor of pass A's best. */
#define OUTDATED 1.05

static int is_ok(const struct cell *c)
{
	return c && c->outcome == OUTCOME_OK;
}

/* The least times of pass A, over all choices or over those that pass B also has. */
struct least {
	double phase[NUM_PHASES], plan;
};

static struct least no_least(void)
{
	struct least l = { .plan = INFINITY };
	for (int p = 0; p < NUM_PHASES; p++)
		l.phase[p] = INFINITY;
	return l;
}

static double least_way(const struct measured *m, const struct least *l)
{
	double parts = 0;
	for (int p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		parts += m->has[p] ? l->phase[p] : 0;
	return fmin(l->plan, fmin(l->phase[PHASE_ALL], parts));
}

static void least_plans(struct data *d, int scenario, struct least *all, struct least *both)
{
	for (int i = d->plan_at[scenario]; i < d->plan_at[scenario + 1]; i++) {
		struct composed *c = &d->plan[i];
		const struct pick p = { c->prefill, c->decode, 1, c->how };
		if (c->pass != PASS_A || !is_ok(&c->cell))
			continue;
		c->is_outdone = data_plan_cell(d, PASS_B, scenario, &p) != NULL;
		all->plan = fmin(all->plan, c->cell.median_us);
		if (c->is_outdone)
			both->plan = fmin(both->plan, c->cell.median_us);
	}
}

/* Pass B scores a scenario if it contains pass A's fastest choice or nearly so. If choices added
 * later are faster than everything in it, it is outdated and counts no more than pass A. */
static void compare(struct data *d, int scenario, double *ratio)
{
	const struct measured *m = &d->v[scenario];
	signed char *again = &d->again[scenario * NUM_PHASES];
	struct least all = no_least(), both = all;
	int n = 0;
	for (int p = 0; p < NUM_PHASES; p++) {
		struct choice_iter i = choices_of(d, scenario, (enum phase)p, (enum phase)p);
		while (choices_next(&i)) {
			const struct cell *a = i.cells[0].of[PASS_A], *b = i.cells[0].of[PASS_B];
			again[p] |= (signed char)is_ok(b);
			all.phase[p] = is_ok(a) ? fmin(all.phase[p], a->us) : all.phase[p];
			if (!is_ok(a) || !b)
				continue;
			both.phase[p] = fmin(both.phase[p], a->us);
			if (is_ok(b))
				ratio[n++] = b->median_us / a->us;
		}
	}
	if (!(measured_is_mixed(m)))
		for (int p = 0; p < NUM_PHASES; p++)
			again[p] |= again[PHASE_ALL] | again[PHASE_PREFILL] | again[PHASE_DECODE];
	least_plans(d, scenario, &all, &both);
	if (least_way(m, &all) * OUTDATED < least_way(m, &both))
		memset(again, 0, NUM_PHASES);
	d->shift[scenario] = n ? median(ratio, n) : 1;
}

int passes_compare(struct data *d)
{
	int most = 0;
	for (int s = 0; s < d->n; s++) {
		const int cells = d->row[(s + 1) * NUM_PHASES] - d->row[s * NUM_PHASES];
		most = cells > most ? cells : most;
	}
	double *ratio = malloc(sizeof *ratio * ((size_t)most + 1));
	d->shift = malloc(sizeof *d->shift * ((size_t)d->n + 1));
	d->again = calloc((size_t)d->n + 1, NUM_PHASES);
	const int done = ratio && d->shift && d->again;
	for (int s = 0; done && s < d->n; s++)
		compare(d, s, ratio);
	free(ratio);
	return done;
}
