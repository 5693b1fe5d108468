/* score.c - how far picks are from the oracle. A pick that was not measured or
 * failed counts as infinitely slow: leaving it out would reward it. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void summarize(double *slowdown, int n, struct score *s)
{
	double logs = 0;
	*s = (struct score){ .n = n };
	if (!n)
		return;
	qsort(slowdown, (size_t)n, sizeof *slowdown, by_size);
	for (int i = 0; i < n; i++) {
		logs += log(slowdown[i]);
		s->invalid += !isfinite(slowdown[i]);
		s->within2 += slowdown[i] <= 1.02;
		s->within5 += slowdown[i] <= 1.05;
	}
	s->geomean = exp(logs / n);
	s->p95 = slowdown[(95 * n + 99) / 100 - 1];
	s->worst = slowdown[n - 1];
	s->within2 /= n;
	s->within5 /= n;
}

int score_picks(const struct data *d, const struct pick *picks, const char *split, struct score *s)
{
	double *slowdown = malloc(sizeof *slowdown * (size_t)(d->n + 1));
	int n = 0;
	*s = (struct score){ 0 };
	if (!slowdown)
		return 0;
	for (int i = 0; i < d->n; i++) {
		const double oracle = data_oracle(d, i);
		if ((split && strcmp(d->v[i].split, split)) || !isfinite(oracle))
			continue;
		slowdown[n++] = data_plan_time(d, i, &picks[i]) / oracle;
	}
	summarize(slowdown, n, s);
	free(slowdown);
	return 1;
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

static int split_rank(const char *split)
{
	return !strcmp(split, "train") ? 0 : !strcmp(split, "heldout") ? 1 : 2;
}

static int by_rank(const void *pa, const void *pb)
{
	const char *a = *(const char *const *)pa, *b = *(const char *const *)pb;
	const int d = split_rank(a) - split_rank(b);
	return d ? d : strcmp(a, b);
}

int data_splits(const struct data *d, const char *splits[MAX_SPLITS])
{
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		int i = 0;
		while (i < n && strcmp(splits[i], d->v[s].split))
			i++;
		if (i == n && n < MAX_SPLITS)
			splits[n++] = d->v[s].split;
	}
	qsort(splits, (size_t)n, sizeof *splits, by_rank);
	return n;
}
