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
#include "harness/base/base.h"
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
		if (d->key[i] % NUM_PASSES == PASS_B)
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

/* Keeps the cells of pass A, and those of pass B that are of their scenario's session. */
static void keep_cells(struct data *d, const int *session)
{
	int kept = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++) {
		const int from = d->row[r], end = d->row[r + 1];
		d->row[r] = kept;
		for (int i = from; i < end; i++) {
			if (d->key[i] % NUM_PASSES == PASS_B &&
			    run_of(&d->cell[i]) != session[r / NUM_PHASES])
				continue;
			d->key[kept] = d->key[i];
			d->cell[kept++] = d->cell[i];
		}
	}
	d->row[d->n * NUM_PHASES] = d->num_cells = kept;
}

static void keep_plans(struct data *d, const int *session)
{
	int kept = 0;
	for (int s = 0; s < d->n; s++) {
		const int from = d->plan_at[s], end = d->plan_at[s + 1];
		d->plan_at[s] = kept;
		for (int i = from; i < end; i++)
			if (d->plan[i].pass != PASS_B || run_of(&d->plan[i].cell) == session[s])
				d->plan[kept++] = d->plan[i];
	}
	d->plan_at[d->n] = d->num_plans = kept;
}

int sessions_choose(struct data *d)
{
	int *run = malloc(sizeof *run * ((size_t)(d->num_cells + d->num_plans) + 1));
	int *session = malloc(sizeof *session * ((size_t)d->n + 1));
	const int done = run && session;
	for (int s = 0; done && s < d->n; s++)
		session[s] =
		    session_of(run, list_runs(d, s, run), split_is_gate(d->v[s].split));
	if (done) {
		keep_cells(d, session);
		keep_plans(d, session);
	}
	free(run);
	free(session);
	return done;
}
