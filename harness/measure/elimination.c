/* elimination.c - who is out of a race. Pure arithmetic on logarithms of times, of which one of
 * each contender belongs to one round:
 *
 *             round 0   1   2   ...       What all have in common in a round, drift and
 *   contender 0    x00  x01  x02              clocks, cancels in differences within it: contender
 *   contender 1    x10   -   x12              i is behind the leader l by the centre of
 *   ...                                   x_ik - x_lk over the rounds k of both.
 *
 * How sure that is. A handful of differences tells little of their own spread, but all
 * contenders are timed alike: the spread between one round and the next, of all together, is
 * a prior for each one's own, worth PRIOR rounds at most, as in Smyth (2004), "Linear
 * models and empirical Bayes methods", section 3. Both are by median absolute deviation,
 * with the factors for small samples of Croux and Rousseeuw (1992). Bounds are Student's t.
 *
 * How often one may look. A contender is beaten when its lower bound is above 0 at 2.6 sigma,
 * with Holm's (1979) correction over all who are still in: the contender that is most clearly
 * behind must be so at 0.5 %/m, the next at 0.5 %/(m-1) ... That the leader was chosen since
 * it looked best is covered: the true best is only lost by being beaten by one of m - 1
 * possible leaders, and each such comparison is paid for (Hsu 1984, "Constrained
 * simultaneous confidence intervals for multiple comparisons with the best"). A race is
 * judged at six rounds (2, 3, 6, 12, 24, 48), so by the union bound the best is lost in some
 * 6 x 0.5 % = 3 % of races, and then to one that is nearly as good; t_race.c finds 2 % of
 * equals. Rules valid at any time (confidence sequences, e-values) allow a look after each
 * round, and pay for it with wider bounds than six looks need.
 *
 * When it is over. Taking the leader loses what another may really be ahead of it: the sum
 * over the others of E max(0, -behind), the opportunity cost with Bonferroni's bound of
 * Chick and Inoue (2001), by which to stop was the best of the rules compared by Branke,
 * Chick and Schmidt (2007), "Selecting a selection procedure". */
#include "elimination.h"
#include "harness/base/base.h"
#include "kernels/kernel.h"
#include <math.h>
#include <stdlib.h>

enum { PRIOR = 6, ENOUGH = 6 /* for the centre by pairs */, PASSES = 8 };
static const double doubt = 0.0047;   /* 2.6 sigma */
static const double tick = 0.001;     /* of a sample: no clock says more */
static const double mad_worth = 0.37; /* its efficiency for normal samples */

struct spread {
	double sigma;  /* of one sample, after what is common to its round */
	double rounds; /* it is worth so many */
};

/* What the median deviation of n normal samples is to be multiplied with. */
static double small_sample(int n)
{
	static const double factor[] = {
		0, 1, 1.196, 1.495, 1.363, 1.206, 1.2, 1.14, 1.129, 1.107
	};
	return n < (int)COUNT(factor) ? factor[n] : n / (n - 0.8);
}

/* Steps from one round to the next, less the median step of all. */
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
	all->rounds = fmin(PRIOR, mad_worth * free);
}

/* Rounds that contender i and the leader both took: how far behind it was, and the sum of
 * what is known of that. */
struct gap {
	int n;
	double lead, low, high; /* low and high: the centre when it is doubted */
	double error, freedom;
};

static void gap_to(struct gap *g, const double *mine, const double *theirs, int rounds,
		   const struct spread *all)
{
	double d[MAX_SAMPLES];
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(mine[k]) && !isnan(theirs[k]))
			d[n++] = mine[k] - theirs[k];
	*g = (struct gap){ .n = n, .lead = n < ENOUGH ? median(d, n) : middle(d, n) };
	g->low = g->high = g->lead;
	g->freedom = n ? all->rounds + n - 1 : 0;
	if (!(g->freedom > 0))
		return;
	const double own = n > 1 ? mad(d, n, g->lead) * small_sample(n) : 0;
	const double variance =
	    (all->rounds * 2 * all->sigma * all->sigma + (n - 1) * own * own) / g->freedom;
	g->error = sqrt((variance + tick * tick) / n) * (n < 3 ? 1 : n < ENOUGH ? 1.2533 : 1.0233);
	if (n == 2) { /* of two, one may be far out: both must say so */
		g->low = fmin(d[0], d[1]);
		g->high = fmax(d[0], d[1]);
		g->error *= sqrt(2);
	}
}

/* The contender with the lowest centre of times over those of their rounds. */
static int find_leader(const double *x, const char *in, int n, int rounds, int twin,
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
		for (int k = 0; in[i] && i != twin && k < rounds; k++)
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

/* Marks who is beaten. z: how many sigmas each is behind, NaN: not in question. */
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
		if (!(z[worst] > normal_beyond(doubt / m)))
			return;
		score[worst].beaten = 1;
		z[worst] = NAN;
	}
}

void judge(struct ruling *r, struct score *score, const double *x, const char *in, int n,
	   int rounds, int twin, double tie, double *scratch)
{
	const double sigmas = normal_beyond(doubt);
	struct spread all;
	*r = (struct ruling){ .leader = find_leader(x, in, n, rounds, twin, scratch), .tied = 1 };
	pooled_spread(&all, x, in, n, rounds, scratch);
	for (int i = 0; i < n; i++) {
		struct gap g = { 0 };
		score[i] = (struct score){ NAN, NAN, NAN, 0 };
		scratch[i] = NAN;
		if (!in[i] || r->leader < 0)
			continue;
		gap_to(&g, x + i * COLUMNS, x + r->leader * COLUMNS, rounds, &all);
		score[i].lead = g.lead;
		if (i == r->leader)
			score[i] = (struct score){ 0 };
		else if (g.error > 0) {
			const double reach = student_beyond(sigmas, g.freedom) * g.error;
			score[i].low = g.low - reach;
			score[i].high = g.high + reach;
			scratch[i] = student_normal(g.low / g.error, g.freedom);
			r->regret += i == twin ? 0 : g.error * normal_loss(scratch[i]);
		}
		r->tied &= i == twin || score[i].high < tie;
	}
	holm(score, scratch, n);
}

/* ---- levels ------------------------------------------------------------------- */

static int taken(const double *mine, int rounds)
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

/* Of one round, by contenders that took two at least: another's level says nothing of it. */
static double common_of(const double *x, const double *level, int n, int rounds, int k,
			double *scratch)
{
	int m = 0;
	for (int i = 0; i < n; i++)
		if (!isnan(x[i * COLUMNS + k]) && taken(x + i * COLUMNS, rounds) > 1)
			scratch[m++] = x[i * COLUMNS + k] - level[i];
	return m ? median(scratch, m) : 0;
}

/* Tukey (1977), Exploratory Data Analysis, chapter 11: median polish, of a table with gaps. */
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
