/* SPDX-License-Identifier: Apache-2.0 */
/* elimination.c - decides which contenders of a race to eliminate. It is pure arithmetic on the
 * logarithms of their times, one per contender and round:
 *
 *              round 0    1    2  ...   Drift and clocks are common to a round and cancel in
 *   contender 0    x00  x01  x02        differences within it. Contender i is behind the
 *   contender 1    x10   -   x12        leader l by the centre of x_ik - x_lk over the rounds
 *   ...                                 k that both took.
 *
 * Spread. A few differences do not estimate their own spread well, but all contenders are
 * timed alike. So the pooled spread from one round to the next is the prior of each
 * contender's spread, worth at most PRIOR rounds, as in Smyth (2004), "Linear models and
 * empirical Bayes methods", section 3. Both use the median absolute deviation with the
 * small-sample factors of Croux and Rousseeuw (1992). Bounds use Student's t.
 *
 * Error rate. A contender is beaten if its lower bound is above 0 at 2.6 sigma, with Holm's
 * (1979) correction over the m contenders that are still in: the one furthest behind must be
 * so at 0.5 %/m, the next at 0.5 %/(m-1), ... This covers the choice of the leader by its
 * looks: the true best is lost only if one of m - 1 possible leaders beats it, and each of
 * these comparisons is counted (Hsu 1984, "Constrained simultaneous confidence intervals for
 * multiple comparisons with the best"). Elimination happens after six rounds (2, 3, 6, 12,
 * 24, 48). By the union bound a race loses its best with probability 6 x 0.5 % = 3 %, and then
 * to one nearly as good; t_race.c finds 2 % with equals. Rules valid at any time (confidence
 * sequences, e-values) could test after each round, with wider bounds than six tests need.
 *
 * Stopping. The expected loss of taking the leader is at most the sum over the others of
 * E max(0, -behind): the opportunity cost with the Bonferroni bound of Chick and Inoue (2001).
 * Branke, Chick and Schmidt (2007), "Selecting a selection procedure", compare stopping rules;
 * this one was the best. */
#include "race.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

enum { PRIOR = 6, ENOUGH = 6 /* samples for middle(), else median() */, PASSES = 8 };
static const double error_rate = 0.0047;   /* 2.6 sigma, one-sided */
static const double resolution = 0.001;    /* share of a sample that clocks resolve */
static const double mad_efficiency = 0.37; /* for normal samples, against the deviation */

struct spread {
	double sigma;  /* of one sample, without the part common to its round */
	double rounds; /* its weight as a prior */
};

/* Corrects the bias of the median absolute deviation of n normal samples. */
static double small_sample(int n)
{
	static const double factor[] = {
		0, 1, 1.196, 1.495, 1.363, 1.206, 1.2, 1.14, 1.129, 1.107
	};
	return n < (int)COUNT(factor) ? factor[n] : n / (n - 0.8);
}

/* Spread of the steps from one round to the next, less the median step of all contenders. */
static void pooled_spread(struct spread *all, const double *x, const char *in, int n, int rounds,
			  double *scratch)
{
	double *step = scratch;
	int steps = 0, free = 0;
	for (int k = 1; k < rounds; k++) {
		double *here = step + steps, *sorted = here + n;
		int m = 0;
		for (int i = 0; i < n; i++) {
			const double *t = x + i * COLUMNS + k;
			if (in[i] && !isnan(t[0]) && !isnan(t[-1]))
				here[m++] = t[0] - t[-1];
		}
		for (int i = 0; i < m; i++)
			sorted[i] = here[i];
		const double common = median(sorted, m);
		const double lost = m > 1 ? sqrt(m / (m - 1.0)) : 0;
		for (int i = 0; i < m; i++)
			here[i] = (here[i] - common) * lost;
		steps += m;
		free += m > 1 ? m - 1 : 0;
	}
	*all = (struct spread){ 0 };
	if (!free)
		return;
	all->sigma = mad(step, steps, 0) / sqrt(2);
	all->rounds = fmin(PRIOR, mad_efficiency * free);
}

/* A contender against the leader, over the n rounds that both took. */
struct gap {
	int n;
	double behind, low, high; /* centre; the centres that the two bounds start from */
	double error, freedom;    /* standard error of the centre, and its degrees of freedom */
};

static void gap_to(struct gap *g, const double *mine, const double *theirs, int rounds,
		   const struct spread *all)
{
	double d[MAX_SAMPLES];
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(mine[k]) && !isnan(theirs[k]))
			d[n++] = mine[k] - theirs[k];
	*g = (struct gap){ .n = n, .behind = n < ENOUGH ? median(d, n) : middle(d, n) };
	g->low = g->high = g->behind;
	g->freedom = n ? all->rounds + n - 1 : 0;
	if (!(g->freedom > 0))
		return;
	const double own = n > 1 ? mad(d, n, g->behind) * small_sample(n) : 0;
	const double variance =
	    (all->rounds * 2 * all->sigma * all->sigma + (n - 1) * own * own) / g->freedom;
	/* of a median, sqrt(pi / 2), and of middle(), sqrt(pi / 3), against a mean */
	const double width = n < 3 ? 1 : n < ENOUGH ? 1.2533 : 1.0233;
	g->error = sqrt((variance + resolution * resolution) / n) * width;
	if (n == 2) { /* one of two may be far out: each bound starts from the weaker */
		g->low = fmin(d[0], d[1]);
		g->high = fmax(d[0], d[1]);
		g->error *= sqrt(2);
	}
}

/* The contender with the lowest centre of times, each less its round's median. Contenders with
 * samples in fewer than half of the rounds cannot lead. */
static int find_leader(const double *x, const char *in, int n, int rounds, int control,
		       double *scratch)
{
	double common[MAX_SAMPLES], best = INFINITY;
	int leader = -1, most = 0, have[MAX_SAMPLES];
	for (int k = 0; k < rounds; k++) {
		have[k] = 0;
		for (int i = 0; i < n; i++)
			if (in[i] && !isnan(x[i * COLUMNS + k]))
				scratch[have[k]++] = x[i * COLUMNS + k];
		common[k] = median(scratch, have[k]);
		most += have[k] > 0;
	}
	for (int i = 0; i < n; i++) {
		double own[MAX_SAMPLES];
		int m = 0;
		for (int k = 0; in[i] && i != control && k < rounds; k++)
			if (!isnan(x[i * COLUMNS + k]))
				own[m++] = x[i * COLUMNS + k] - common[k];
		const double centre = m < ENOUGH ? median(own, m) : middle(own, m);
		if (2 * m >= most && centre < best) {
			best = centre;
			leader = i;
		}
	}
	return leader;
}

/* Marks the beaten. z: how many sigmas each is behind; NaN: not tested. */
static void holm(struct score *score, double *z, int n)
{
	int m = 0;
	for (int i = 0; i < n; i++)
		m += !isnan(z[i]);
	for (; m > 0; m--) {
		int worst = -1;
		for (int i = 0; i < n; i++)
			if (!isnan(z[i]) && (worst < 0 || z[i] > z[worst]))
				worst = i;
		if (!(z[worst] > normal_beyond(error_rate / m)))
			return;
		score[worst].beaten = 1;
		z[worst] = NAN;
	}
}

void compare_contenders(struct comparison *r, struct score *score, const double *x, const char *in,
			int n, int rounds, int control, double tie, double *scratch)
{
	const double sigmas = normal_beyond(error_rate);
	struct spread all;
	*r = (struct comparison){ .leader = find_leader(x, in, n, rounds, control, scratch),
				  .tied = 1 };
	pooled_spread(&all, x, in, n, rounds, scratch);
	for (int i = 0; i < n; i++) {
		struct gap g = { 0 };
		score[i] = (struct score){ NAN, NAN, NAN, 0 };
		scratch[i] = NAN;
		if (!in[i] || r->leader < 0)
			continue;
		gap_to(&g, x + i * COLUMNS, x + r->leader * COLUMNS, rounds, &all);
		score[i].behind = g.behind;
		if (i == r->leader)
			score[i] = (struct score){ 0 };
		else if (g.error > 0) {
			const double reach = student_beyond(sigmas, g.freedom) * g.error;
			score[i].low = g.low - reach;
			score[i].high = g.high + reach;
			scratch[i] = student_normal(g.low / g.error, g.freedom);
			r->regret += i == control ? 0 : g.error * normal_loss(scratch[i]);
		}
		r->tied &= i == control || score[i].high < tie;
	}
	holm(score, scratch, n);
}

/* ---- levels ------------------------------------------------------------------- */

static int count_samples(const double *mine, int rounds)
{
	int n = 0;
	for (int k = 0; k < rounds; k++)
		n += !isnan(mine[k]);
	return n;
}

static double own_level(const double *mine, const double *common, int rounds)
{
	double left[MAX_SAMPLES];
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(mine[k]))
			left[n++] = mine[k] - common[k];
	return n < ENOUGH ? median(left, n) : middle(left, n);
}

/* The common part of round k. A contender with one sample is left out: its level fits it. */
static double common_of(const double *x, const double *level, int n, int rounds, int k,
			double *scratch)
{
	int m = 0;
	for (int i = 0; i < n; i++)
		if (!isnan(x[i * COLUMNS + k]) && count_samples(x + i * COLUMNS, rounds) > 1)
			scratch[m++] = x[i * COLUMNS + k] - level[i];
	return m ? median(scratch, m) : 0;
}

/* Median polish of a table with gaps: Tukey (1977), Exploratory Data Analysis, chapter 11. */
void levels(double *level, const double *x, const double *screen, int n, int rounds,
	    double *scratch)
{
	double common[MAX_SAMPLES] = { 0 };
	int m = 0;
	for (int pass = 0; pass <= PASSES; pass++) {
		for (int i = 0; i < n; i++)
			level[i] = own_level(x + i * COLUMNS, common, rounds);
		for (int k = 0; k < rounds && pass < PASSES; k++)
			common[k] = common_of(x, level, n, rounds, k, scratch);
	}
	for (int i = 0; i < n; i++)
		if (!isnan(level[i]) && !isnan(screen[i]))
			scratch[m++] = screen[i] - level[i];
	const double start = m ? median(scratch, m) : 0;
	for (int i = 0; i < n; i++)
		if (isnan(level[i]))
			level[i] = screen[i] - start;
}
