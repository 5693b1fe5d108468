/* plot_regret.c - the regret picture: how far each policy is from the fastest plan, as a
 * cumulative share of the scenarios of a split. */
#include "plot.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static const enum policy judged[] = { POLICY_TREE,       POLICY_BEST_FIXED, POLICY_VLLM_RULE,
				      POLICY_AITER_RULE, POLICY_NEAREST,    POLICY_GREEDY,
				      POLICY_LABEL,      POLICY_DEFAULT };

static const double LEAST_REGRET = 0.1; /* percent: where the axis begins */
enum { MOST_REGRET = 1000 };

/* Rows "regret in %, share of scenarios with at most that regret". Plans without a time count as
 * infinite regret, so the last share stays below 100. */
static int regret_rows(const struct plotted *p, enum policy policy, int training, FILE *rows)
{
	double *v = malloc((size_t)(p->data->n + 1) * sizeof *v);
	int n = 0, all = 0;
	for (int s = 0; v && p->pick[policy] && s < p->data->n; s++) {
		const double best = data_oracle(p->data, s), us = plotted_time(p, policy, s);
		if (data_side(&p->data->v[s]) != !training || !isfinite(best))
			continue;
		all++;
		if (isfinite(us))
			v[n++] = 100 * (us / best - 1);
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_value);
	for (int i = 0; i < n; i++)
		if (i == n - 1 || v[i + 1] > LEAST_REGRET)
			fprintf(rows, "%g %g\n", v[i], 100.0 * (i + 1) / all);
	if (n)
		fprintf(rows, "%d %g\n", MOST_REGRET, 100.0 * n / all);
	else
		fputs("nan\n", rows);
	fputs("\n\n", rows);
	free(v);
	return n;
}

int series_regret(const struct plotted *p, FILE *rows, FILE *settings)
{
	int filled[2 * COUNT(judged)], counted[2] = { 0 }, printed = 0;
	for (int i = 0; i < (int)COUNT(filled); i++) { /* training, then held out */
		const int training = i < (int)COUNT(judged);
		filled[i] = regret_rows(p, judged[i % (int)COUNT(judged)], training, rows);
		counted[training] = filled[i] > counted[training] ? filled[i] : counted[training];
		printed += filled[i];
	}
	filled_print(settings, filled, (int)COUNT(filled));
	fprintf(settings, "num_train = %d\nnum_heldout = %d\n", counted[1], counted[0]);
	return printed;
}
