/* SPDX-License-Identifier: Apache-2.0 */
/* portfolio.c - selects the portfolio: the few families of choices that are measured on all
 * scenarios of a phase. Candidates of races differ between scenarios and so leave gaps, but a
 * heuristic may only choose what was measured everywhere. A family's member is chosen by a formula
 * or by the heuristic. The portfolio has
 *
 *   - greedily, as in a set cover, families that together come nearest to the fastest choice of
 *     every problem (a gap counts as no help);
 *   - then those most often within 2 % of the fastest;
 *   - for whole batches also the prefill part's, which one launch over the whole batch runs.
 *
 * Held-out scenarios do not count. */
#include "search.h"
#include "harness/scenario/scenario.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PORTFOLIO = 12 /* families a phase */, PORTFOLIO_WHOLE = 3 };
static const double near_best = 0.02, no_help = 1.4; /* log units: no_help is 4 x */

/* The costs of families in the problems of a phase: cost[family][problem] = log(time of its best
 * member / fastest), NaN if not known. */
struct grid {
	const struct problems *problems;
	int n, rows;
	double *cost;
};

static void fill_row(struct grid *g, const struct problem *problem, int row)
{
	for (int i = 0; i < g->n; i++)
		g->cost[(size_t)i * (size_t)g->problems->n + (size_t)row] = NAN;
	for (int k = 0; k < problem->n; k++) {
		const int family = g->problems->built_choice[problem->built_choice[k]].family;
		double *its = &g->cost[(size_t)family * (size_t)g->problems->n + (size_t)row];
		if (problem->us[k] > 0) /* NaN: not measured */
			*its = fmin(*its, log(problem->us[k] / problem->us[problem->best]));
	}
}

static int grid_make(struct grid *g, const struct problems *problems, enum phase phase)
{
	*g = (struct grid){ .problems = problems, .n = problems->num_families };
	g->cost = calloc(((size_t)g->n + 1) * (size_t)problems->n, sizeof *g->cost);
	for (int i = 0; g->cost && i < problems->n; i++)
		if (problems->v[i].phase == phase && problems->v[i].finished &&
		    problems->v[i].best >= 0 &&
		    !split_is_held_out(problems->scenarios[problems->v[i].scenario].split))
			fill_row(g, &problems->v[i], g->rows++);
	return g->cost != NULL;
}

static void grid_free(struct grid *g)
{
	free(g->cost);
}

static const double *costs(const struct grid *g, int family)
{
	return g->cost + (size_t)family * (size_t)g->problems->n;
}

/* Adds the family that helps most; 0 when none helps by 0.05 % on average. */
static int add_greedily(const struct grid *g, char *in, double *now)
{
	int best = -1;
	double most = 5e-4 * g->rows;
	for (int i = 0; i < g->n; i++) {
		double gain = 0;
		for (int r = 0; r < g->rows && !in[i]; r++)
			if (costs(g, i)[r] < now[r])
				gain += now[r] - costs(g, i)[r];
		if (gain > most)
			most = gain, best = i;
	}
	if (best < 0)
		return 0;
	in[best] = 1;
	for (int r = 0; r < g->rows; r++)
		now[r] = fmin(now[r], costs(g, best)[r]);
	return 1;
}

/* Adds the family most often near the fastest; 0 if none is so at least twice. */
static int add_frequent(const struct grid *g, char *in)
{
	int best = -1, most = 1;
	for (int i = 0; i < g->n; i++) {
		int times = 0;
		for (int r = 0; r < g->rows && !in[i]; r++)
			times += costs(g, i)[r] <= near_best;
		if (times > most)
			most = times, best = i;
	}
	if (best >= 0)
		in[best] = 1;
	return best >= 0;
}

static int add_phase(const struct problems *problems, enum phase phase, int most, char *family)
{
	struct grid g;
	int ok = grid_make(&g, problems, phase), n = 0;
	double *now = calloc((size_t)problems->n + 1, sizeof *now);
	char *in = calloc((size_t)problems->num_families + 1, 1);
	ok = ok && now && in;
	for (int r = 0; ok && r < g.rows; r++)
		now[r] = no_help;
	while (ok && n < most && add_greedily(&g, in, now))
		n++;
	while (ok && n < most && add_frequent(&g, in))
		n++;
	for (int f = 0; ok && f < g.n; f++)
		family[f] |= in[f];
	free(now);
	free(in);
	grid_free(&g);
	return ok;
}

int stages_portfolio(const struct problems *problems, enum phase phase, char *family)
{
	const int most = phase == PHASE_ALL ? PORTFOLIO_WHOLE : PORTFOLIO;
	memset(family, 0, (size_t)problems->num_families);
	if (phase == PHASE_ALL && !add_phase(problems, PHASE_PREFILL, most, family))
		return 0;
	return add_phase(problems, phase, most, family);
}
