/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - the slowdown of picks against the oracle, over scenarios measured on the GPU itself. A
 * pick that was not measured or failed counts as infinitely slow: leaving it out would reward it.
 * Of a baseline such picks may be left out (score_where): that is to the baseline's favour.
 * A pick without a pass B time can look faster than the oracle of pass B; it then counts as equal
 * to the oracle, and as unconfirmed. */
#include "harness/base/base.h"
#include "eval.h"
#include "harness/scratch/scratch.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 1000 };

struct judged { /* a scenario with the slowdown of its pick */
	double slowdown, us, oracle_us, weight;
	const char *model;
	int size; /* power of two of its sequences */
	int is_unconfirmed;
};

static int by_slowdown(const void *a, const void *b)
{
	const double x = ((const struct judged *)a)->slowdown;
	const double y = ((const struct judged *)b)->slowdown;
	return (x > y) - (x < y);
}

static int by_model_and_size(const void *pa, const void *pb)
{
	const struct judged *a = pa, *b = pb;
	const int d = strcmp(a->model, b->model);
	return d ? d : a->size - b->size;
}

/* ---- bootstrap over blocks (Davison and Hinkley, Bootstrap Methods, 1997, 3.8) -------- */
struct block {
	double logs;
	int n;
};

static int make_blocks(const struct scratch_pair *v, int n, struct block *block)
{
	int blocks = 0;
	for (int i = 0; i < n; i++) {
		if (!i || v[i].group != v[i - 1].group)
			block[blocks++] = (struct block){ 0 };
		block[blocks - 1].logs += log(v[i].value);
		block[blocks - 1].n++;
	}
	return blocks;
}

static int by_block(const void *pa, const void *pb)
{
	const struct scratch_pair *a = pa, *b = pb;
	return a->group != b->group ? (a->group > b->group) - (a->group < b->group)
				    : by_double(&a->value, &b->value);
}

int blocked_interval(struct scratch_pair *v, int n, double *low, double *high)
{
	struct block *block = malloc(sizeof *block * (size_t)n);
	double mean[RESAMPLES];
	unsigned long long state = 1;
	qsort(v, (size_t)n, sizeof *v, by_block);
	const int blocks = block ? make_blocks(v, n, block) : 0;
	for (int r = 0; blocks && r < RESAMPLES; r++) {
		struct block sum = { 0 };
		for (int i = 0; i < blocks; i++) {
			const struct block *b = &block[random_bits(&state) % (unsigned)blocks];
			sum.logs += b->logs;
			sum.n += b->n;
		}
		mean[r] = sum.logs / sum.n;
	}
	if (blocks) {
		qsort(mean, RESAMPLES, sizeof *mean, by_double);
		*low = exp(mean[RESAMPLES / 40]);
		*high = exp(mean[RESAMPLES - 1 - RESAMPLES / 40]);
	}
	free(block);
	return blocks > 0;
}

/* v: all finite. */
static int interval(struct judged *v, int n, struct score *s)
{
	struct scratch_pair *sample = malloc(sizeof *sample * (size_t)n);
	qsort(v, (size_t)n, sizeof *v, by_model_and_size);
	for (int i = 0; sample && i < n; i++) {
		const int is_next = i && by_model_and_size(&v[i - 1], &v[i]);
		sample[i] =
		    (struct scratch_pair){ v[i].slowdown, i ? sample[i - 1].group + is_next : 0 };
	}
	const int done = sample && blocked_interval(sample, n, &s->low, &s->high);
	free(sample);
	return done;
}

/* ---- one split ------------------------------------------------------------------------ */
/* v: sorted by slowdown, n of them finite. */
static struct with_time time_of(const struct judged *v, int n)
{
	double logs = 0;
	if (!n)
		return (struct with_time){ NAN, NAN, NAN };
	for (int i = 0; i < n; i++)
		logs += log(v[i].slowdown);
	return (struct with_time){ exp(logs / n), v[(95 * n + 99) / 100 - 1].slowdown,
				   v[n - 1].slowdown };
}

static int summarize(struct judged *v, int n, struct score *s)
{
	double us = 0, oracle = 0;
	int infinite = 0;
	if (!n) {
		s->geomean = s->p95 = s->worst = s->low = s->high = s->time_weighted = NAN;
		s->timed = time_of(v, 0);
		return 1;
	}
	qsort(v, (size_t)n, sizeof *v, by_slowdown);
	for (int i = 0; i < n; i++) {
		us += v[i].weight * v[i].us;
		oracle += v[i].weight * v[i].oracle_us;
		infinite += !isfinite(v[i].slowdown);
		s->unconfirmed += v[i].is_unconfirmed;
		s->within2 += v[i].slowdown <= 1.02;
		s->within5 += v[i].slowdown <= 1.05;
		s->beyond20 += v[i].slowdown > 1.2 && isfinite(v[i].slowdown);
	}
	s->timed = time_of(v, n - infinite);
	s->geomean = infinite ? INFINITY : s->timed.geomean;
	s->p95 = v[(95 * n + 99) / 100 - 1].slowdown;
	s->worst = v[n - 1].slowdown;
	s->within2 /= n;
	s->within5 /= n;
	s->time_weighted = infinite ? INFINITY : us / oracle;
	s->low = s->high = INFINITY;
	if (infinite)
		return 1;
	return interval(v, n, s);
}

int score_where(const struct data *d, const struct pick *picks, const struct pick *where,
		const char *split, struct score *s)
{
	struct judged *v = malloc(sizeof *v * (size_t)(d->n + 1));
	int n = 0, done;
	*s = (struct score){ 0 };
	if (!v)
		return 0;
	for (int i = 0; i < d->n; i++) {
		const struct measured *m = &d->v[i];
		if (!in_split(m, split))
			continue;
		const double oracle = data_oracle(d, i), us = data_plan_time(d, i, &picks[i]);
		const int is_right = isfinite(us) && isfinite(oracle);
		s->n++;
		s->second_pass += data_has_second_pass(d, i);
		s->invalid += !is_right;
		if (where && !(isfinite(oracle) && isfinite(data_plan_time(d, i, &where[i]))))
			continue;
		v[n++] = (struct judged){
			.slowdown = is_right ? fmax(us / oracle, 1) : INFINITY,
			.us = us,
			.oracle_us = oracle,
			.weight = m->weight,
			.model = m->model,
			.size = floor_log2(m->part[PHASE_ALL].f.num_seqs),
			.is_unconfirmed = isfinite(us) && !data_confirmed(d, i, &picks[i]),
		};
	}
	done = summarize(v, n, s);
	free(v);
	return done;
}

int score_picks(const struct data *d, const struct pick *picks, const char *split, struct score *s)
{
	return score_where(d, picks, NULL, split, s);
}

int score_policy(const struct data *d, enum policy policy, const struct forest *f,
		 const char *split, struct score *s)
{
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	const int done =
	    picks && policy_picks(d, policy, f, picks) && score_picks(d, picks, split, s);
	free(picks);
	return done;
}
