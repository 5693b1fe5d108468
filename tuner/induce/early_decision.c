/* SPDX-License-Identifier: Apache-2.0 */
/* early_decision.c - learns the value of the early axis for launches that may begin early. One tree
 * serves all choices with that axis, by the features of the part.
 *
 *   cost of a value = time with it / time of the same choice in turn, both of one race
 *
 * A row is a part and a choice; the choice's own speed cancels out. A leaf takes 0, in turn, where
 * nothing is faster. It never takes a value that failed in one of its rows. */
#include "early_decision.h"
#include "induce.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>

enum { MOST_LEAVES = 8 };
/* Minimum support: max(LEAST, rows / LEAST_SHARE). */
enum { LEAST_SHARE = 10, LEAST = 3 };

/* ---- costs ---------------------------------------------------------------------------- */
/* 0: only value 0 has a time. */
static int fill_row(const struct data *d, const struct early_launch *p,
		    int32_t cost[MOST_EARLY + 1])
{
	double ratio[MOST_EARLY + 1], best = 1;
	int others = 0;
	for (int v = 0; v <= MOST_EARLY; v++) {
		ratio[v] = v ? early_part_ratio(d, p->scenario, p->phase, p->choice, v) : 1;
		others += v && !isnan(ratio[v]);
		best = fmin(best, ratio[v]);
	}
	for (int v = 0; v <= MOST_EARLY; v++)
		cost[v] = isnan(ratio[v])                              ? COST_FORBIDDEN
			  : ratio[v] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
								       : cost_of(ratio[v], best);
	return others;
}

/* Training rows: one for each part and choice measured in pass E. Columns are values of the early
 * axis. */
static struct matrix *matrix_early(const struct data *d)
{
	struct matrix *m = matrix_new(d->num_early, MOST_EARLY + 1);
	if (m)
		m->rows = 0;
	for (int v = 0; m && v <= MOST_EARLY; v++)
		m->choice[v] = v;
	for (int i = 0; m && i < d->num_early; i++) {
		const struct early_launch *p = &d->early_launch[i];
		int32_t *cost = &m->cost[m->rows * m->cols];
		if (p->value || !data_is_training(&d->v[p->scenario]) || !fill_row(d, p, cost))
			continue;
		m->scenario[m->rows] = p->scenario;
		m->fallback[m->rows] = cost[0];
		matrix_describe_row(d, m, m->rows++, p->phase);
	}
	return m;
}

/* ---- the tree ------------------------------------------------------------------------- */
int fit_early(struct forest *f, const struct data *d, int leaves)
{
	struct tree *t = &f->tree[DECIDE_EARLY];
	struct matrix *m = matrix_early(d);
	const int least = m && m->rows / LEAST_SHARE > LEAST ? m->rows / LEAST_SHARE : LEAST;
	const struct growth how = { .max_leaves = leaves < MOST_LEAVES ? leaves : MOST_LEAVES,
				    .min_support = least };
	int done = m != NULL;
	if (done && !m->rows)
		done = tree_constant(t, SAYS_OWN);
	else if (done)
		done = tree_fit(t, m, &how) && leaves_describe(t, m);
	for (int i = 0; done && i < t->n; i++)
		if (t->v[i].action <= 0)
			t->v[i].remark = REMARK_NONE;
	matrix_free(m);
	return done;
}
