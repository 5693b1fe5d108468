/* matrix_join.c - for baselines: whether a mixed batch should run in one launch by the prefill choice, or
 * in one launch of each part. */
#include "tuner.h"
#include <math.h>

/* Costs of both ways; 0 when neither was measured. */
static int fill_join(const struct data *d, const struct pick *pick, int scenario, int32_t *cost)
{
	const int whole = pick->prefill;
	double us[2], best;
	if (pick->prefill < 0 || pick->decode < 0)
		return 0;
	for (int join = 0; join < 2; join++) {
		const struct pick p = { .prefill = whole, .decode = pick->decode, .join = join };
		us[join] = data_plan_time(d, scenario, &p);
	}
	if (!data_legal(d, scenario, PHASE_ALL, whole))
		us[0] = us[1]; /* the library then runs both parts */
	else if (!data_cell(d, scenario, PHASE_ALL, whole))
		us[0] = us[1] * (1 + COST_MISSING / 1e6); /* not known: no reason to */
	if (!isfinite(us[1]) && !(data_cell(d, scenario, PHASE_PREFILL, pick->prefill) &&
				  data_cell(d, scenario, PHASE_DECODE, pick->decode)))
		return 0;
	best = fmin(us[0], us[1]);
	for (int join = 0; join < 2; join++)
		cost[join] = !isfinite(us[join])                          ? COST_FORBIDDEN
			     : us[join] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
									  : cost_of(us[join], best);
	return isfinite(best);
}

struct matrix *matrix_join(const struct data *all, const struct pick *picks)
{
	enum { WAYS = 2 };
	struct data first = *all;
	const struct data *d = &first;
	struct matrix *m = matrix_new(d->n, WAYS);
	if (!m)
		return NULL;
	first.pass = PASS_A;
	m->rows = 0;
	for (int c = 0; c < WAYS; c++)
		m->choice[c] = c;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE] ||
		    !fill_join(d, &picks[s], s, &m->cost[m->rows * WAYS]))
			continue;
		m->scenario[m->rows] = s;
		m->fallback[m->rows] = COST_CAP;
		matrix_describe_row(d, m, m->rows++, PHASE_ALL);
	}
	return m;
}
