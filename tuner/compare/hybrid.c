/* hybrid.c - finds batches of one prompt chunk and many decodes, and their best time by overlap. */
#include "hybrid.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include <math.h>

enum { LEAST_CHUNK = 512, MOST_CHUNK = 2048, LEAST_DECODES = 16 };

const char *const way_names[NUM_WAYS] = {
	"one launch", "one fused kernel", "two streams", "SMs split in two", "tuned choice",
};

static int is_hybrid(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	int chunks = 0;
	if (!m->has[PHASE_PREFILL] || m->part[PHASE_ALL].f.decode_seqs < LEAST_DECODES)
		return 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query <= DECODE_MAX_QUERY)
			continue;
		if (query < LEAST_CHUNK || query > MOST_CHUNK || b->seq_lens[i] <= query)
			return 0;
		chunks++;
	}
	return chunks == 1;
}

/* The latest pass of a scenario's plans; only plans of that pass are compared. */
static enum pass pass_of_plans(const struct data *d, int s)
{
	enum pass pass = PASS_A;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++)
		if (d->plan[i].pass > pass)
			pass = d->plan[i].pass;
	return pass;
}

static double *time_of_plan(struct hybrid *h, const struct data *d, const struct composed *c)
{
	const struct choice *prefill = &d->choice[c->prefill];
	return config_value(&prefill->config, prefill->kernel->space, "SPARE_UNITS", 0)
		   ? &h->us[WAY_SPLIT]
		   : &h->us[WAY_STREAMS];
}

/* Uses times of one pass, against the best serial plan of all its races: a single race may lack a
 * good one. */
static void hybrid_look(const struct data *all, enum pass pass, int s, const struct pick *tuned,
			struct hybrid *h)
{
	struct data of_pass = *all, *d = &of_pass;
	int choice;
	d->pass = pass;
	h->serial = data_serial(d, s);
	for (int i = 0; i < NUM_WAYS; i++)
		h->us[i] = INFINITY;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
		const struct composed *c = &d->plan[i];
		if (c->pass != d->pass || c->how == ATTUNE_SERIAL || c->cell.outcome != OUTCOME_OK)
			continue;
		double *us = time_of_plan(h, d, c);
		*us = fmin(*us, c->cell.median_us);
	}
	struct choice_iter i = choices_of(d, s, PHASE_ALL, PHASE_ALL);
	while (choices_next(&i)) {
		const int fused = d->choice[i.choice].kernel->space->is_fused;
		double *us = &h->us[fused ? WAY_FUSED : WAY_ONE_LAUNCH];
		*us = fmin(*us, cells_time(d, s, &i.cells[0]));
	}
	if (tuned)
		h->us[WAY_TUNED] = data_plan_time(d, s, tuned);
	const double prefill = data_best(d, s, PHASE_PREFILL, &choice);
	const double decode = data_best(d, s, PHASE_DECODE, &choice);
	h->prefill_share = 100 * prefill / (prefill + decode);
}

static int was_compared(const struct hybrid *h)
{
	return isfinite(h->us[WAY_FUSED]) || isfinite(h->us[WAY_STREAMS]) ||
	       isfinite(h->us[WAY_SPLIT]);
}

int hybrid_find(const struct data *d, enum pass pass, int s, const struct pick *tuned,
		struct hybrid *h)
{
	hybrid_look(d, pass, s, tuned, h);
	return is_hybrid(&d->v[s]) && pass == pass_of_plans(d, s) && isfinite(h->serial) &&
	       was_compared(h);
}
