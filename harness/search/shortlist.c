/* SPDX-License-Identifier: Apache-2.0 */
/* shortlist.c - selects a problem's candidates to race, by the machine's ceilings, the kernels'
 * formulas and the results of finished neighbours. Choices that differ only in the formula axis are
 * one family: the best value of that axis changes between batches, and formulas predict it. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>

enum {
	NEAREST = 6,      /* finished problems that predict a new one */
	ENOUGH = 16,      /* finished problems of a phase before any candidate is left out */
	OFTEN = 2,        /* wins anywhere that keep a family: one win may be chance */
	ODDS = 32,        /* one candidate in so many runs whatever its prospects */
	FAMILY_ODDS = 10, /* one family in so many, with what its formulas give */
	MANY_FUSED = 40,  /* random fused choices until ENOUGH problems are finished */
	FEW_FUSED = 8,    /* afterwards */
	WHOLE_BEST = 3    /* the prefill part's best, run on a whole batch */
};

/* A family that was within 6 % of the best in a neighbour may be the best here; within 2 % more for
 * each unit of distance to it. */
static const double near_best = 0.06, per_distance = 0.02;
/* A choice is dropped if its lower bound is above the expected best time x this: neighbours predict
 * that time roughly. */
static const double hopeless = 1.5;
/* One unit alone may read memory faster than its equal share. */
static const double unit_share = 3;

/* The promise of a candidate: less runs earlier, INFINITY not at all. From 1 to some 1.2 it is its
 * family's least time / best time in a neighbour. The others rank before, between and behind these;
 * only their order counts. */
static const double is_reference = 0, is_default = 0.5; /* baselines too */
static const double by_chance = 1.04; /* before some others, so that a few do run */
static const double has_won_often = 2, is_open = 3;
static const double beside_formula = 0.5; /* added if no formula gives exactly this choice */
/* Whole batches by one launch: 1 and up for the prefill part's best, from `won_near` up for the
 * winners of neighbours, the nearest first. */
static const double best_of_prefills = 1, fused_near = 4, won_near = 5, fused_by_chance = 6;

/* Found near a best, and never raced: overlooked. */
static const double sure_thing = 1.02;

/* ---- the ceilings --------------------------------------------------------------- */

static double roofline(const struct problems *all, const struct problem *problem, double memory,
		       double math)
{
	double us = 0;
	if (all->dram_gbps > 0)
		us = problem->bytes / (all->dram_gbps * memory) / 1e3;
	if (all->tflops > 0)
		us = fmax(us, problem->flops / (all->tflops * math) / 1e6);
	return us;
}

double problems_roofline(const struct problems *all, const struct problem *problem)
{
	return roofline(all, problem, 1, 1);
}

double problems_bound(const struct problems *all, const struct problem *problem,
		      const struct choice *c)
{
	struct geometry g;
	c->kernel->space->geometry(&c->config, &all->scenarios[problem->scenario].shape,
				   &problem->part, &all->device, &g);
	const double blocks = fmin((double)g.x * g.y * g.z, (double)geometry_items(&g));
	const double busy = fmin(1, blocks / all->device.units);
	return roofline(all, problem, fmin(1, unit_share * busy), busy);
}

/* ---- neighbours ----------------------------------------------------------------- */

struct neighbour {
	const struct problem *problem;
	double apart;
};

/* Lists the NEAREST finished problems of the problem's phase, the nearest first. How many.
 * *finished: the number of all finished ones. */
static int find_nearest(const struct problems *all, const struct problem *problem,
			struct neighbour *out, int *finished)
{
	int n = 0;
	*finished = 0;
	for (int i = 0; i < all->n; i++) {
		const struct problem *o = &all->v[i];
		if (o == problem || !o->finished || o->phase != problem->phase || o->best < 0)
			continue;
		++*finished;
		const double d = problems_apart(o, problem);
		int at = n < NEAREST ? n++ : NEAREST;
		for (; at > 0 && out[at - 1].apart > d; at--)
			if (at < NEAREST)
				out[at] = out[at - 1];
		if (at < NEAREST)
			out[at] = (struct neighbour){ o, d };
	}
	return n;
}

static int family_at(const struct problems *all, const struct problem *problem, int place)
{
	return all->built_choice[problem->built_choice[place]].family;
}

/* Each family's results: its least time / best over the neighbours where it was near the best
 * (INFINITY: none), and its wins over all problems of the phase. */
static void learn(const struct problems *all, const struct problem *problem,
		  const struct neighbour *near, int n, double *promise, int *wins)
{
	for (int f = 0; f < all->num_families; f++)
		promise[f] = INFINITY;
	for (int i = 0; i < n; i++) {
		const struct problem *o = near[i].problem;
		const double limit = 1 + near_best + per_distance * near[i].apart;
		for (int k = 0; k < o->n; k++) {
			const double ratio = o->us[k] / o->us[o->best];
			double *its = &promise[family_at(all, o, k)];
			if (ratio <= limit)
				*its = fmin(*its, ratio);
		}
	}
	for (int i = 0; i < all->n; i++) {
		const struct problem *o = &all->v[i];
		if (o != problem && o->finished && o->phase == problem->phase && o->best >= 0)
			wins[family_at(all, o, o->best)]++;
	}
}

/* The expected best time here, from the neighbours' distance to the roofline. */
static double expected(const struct problems *all, const struct problem *problem,
		       const struct neighbour *near, int n)
{
	double most = 0;
	for (int i = 0; i < n; i++) {
		const struct problem *o = near[i].problem;
		const double least = problems_roofline(all, o);
		most = fmax(most, least > 0 ? o->us[o->best] / least : INFINITY);
	}
	return most > 0 ? most * problems_roofline(all, problem) : INFINITY;
}

/* ---- selection ------------------------------------------------------------------ */

/* Pseudo-random, but reproducible: fixed by scenario and number. */
static unsigned long long draw(const struct problems *all, const struct problem *problem,
			       int number)
{
	const struct scenario *s = &all->scenarios[problem->scenario];
	unsigned long long z = s->seed + (unsigned)problem->phase;
	for (const char *c = s->batch_text; *c; c++)
		z = scramble(z * 31 + (unsigned char)*c);
	return scramble(z * 0x9e3779b97f4a7c15ull + (unsigned)number) >> 20;
}

struct pick {
	double promise;
	int place;
};

static int by_promise(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;
	return x->promise != y->promise ? (x->promise > y->promise) - (x->promise < y->promise)
					: (x->place > y->place) - (x->place < y->place);
}

static int is_given(const struct problems *all, const struct problem *problem, int place)
{
	return !place || all->built_choice[problem->built_choice[place]].origin <= FROM_BASELINE;
}

static void weigh(const struct problems *all, const struct problem *problem,
		  const struct neighbour *near, int n, int open, struct pick *pick)
{
	double *promise = malloc((size_t)(all->num_families + 1) * sizeof *promise);
	int *wins = calloc((size_t)all->num_families + 1, sizeof *wins);
	const double best = expected(all, problem, near, n);
	if (promise && wins)
		learn(all, problem, near, n, promise, wins);
	for (int i = 0; i < problem->n; i++) {
		const int f = family_at(all, problem, i);
		const struct choice *c = &all->built_choice[problem->built_choice[i]].choice;
		pick[i] = (struct pick){ INFINITY, i };
		if (is_given(all, problem, i) || !promise || !wins)
			pick[i].promise = i ? is_default : is_reference;
		else if (draw(all, problem, i) % ODDS == 0 ||
			 (problem->near[i] >= 2 && draw(all, problem, -1 - f) % FAMILY_ODDS == 0))
			pick[i].promise = by_chance;
		else if (!problem->near[i])
			continue;
		else if (open)
			pick[i].promise = is_open;
		else if (problems_bound(all, problem, c) > hopeless * best)
			continue;
		else if (promise[f] < INFINITY)
			pick[i].promise = promise[f];
		else if (wins[f] >= OFTEN)
			pick[i].promise = has_won_often;
		if (i && problem->near[i] == 1 && pick[i].promise != by_chance)
			pick[i].promise += beside_formula;
	}
	free(promise);
	free(wins);
}

static int is_fused(const struct problems *all, const struct problem *problem, int place)
{
	return all->built_choice[problem->built_choice[place]].choice.kernel->space->is_fused;
}

/* The least time of a fused kernel; INFINITY: none ran. */
static double best_fused(const struct problems *all, const struct problem *problem)
{
	double best = INFINITY;
	for (int i = 0; i < problem->n; i++)
		if (is_fused(all, problem, i) && problem->us[i] < best)
			best = problem->us[i];
	return best;
}

/* Fused kernels run only on whole batches, and are compared among themselves: the defaults, those
 * near their best in neighbours, and some random ones, more while few problems are finished. */
static void weigh_fused(const struct problems *all, const struct problem *problem,
			const struct neighbour *near, int n, int open, struct pick *pick)
{
	int fused = 0;
	for (int i = 0; i < problem->n; i++)
		fused += is_fused(all, problem, i);
	const unsigned odds = 1 + (unsigned)fused / (open ? MANY_FUSED : FEW_FUSED);
	for (int i = 0; i < problem->n; i++) {
		if (!is_fused(all, problem, i))
			continue;
		if (is_given(all, problem, i))
			pick[i].promise = is_default;
		else if (draw(all, problem, i) % odds == 0)
			pick[i].promise = fused_by_chance;
	}
	for (int k = 0; k < n; k++) {
		const struct problem *o = near[k].problem;
		const double limit = best_fused(all, o) * (1 + near_best);
		for (int i = 0; i < o->n; i++) {
			if (!is_fused(all, o, i) || !(o->us[i] <= limit))
				continue;
			const int place = problems_place(
			    all, problem, &all->built_choice[o->built_choice[i]].choice);
			if (place >= 0)
				pick[place].promise = fmin(pick[place].promise, fused_near);
		}
	}
}

/* Whether a choice is of a plug-in that runs mixed batches, but not their prefills alone. */
static int is_whole_plugin(const struct problems *all, const struct problem *problem,
			   const struct problem *prefill, int i)
{
	const struct kernel *k = all->built_choice[problem->built_choice[i]].choice.kernel;
	for (int j = 0; k->plugin && prefill && j < prefill->n; j++)
		if (all->built_choice[prefill->built_choice[j]].choice.kernel == k)
			return 0;
	return k->plugin != NULL;
}

/* One launch over a whole mixed batch seldom wins, except by a fused kernel. So only the default,
 * the prefill part's best, plug-ins that have no part to be judged by or that raced in another
 * version, and earlier winners race. */
static void weigh_whole(const struct problems *all, const struct problem *problem,
			const struct neighbour *near, int n, struct pick *pick)
{
	const struct problem *prefill = problems_find(all, problem->scenario, PHASE_PREFILL);
	for (int i = 0; i < problem->n; i++)
		pick[i] =
		    (struct pick){ i && !is_whole_plugin(all, problem, prefill, i) ? INFINITY : 0,
				   i };
	for (int k = 0; prefill && k < WHOLE_BEST; k++) {
		int best = -1, place;
		for (int i = 0; i < prefill->n; i++) {
			place = prefill->us[i] < INFINITY
				    ? problems_place(
					  all, problem,
					  &all->built_choice[prefill->built_choice[i]].choice)
				    : -1;
			if (place >= 0 && isinf(pick[place].promise) &&
			    (best < 0 || prefill->us[i] < prefill->us[best]))
				best = i;
		}
		place =
		    best < 0
			? -1
			: problems_place(all, problem,
					 &all->built_choice[prefill->built_choice[best]].choice);
		if (place >= 0)
			pick[place].promise = best_of_prefills + k;
	}
	for (int k = 0; k < n; k++) {
		const struct problem *o = near[k].problem;
		const int place = problems_place(
		    all, problem, &all->built_choice[o->built_choice[o->best]].choice);
		if (place >= 0)
			pick[place].promise = fmin(pick[place].promise, won_near + k);
	}
	for (int i = 0; i < problem->n; i++)
		if (problem_has_other_version(all, problem, i))
			pick[i].promise = fmin(pick[i].promise, won_near);
}

int problems_shortlist(const struct problems *all, const struct problem *problem, int everyone,
		       int *out)
{
	struct neighbour near[NEAREST];
	int finished, kept = 0;
	const int n = find_nearest(all, problem, near, &finished);
	struct pick *pick = calloc((size_t)problem->n + 1, sizeof *pick);
	if (pick && everyone)
		for (int i = 0; i < problem->n; i++)
			pick[i].place = i;
	else if (pick && problem->phase == PHASE_ALL) {
		weigh_whole(all, problem, near, n, pick);
		weigh_fused(all, problem, near, n, finished < ENOUGH, pick);
	} else if (pick)
		weigh(all, problem, near, n, finished < ENOUGH, pick);
	if (pick)
		qsort(pick, (size_t)problem->n, sizeof *pick, by_promise);
	for (int i = 0; pick && i < problem->n; i++)
		if (pick[i].promise < INFINITY)
			out[kept++] = pick[i].place;
	free(pick);
	return kept;
}

/* ---- a portfolio's choices in a problem ---------------------------------------------- */

static int add_place(int *out, int n, int place)
{
	for (int i = 0; i < n; i++)
		if (out[i] == place)
			return n;
	out[n] = place;
	return n + (place >= 0);
}

int problems_resolve(const struct problems *all, const struct problem *problem, const char *family,
		     int *out)
{
	const attune_shape *s = &all->scenarios[problem->scenario].shape;
	int n = 0;
	for (int f = 0; f < all->num_families; f++) {
		struct choice c = all->family[f], asked = c;
		const struct space *space = c.kernel->space;
		if (!family[f])
			continue;
		if (space->formula_axis < 0)
			n = add_place(out, n, problems_place(all, problem, &c));
		for (int i = 0; space->formula_axis >= 0 && i < space->num_formulas; i++) {
			asked.config.v[space->formula_axis] = -1 - i;
			if (!config_resolve(&c.config, &asked.config, c.kernel, s, &problem->part,
					    &all->device))
				n = add_place(out, n, problems_place(all, problem, &c));
		}
	}
	return n;
}

int problems_overlooked(const struct problems *all, const struct problem *problem)
{
	struct neighbour near[NEAREST];
	int finished, n = find_nearest(all, problem, near, &finished), found = 0;
	struct pick *pick = calloc((size_t)problem->n + 1, sizeof *pick);
	if (pick)
		weigh(all, problem, near, n, finished < ENOUGH, pick);
	for (int i = 0; pick && i < problem->n; i++)
		found +=
		    pick[i].promise <= sure_thing && pick[i].promise >= 1 && isnan(problem->us[i]);
	free(pick);
	return found;
}

int problems_disputed(const struct problems *all, const struct problem *problem)
{
	struct neighbour near[NEAREST];
	int finished, families = 0;
	const int n = find_nearest(all, problem, near, &finished);
	for (int i = 0; i < n; i++) {
		const int f = family_at(all, near[i].problem, near[i].problem->best);
		int again = 0;
		for (int j = 0; j < i; j++)
			again |= family_at(all, near[j].problem, near[j].problem->best) == f;
		families += !again;
	}
	return n == NEAREST && families == NEAREST;
}
