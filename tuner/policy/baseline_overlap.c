/* baseline_overlap.c - the costs of a baseline's mixed batches in each way: one launch by its
 * prefill choice, part after part, or both parts on two streams. */
#include "policy.h"
#include "tuner/matrix/matrix.h"
#include <math.h>

static double time_of_way(const struct data *d, const struct pick *pick, int s,
			  enum baseline_way way)
{
	const int whole = pick->prefill;
	struct pick p = { .prefill = whole, .decode = pick->decode, .join = 1 };
	const double serial = data_plan_time(d, s, &p);
	if (way == BASELINE_SERIAL)
		return serial;
	if (way == BASELINE_WHOLE && !data_legal(d, s, PHASE_ALL, whole))
		return serial; /* the library then runs both parts */
	if (way == BASELINE_WHOLE && !data_cell(d, s, PHASE_ALL, whole))
		return serial * (1 + COST_MISSING / 1e6); /* not measured: never preferred */
	p.join = way != BASELINE_WHOLE;
	p.how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
	return data_plan_time(d, s, &p);
}

/* Costs of the ways; 0 when none was measured. */
static int fill_ways(const struct data *d, const struct pick *pick, int s, int ways, int32_t *cost)
{
	double us[NUM_BASELINE_WAYS], best = INFINITY;
	if (pick->prefill < 0 || pick->decode < 0)
		return 0;
	for (int w = 0; w < ways; w++) {
		us[w] = time_of_way(d, pick, s, (enum baseline_way)w);
		best = fmin(best, us[w]);
	}
	if (!isfinite(us[BASELINE_SERIAL]) && !(data_cell(d, s, PHASE_PREFILL, pick->prefill) &&
						data_cell(d, s, PHASE_DECODE, pick->decode)))
		return 0;
	for (int w = 0; w < ways; w++)
		cost[w] = !isfinite(us[w])                          ? COST_FORBIDDEN
			  : us[w] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
								    : cost_of(us[w], best);
	return isfinite(best);
}

struct matrix *matrix_ways(const struct data *all, const struct pick *picks)
{
	const int ways =
	    all->run.device.backend == BACKEND_CPU ? BASELINE_STREAMS : NUM_BASELINE_WAYS;
	struct data first = *all;
	const struct data *d = &first;
	struct matrix *m = matrix_new(d->n, ways);
	if (!m)
		return NULL;
	first.pass = PASS_A;
	m->rows = 0;
	for (int w = 0; w < ways; w++)
		m->choice[w] = w;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE] ||
		    !fill_ways(d, &picks[s], s, ways, &m->cost[m->rows * ways]))
			continue;
		m->scenario[m->rows] = s;
		m->fallback[m->rows] = COST_CAP;
		matrix_describe_row(d, m, m->rows++, PHASE_ALL);
	}
	return m;
}

void decided_in_way(const struct data *d, const struct measured *m, enum baseline_way way,
		    struct decided *out)
{
	struct choice whole;
	if (!out->prefill.kernel || !out->decode.kernel)
		return;
	out->join = way != BASELINE_WHOLE || !decided_legal(d, m, PHASE_ALL, &out->prefill, &whole);
	out->how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
}
