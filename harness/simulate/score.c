/* score.c - scores the choices that a simulated sweep picks by the recorded medians of all cells,
 * and compares them with simple baseline schedules at the same cost. */
#include "simulate.h"
#include "harness/base/base.h"
#include "harness/measure/sample_graph.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include <math.h>
#include <stdlib.h>

enum { RANDOM_ROUNDS = 7, WARM = 2 /* warm-up calls, as in races */ };

unsigned long long simulation_dice(unsigned long long a, unsigned long long b)
{
	return scramble(scramble(a * 0x9e3779b97f4a7c15ull + b) + b) >> 8;
}

double simulation_sample(const struct record *r, unsigned long long dice)
{
	return r->n ? (double)r->us[dice % (unsigned)r->n] : r->median;
}

static double best_of(const struct simulation *r, int problem)
{
	double best = INFINITY;
	for (int k = 0; k < r->c->problems.v[problem].n; k++)
		best = fmin(best, r->of[problem][k].median);
	return best;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void simulation_score(const struct simulation *r, struct table *t, const char *name, double spent,
		      double all, long long cells, const int *pick)
{
	const struct problems *problems = &r->c->problems;
	double *ratio = calloc((size_t)problems->n + 1, sizeof *ratio), logs = 0;
	int n = 0, near = 0;
	for (int i = 0; ratio && i < problems->n; i++) {
		const struct problem *h = &problems->v[i];
		if (h->phase == PHASE_ALL || !h->n || !(best_of(r, i) < INFINITY))
			continue;
		ratio[n] = r->of[i][pick[i] < 0 ? 0 : pick[i]].median / best_of(r, i);
		logs += log(ratio[n]);
		near += ratio[n++] <= 1.02;
	}
	if (n)
		qsort(ratio, (size_t)n, sizeof *ratio, by_value);
	table_text(t, name);
	table_number(t, n, 0);
	table_number(t, (double)cells, 0);
	table_number(t, spent, 3);
	table_number(t, 100 * spent / all, 2);
	table_number(t, n ? exp(logs / n) : NAN, 5);
	table_number(t, n ? quantile(ratio, n, 0.95) : NAN, 4);
	table_number(t, n ? ratio[n - 1] : NAN, 4);
	table_number(t, n ? 100.0 * near / n : NAN, 1);
	table_end_row(t);
	free(ratio);
}

/* ---- baselines ------------------------------------------------------------------------ */

struct baseline {
	int *pick; /* of each problem */
	double *us;
	double spent_s;
	long long cells;
};

/* Measures a cell by itself, with consecutive samples. */
static void visit(const struct simulation *r, struct baseline *b, int problem, int place,
		  int rounds)
{
	const struct record *record = &r->of[problem][place];
	double us[MAX_SAMPLES];
	b->cells++;
	if (!(record->median < INFINITY))
		return;
	for (int i = 0; i < rounds; i++)
		us[i] = simulation_sample(
		    record, simulation_dice(r->c->o->seed + (unsigned)(problem * 4099 + place),
					    (unsigned)i + 77));
	const double middle = median(us, rounds);
	const int calls = graphs_plan(&r->c->protocol, 1, record->median);
	b->spent_s += (rounds * calls + WARM * (1 + calls)) * record->median * 1e-6;
	if (b->pick[problem] < 0 || middle < b->us[problem]) {
		b->pick[problem] = place;
		b->us[problem] = middle;
	}
}

static unsigned common_divisor(unsigned a, unsigned b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* Visits cells of all problems in turn; within a problem from a random place in random strides. */
static void at_random(const struct simulation *r, struct baseline *b, double budget_s)
{
	const struct problems *all = &r->c->problems;
	int more = 1;
	for (unsigned turn = 0; more; turn++) {
		more = 0;
		for (int i = 0; i < all->n && b->spent_s < budget_s; i++) {
			const struct problem *h = &all->v[i];
			if (turn >= (unsigned)h->n)
				continue;
			const unsigned long long roll =
			    simulation_dice(r->c->o->seed + 5, (unsigned)(i + 1));
			unsigned step = 1 + (unsigned)(roll % 1000003) % (unsigned)h->n;
			while (common_divisor(step, (unsigned)h->n) > 1)
				step++;
			visit(r, b, i, (int)((roll + turn * step) % (unsigned)h->n), RANDOM_ROUNDS);
			more = 1;
		}
	}
}

static void one_by_one(const struct simulation *r, struct baseline *b, double budget_s)
{
	for (int i = 0; i < r->c->problems.n; i++)
		for (int k = 0; k < r->c->problems.v[i].n && b->spent_s < budget_s; k++)
			visit(r, b, i, k, EXHAUSTIVE_ROUNDS);
}

static int compare(const struct simulation *r, struct table *t, const char *name, double all,
		   double budget_s,
		   void (*run)(const struct simulation *, struct baseline *, double budget_s))
{
	const size_t n = (size_t)r->c->problems.n + 1;
	struct baseline b = { .pick = malloc(n * sizeof *b.pick), .us = calloc(n, sizeof *b.us) };
	const int ok = b.pick && b.us;
	for (size_t i = 0; ok && i < n; i++)
		b.pick[i] = -1;
	if (ok) {
		run(r, &b, budget_s);
		simulation_score(r, t, name, b.spent_s, all, b.cells, b.pick);
	}
	free(b.pick);
	free(b.us);
	return ok;
}

int simulation_baselines(const struct simulation *r, struct table *t, double all, double spent_s)
{
	return compare(r, t, "random order", all, spent_s, at_random) &&
	       compare(r, t, "one by one", all, spent_s, one_by_one) &&
	       compare(r, t, "one by one, to the end", all, INFINITY, one_by_one);
}
