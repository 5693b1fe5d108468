/* early.c - the early decision: with which value of its early axis a choice is launched where
 * the caller lets it begin early. One tree for all choices that have such an axis, asked by
 * the features of the part.
 *
 *   cost of a value = time with it / time of the same choice in turn, both of one race
 *
 * So a row is a part and a choice, and how fast the choice is does not matter to it. Where
 * in turn is as fast as any, a leaf says 0. What failed in a row no leaf over it may say. */
#include "early.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LEAVES = 8, MAX_DEPTH = 4 };
/* A leaf may lose that share for fewer values. */
#define ENOUGH 0.005
/* A leaf has one in so many of the rows, or three. */
enum { LEAST_SHARE = 10, LEAST = 3 };

/* ---- what was measured ---------------------------------------------------------------- */
static int by_place(const void *x, const void *y)
{
	const struct pace *a = x, *b = y;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	return (a->choice > b->choice) - (a->choice < b->choice);
}

struct pace *paces_of(const struct data *d, int *n)
{
	struct pace *v = malloc(sizeof *v * ((size_t)d->num_paced + 1));
	*n = 0;
	for (int i = 0; v && i < d->num_paced; i++) {
		const struct paced *p = &d->paced[i];
		v[i] = (struct pace){ p->scenario, p->choice, p->phase };
	}
	if (v && d->num_paced)
		qsort(v, (size_t)d->num_paced, sizeof *v, by_place);
	for (int i = 0; v && i < d->num_paced; i++)
		if (!*n || by_place(&v[*n - 1], &v[i]))
			v[(*n)++] = v[i];
	return v;
}

/* The first of that scenario and phase, or of those behind them. */
static int first_paced(const struct data *d, int scenario, enum phase phase)
{
	int lo = 0, hi = d->num_paced;
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;
		const struct paced *at = &d->paced[mid];
		if (at->scenario < scenario || (at->scenario == scenario && at->phase < phase))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int is_paced(const struct data *d, int i, int scenario, enum phase phase)
{
	return i < d->num_paced && d->paced[i].scenario == scenario && d->paced[i].phase == phase;
}

static const struct cell *cell_with(const struct data *d, const struct pace *p, int value)
{
	const int first = first_paced(d, p->scenario, p->phase);
	for (int i = first; is_paced(d, i, p->scenario, p->phase); i++)
		if (d->paced[i].choice == p->choice && d->paced[i].value == value)
			return &d->paced[i].cell;
	return NULL;
}

double pace_ratio(const struct data *d, const struct pace *p, int value)
{
	const struct cell *turn = cell_with(d, p, 0), *early = cell_with(d, p, value);
	if (!turn || !early || turn->outcome != OUTCOME_OK || early->outcome != OUTCOME_OK ||
	    turn->race != early->race)
		return NAN;
	return turn->ratio > 0 && early->ratio > 0 ? early->ratio / turn->ratio
						   : early->median_us / turn->median_us;
}

double early_ratio(const struct data *d, int scenario, enum phase phase, int value)
{
	double logs = 0;
	int n = 0;
	for (int i = first_paced(d, scenario, phase); is_paced(d, i, scenario, phase); i++) {
		const struct paced *at = &d->paced[i];
		const struct pace p = { scenario, at->choice, phase };
		if (at->value != (value ? value : at->value))
			continue;
		const double ratio = pace_ratio(d, &p, value);
		if (isnan(ratio))
			continue;
		logs += log(ratio);
		n++;
	}
	return n ? exp(logs / n) : NAN;
}

/* ---- costs ---------------------------------------------------------------------------- */
/* 0: no value but 0 has a time. */
static int fill_row(const struct data *d, const struct pace *p, int32_t cost[MOST_EARLY + 1])
{
	double ratio[MOST_EARLY + 1], best = 1;
	int others = 0;
	for (int v = 0; v <= MOST_EARLY; v++) {
		ratio[v] = v ? pace_ratio(d, p, v) : 1;
		others += v && !isnan(ratio[v]);
		best = fmin(best, ratio[v]);
	}
	for (int v = 0; v <= MOST_EARLY; v++)
		cost[v] = isnan(ratio[v])                              ? COST_FORBIDDEN
			  : ratio[v] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
								       : cost_of(ratio[v], best);
	return others;
}

struct matrix *matrix_early(const struct data *d)
{
	int n;
	struct pace *p = paces_of(d, &n);
	struct matrix *m = p ? matrix_new(n, MOST_EARLY + 1) : NULL;
	if (m)
		m->rows = 0;
	for (int v = 0; m && v <= MOST_EARLY; v++)
		m->choice[v] = v;
	for (int i = 0; m && i < n; i++) {
		int32_t *cost = &m->cost[m->rows * m->cols];
		if (!data_is_training(&d->v[p[i].scenario]) || !fill_row(d, &p[i], cost))
			continue;
		m->scenario[m->rows] = p[i].scenario;
		m->fallback[m->rows] = cost[0];
		matrix_describe_row(d, m, m->rows++, p[i].phase);
	}
	free(p);
	return m;
}

/* ---- the tree ------------------------------------------------------------------------- */
int fit_early(struct forest *f, const struct data *d, int leaves)
{
	struct tree *t = &f->tree[DECIDE_EARLY];
	struct matrix *m = matrix_early(d);
	const int least = m && m->rows / LEAST_SHARE > LEAST ? m->rows / LEAST_SHARE : LEAST;
	const struct growth how = { .max_leaves = leaves < MOST_LEAVES ? leaves : MOST_LEAVES,
				    .max_depth = MAX_DEPTH,
				    .min_support = least,
				    .rule = SIZE_FEWEST };
	int done = m != NULL;
	if (done && !m->rows)
		done = tree_constant(t, SAYS_OWN);
	else if (done)
		done = tree_fit(t, m, &how) && tree_relabel(t, m, ENOUGH, NULL) && tree_tidy(t) &&
		       leaves_describe(t, m);
	for (int i = 0; done && i < t->n; i++)
		if (t->v[i].action <= 0)
			t->v[i].remark = REMARK_NONE;
	matrix_free(m);
	return done;
}

int forest_says_early(const struct forest *f)
{
	const struct node *root = &f->tree[DECIDE_EARLY].v[0];
	return root->feature >= 0 || root->action != SAYS_OWN;
}

int forest_decisions(const struct forest *f)
{
	return forest_says_early(f) ? NUM_DECISIONS : DECIDE_EARLY;
}

int forest_early(const struct forest *f, const struct attune_features *x)
{
	const struct tree *t = &f->tree[DECIDE_EARLY];
	const int says = t->v[tree_leaf(t, x)].action;
	return says == SAYS_OWN ? 0 : says;
}
