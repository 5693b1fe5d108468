/* SPDX-License-Identifier: Apache-2.0 */
/* second_session.c - chooses the session of pass B that counts in each scenario, and drops the others.
 *
 * Scores compare medians of pass B. Two sessions may run on two cards, or one card may be warmer, so
 * their medians differ for no reason of the choices. So a scenario's times of pass B are those of
 * one run. Of the runs that measured at least half as many of its cells and plans as the run with
 * most, the newest counts.
 *
 * In a scenario of the gate the newest run counts, however few it measured: `attune tune` compares
 * two rules there, by a race of their picks alone. */
#include "data.h"
#include "filling.h"
#include "harness/scenario/scenario.h"
#include <stdlib.h>

static int run_of(const struct cell *c)
{
	return c->race / RACES_OF_RUN;
}

static int by_number(const void *pa, const void *pb)
{
	const int a = *(const int *)pa, b = *(const int *)pb;
	return (a > b) - (a < b);
}

/* The runs of a scenario's cells and plans of pass B, one entry each. Returns their number. */
static int list_runs(const struct data *d, int scenario, int *run)
{
	int n = 0;
	for (int i = d->row[scenario * NUM_PHASES]; i < d->row[(scenario + 1) * NUM_PHASES]; i++)
		if (d->cell[i].key % NUM_PASSES == PASS_B)
			run[n++] = run_of(&d->cell[i]);
	for (int i = d->plan_at[scenario]; i < d->plan_at[scenario + 1]; i++)
		if (d->plan[i].pass == PASS_B)
			run[n++] = run_of(&d->plan[i].cell);
	return n;
}

/* The run that counts; -1: pass B did not measure the scenario. */
static int session_of(int *run, int n, int is_gate)
{
	int most = 0, session = -1;
	qsort(run, (size_t)n, sizeof *run, by_number);
	for (int i = 0, same = 0; i < n; i++) {
		same = i && run[i] == run[i - 1] ? same + 1 : 1;
		most = same > most ? same : most;
	}
	for (int i = 0, same = 0; i < n; i++) {
		same = i && run[i] == run[i - 1] ? same + 1 : 1;
		session = is_gate || 2 * same >= most ? run[i] : session;
	}
	return session;
}

static int cell_counts(const struct data *d, const struct cell *c)
{
	return c->key % NUM_PASSES != PASS_B || run_of(c) == d->v[c->row / NUM_PHASES].session;
}

static int plan_counts(const struct data *d, const struct composed *c)
{
	return c->pass != PASS_B || run_of(&c->cell) == d->v[c->scenario].session;
}

int sessions_choose(struct data *d)
{
	int *run = malloc(sizeof *run * ((size_t)(d->num_cells + d->num_plans) + 1));
	for (int s = 0; run && s < d->n; s++)
		d->v[s].session =
		    session_of(run, list_runs(d, s, run), split_is_gate(d->v[s].split));
	if (run) {
		cells_keep(d, cell_counts);
		plans_keep(d, plan_counts);
	}
	free(run);
	return run != NULL;
}
