/* baseline_overlap.c - how a baseline runs mixed batches: one launch by its prefill choice, part
 * after part, or both parts on two streams. */
#include "policy.h"
#include "tuner/data/data.h"
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
	p.join = way != BASELINE_WHOLE;
	p.how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
	return data_plan_time(d, s, &p);
}

enum baseline_way fastest_way(const struct data *d, const struct pick *picks)
{
	const int ways =
	    d->run.device.backend == BACKEND_CPU ? BASELINE_STREAMS : NUM_BASELINE_WAYS;
	double sum[NUM_BASELINE_WAYS] = { 0 };
	enum baseline_way best = BASELINE_SERIAL;
	for (int s = 0; s < d->n; s++) {
		double us[NUM_BASELINE_WAYS];
		int timed = data_is_training(&d->v[s]) && measured_is_mixed(&d->v[s]) &&
			    picks[s].prefill >= 0 && picks[s].decode >= 0;
		for (int w = 0; timed && w < ways; w++) {
			us[w] = time_of_way(d, &picks[s], s, (enum baseline_way)w);
			timed = isfinite(us[w]);
		}
		for (int w = 0; timed && w < ways; w++)
			sum[w] += log(us[w]);
	}
	for (int w = 0; w < ways; w++)
		if (sum[w] < sum[best])
			best = (enum baseline_way)w;
	return best;
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
