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
static int together(const struct problems *h, int i)
{
	int n = 1;
	while (i + n < h->n && h->v[i + n].scenario == h->v[i].scenario)
		n++;
	return n;
}

/* Moves n problems from `from` to `to`, which lies before. */
static void move_problems(struct problems *h, int from, int to, int n)
{
	struct problem moved[3];
	memcpy(moved, &h->v[from], (size_t)n * sizeof *moved);
	memmove(&h->v[to + n], &h->v[to], (size_t)(from - to) * sizeof *h->v);
	memcpy(&h->v[to], moved, (size_t)n * sizeof *moved);
}

/* A scenario's features are its last problem's: that of the whole batch, if mixed. */
static const struct problem *representative(const struct problems *h, int i)
{
	return &h->v[i + together(h, i) - 1];
}

/* At equal distance the heavier one wins: ten times the weight counts as half a doubling of one
 * feature. */
static double priority(const struct problems *h, int scenario, double near, double mean_weight)
{
	return near + 0.5 * log10((h->scenarios[scenario].weight + 1e-3 * mean_weight) /
				  (mean_weight > 0 ? mean_weight : 1));
}

/* Each scenario that is placed looks at all that are not. No sweep comes far in a list of thousands,
 * so that of such a list the first are placed, and the rest keep their order. */
static int num_placed(const struct problems *h)
{
	enum { LONG_LIST = 4096, PLACED = 512 };
	return h->n > LONG_LIST ? PLACED : h->n;
}

static int is_asked(const struct problems *h, const struct problem *p)
{
	return h->scenarios[p->scenario].asked;
}

/* Moves the scenarios that have such a problem to the front; otherwise the order stays. */
static void move_first(struct problems *h,
		       int (*is)(const struct problems *, const struct problem *))
{
	for (int i = 0, done = 0; i < h->n;) {
		const int n = together(h, i);
		int found = 0;
		for (int k = 0; k < n; k++)
			found |= is(h, &h->v[i + k]);
		if (found) {
			move_problems(h, i, done, n);
			done += n;
		}
		i += n;
	}
}

void problems_spread(struct problems *h)
{
	double *near = malloc((size_t)(h->n + 1) * sizeof *near), mean = 0; /* by scenario */
	int most = 0;
	for (int i = 0; i < h->n; i++) {
		most = h->v[i].scenario > most ? h->v[i].scenario : most;
		mean += h->scenarios[h->v[i].scenario].weight / h->n;
	}
	double *more = near ? realloc(near, (size_t)(most + 1) * sizeof *near) : NULL;
	near = more ? more : near;
	for (int i = 0; more && i <= most; i++)
		near[i] = 1e6;
	const int end = num_placed(h);
	for (int done = 0, next; more && done < end;) {
		double farthest = -INFINITY;
		next = done;
		for (int i = done; i < h->n; i += together(h, i)) {
			const double d =
			    priority(h, h->v[i].scenario, near[h->v[i].scenario], mean);
			if (d > farthest) {
				farthest = d;
				next = i;
			}
		}
		const int n = together(h, next);
		move_problems(h, next, done, n);
		for (int i = done + n; i < h->n; i += together(h, i)) {
			double *its = &near[h->v[i].scenario];
			*its = fmin(*its,
				    problems_apart(representative(h, done), representative(h, i)));
		}
		done += n;
	}
	free(near);
	move_first(h, is_asked);
}

/* Whether it has a time by older sources, and none by today's. */
static int is_stale(const struct problems *all, const struct problem *h)
{
	(void)all;
	for (int k = 0; k < h->n; k++)
		if (!isnan(h->us[k]) && !h->stored[k])
			return 1;
	return 0;
}

void problems_stale_first(struct problems *h)
{
	move_first(h, is_stale);
	move_first(h, is_asked);
}
