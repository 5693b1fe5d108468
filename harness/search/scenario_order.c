/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_order.c - sorts scenarios so that each is as far as possible from all before it; those
 * that the user named come first. */
#include "harness/scenario/scenario.h"
#include "search.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

double problems_apart(const struct problem *a, const struct problem *b)
{
	double sum = 0;
	for (int i = 0; i < PROBLEM_FEATURES; i++)
		sum += (a->feature[i] - b->feature[i]) * (a->feature[i] - b->feature[i]);
	return sqrt(sum);
}

/* The number of consecutive problems of one scenario, from i on. */
static int together(const struct problems *all, int i)
{
	int n = 1;
	while (i + n < all->n && all->v[i + n].scenario == all->v[i].scenario)
		n++;
	return n;
}

/* Moves n problems from `from` to `to`, which lies before. */
static void move_problems(struct problems *all, int from, int to, int n)
{
	struct problem moved[3];
	memcpy(moved, &all->v[from], (size_t)n * sizeof *moved);
	memmove(&all->v[to + n], &all->v[to], (size_t)(from - to) * sizeof *all->v);
	memcpy(&all->v[to], moved, (size_t)n * sizeof *moved);
}

/* A scenario's features are its last problem's: that of the whole batch, if mixed. */
static const struct problem *representative(const struct problems *all, int i)
{
	return &all->v[i + together(all, i) - 1];
}

/* At equal distance the heavier one wins: ten times the weight counts as half a doubling of one
 * feature. */
static double priority(const struct problems *all, int scenario, double near, double mean_weight)
{
	return near + 0.5 * log10((all->scenarios[scenario].weight + 1e-3 * mean_weight) /
				  (mean_weight > 0 ? mean_weight : 1));
}

/* Each scenario that is placed looks at all that are not. No sweep comes far in a list of thousands,
 * so that of such a list the first are placed, and the rest keep their order. */
static int num_placed(const struct problems *all)
{
	enum { LONG_LIST = 4096, PLACED = 512 };
	return all->n > LONG_LIST ? PLACED : all->n;
}

static int is_asked(const struct problems *all, const struct problem *p)
{
	return all->scenarios[p->scenario].asked;
}

/* Moves the scenarios that have such a problem to the front; otherwise the order stays. */
static void move_first(struct problems *all,
		       int (*is)(const struct problems *, const struct problem *))
{
	for (int i = 0, done = 0; i < all->n;) {
		const int n = together(all, i);
		int found = 0;
		for (int k = 0; k < n; k++)
			found |= is(all, &all->v[i + k]);
		if (found) {
			move_problems(all, i, done, n);
			done += n;
		}
		i += n;
	}
}

void problems_spread(struct problems *all)
{
	double *near = malloc((size_t)(all->n + 1) * sizeof *near), mean = 0; /* by scenario */
	int most = 0;
	for (int i = 0; i < all->n; i++) {
		most = all->v[i].scenario > most ? all->v[i].scenario : most;
		mean += all->scenarios[all->v[i].scenario].weight / all->n;
	}
	double *more = near ? realloc(near, (size_t)(most + 1) * sizeof *near) : NULL;
	near = more ? more : near;
	for (int i = 0; more && i <= most; i++)
		near[i] = 1e6;
	const int end = num_placed(all);
	for (int done = 0, next; more && done < end;) {
		double farthest = -INFINITY;
		next = done;
		for (int i = done; i < all->n; i += together(all, i)) {
			const double d =
			    priority(all, all->v[i].scenario, near[all->v[i].scenario], mean);
			if (d > farthest) {
				farthest = d;
				next = i;
			}
		}
		const int n = together(all, next);
		move_problems(all, next, done, n);
		for (int i = done + n; i < all->n; i += together(all, i)) {
			double *its = &near[all->v[i].scenario];
			*its = fmin(*its, problems_apart(representative(all, done),
							 representative(all, i)));
		}
		done += n;
	}
	free(near);
	move_first(all, is_asked);
}

/* Whether it has a time by older sources, and none by today's. */
static int is_stale(const struct problems *all, const struct problem *problem)
{
	(void)all;
	for (int k = 0; k < problem->n; k++)
		if (!isnan(problem->us[k]) && !problem->stored[k])
			return 1;
	return 0;
}

void problems_stale_first(struct problems *all)
{
	move_first(all, is_stale);
	move_first(all, is_asked);
}
