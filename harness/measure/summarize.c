/* SPDX-License-Identifier: Apache-2.0 */
/* summarize.c - the results of a race: selects the samples that count, fills measurements, and decides
 * which times are too noisy. */
#include "measure.h"
#include "race.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- noise ------------------------------------------------------------------------- */
/* Decides which times are too noisy to learn from or to evaluate with. A time is noisy
 *
 *   if fewer than LEAST_SAMPLES samples are kept, unless its contender was eliminated: that
 *     takes one to six rounds, and the time only shows that it is behind
 *   if few samples are clean and the time may be off by more than `disturbed`. A program that
 *     takes a constant share of the CPU does not widen the median's interval, so the missing
 *     share counts too
 *   if the median's interval is wider than `any`
 *   if the two times of the race's A/A control differ by more than noise_most_control
 *
 * Reasons for the limits: the largest difference of 7,112 controls on quiet machines (results/)
 * is 10.4 %; of 27,206 times on an H200 that ran to the end of their race, 13 have an interval
 * wider than 20 %. */

static const struct {
	double disturbed, any; /* shares of the median */
} most_unsure = { .disturbed = 0.1, .any = 0.2 };
const double noise_most_control = 0.2;

/* Half the width of the median's interval, as a share of the median. Fewer than six samples have
 * no interval; then the median absolute deviation, which tolerates one outlier. */
static double unsure(const struct measurement *m)
{
	double us[MAX_SAMPLES];
	if (m->ci_us >= 0)
		return m->ci_us / m->median_us;
	for (int i = 0; i < m->samples; i++)
		us[i] = (double)m->us[i];
	return mad(us, m->samples, m->median_us) / m->median_us;
}

static int ended_early(const struct measurement *m)
{
	return !strcmp(m->stopped, "slow") || !strcmp(m->stopped, "beaten");
}

void noise_mark_time(struct measurement *m, int kept, double share)
{
	const int early = ended_early(m), is_disturbed = share < clean_share;
	if (m->outcome != OUTCOME_OK || !m->samples || budget_is_held())
		return;
	const double off = is_disturbed ? fmax(unsure(m), 1 - share) : unsure(m);
	if (kept < LEAST_SAMPLES && !early)
		snprintf(m->detail, sizeof m->detail, "%d samples count, fewer than %d", kept,
			 LEAST_SAMPLES);
	else if (is_disturbed && off > most_unsure.disturbed)
		snprintf(m->detail, sizeof m->detail,
			 "other programs ran during all but few samples: the time may be off by "
			 "%.0f %%",
			 100 * off);
	else if (!early && off > most_unsure.any)
		snprintf(m->detail, sizeof m->detail, "the median may be off by %.0f %%",
			 100 * off);
	else
		return;
	m->outcome = OUTCOME_NOISY;
}

double noise_of_control(const struct control *c)
{
	return c->rounds > 0 && c->ratio > 0 ? fmax(c->ratio, 1 / c->ratio) - 1 : 0;
}

int noise_in_control(const struct control *c)
{
	return noise_of_control(c) > noise_most_control && !budget_is_held();
}

/* A bad control spoils every time of the race. */
static void noise_mark_race(struct measurement *m, const struct control *c)
{
	if (m->outcome != OUTCOME_OK || !m->samples || !noise_in_control(c))
		return;
	m->outcome = OUTCOME_NOISY;
	snprintf(m->detail, sizeof m->detail,
		 "in its race the same choice twice differs by %.0f %%", 100 * noise_of_control(c));
}

/* ---- results ----------------------------------------------------------------------- */

enum { ENOUGH = 3 /* clean samples */ };

static const double counter_s = 0.1; /* energy counters tick every few ms */

/* The share of the CPU that a sample needs to count. Lowered to that of the least disturbed
 * samples if too few are clean. */
static float share_needed(const struct call_state *r, int rounds, int *noisy)
{
	double share[MAX_SAMPLES];
	int n = 0, clean = 0;
	for (int k = 0; k < rounds; k++) {
		if (isnan(r->by_round[k]))
			continue;
		share[n++] = -r->share[k];
		clean += r->share[k] >= clean_share;
	}
	*noisy = clean < ENOUGH && clean < n;
	if (!*noisy)
		return (float)clean_share;
	(void)median(share, n); /* sorts: the largest share first */
	return (float)-share[n < ENOUGH ? n - 1 : ENOUGH - 1];
}

int race_counted_times(const struct call_state *r, int rounds, double *us)
{
	int noisy;
	const float needed = share_needed(r, rounds, &noisy);
	for (int k = 0; k < rounds; k++)
		us[k] = r->share[k] >= needed ? r->by_round[k] : NAN;
	return noisy;
}

/* The times that count, in order of rounds; the screen's if there is no other. */
static int collect(const struct call_state *r, int rounds, double *us, int *noisy)
{
	double by_round[MAX_SAMPLES];
	int n = 0;
	*noisy = race_counted_times(r, rounds, by_round);
	for (int k = 0; k < rounds; k++)
		if (!isnan(by_round[k]))
			us[n++] = by_round[k];
	if (!n && r->probe_us > 0)
		us[n++] = r->probe_us;
	return n;
}

static double known(double value)
{
	return value > 0 ? value : NAN;
}

double race_median(const struct race_state *c, int i)
{
	double us[MAX_SAMPLES];
	int noisy, n = collect(&c->call_state[i], c->rounds, us, &noisy);
	return median(us, n);
}

static double mean_power(const struct race_state *c)
{
	double power[MAX_SAMPLES];
	const double seconds = c->last_energy.s - c->first_energy.s;
	memcpy(power, c->power, sizeof power);
	const double centre = c->rounds ? median(power, c->rounds) : 0;
	if (centre > 0)
		return centre;
	if (seconds > counter_s && c->last_energy.joules > c->first_energy.joules)
		return (c->last_energy.joules - c->first_energy.joules) / seconds;
	return NAN;
}

/* Samples of rounds that count, and their smallest share of the CPU. */
static int kept_samples(const struct call_state *r, int rounds, double *share)
{
	double us[MAX_SAMPLES];
	int kept = 0;
	*share = 1;
	(void)race_counted_times(r, rounds, us);
	for (int k = 0; k < rounds; k++)
		if (!isnan(us[k])) {
			*share = fmin(*share, (double)r->share[k]);
			kept++;
		}
	return kept;
}

/* An emulated device has no real times, so none can be too noisy. */
static int has_times(const struct race_state *c)
{
	return !device_is_emulated(&c->dev->info);
}

static void fill_measurement(struct race_state *c, int i)
{
	struct call_state *r = &c->call_state[i];
	const struct timed_call *timed_call = &c->race->v[r->of];
	struct measurement *m = r->m;
	double us[MAX_SAMPLES], share;
	int noisy;
	const int kept = kept_samples(r, c->rounds, &share);
	m->samples = collect(r, c->rounds, us, &noisy);
	m->calls = r->calls;
	for (int k = 0; k < m->samples; k++)
		m->us[k] = (float)us[k];
	m->median_us = median(us, m->samples);
	m->min_us = m->samples ? us[0] : NAN;
	m->ci_us = median_ci(us, m->samples);
	m->gbps = timed_call->bytes / m->median_us / 1e3;
	m->tflops = timed_call->flops / m->median_us / 1e6;
	m->sm_mhz_before = known(c->first.sm_mhz);
	m->sm_mhz_after = known(c->last.sm_mhz);
	m->power_w = r->alone_w > 0 ? r->alone_w : mean_power(c);
	m->joules = m->power_w * m->median_us * 1e-6;
	if (has_times(c))
		noise_mark_time(m, kept, share);
	if (noisy)
		snprintf(m->stopped, sizeof m->stopped, "noisy");
}

/* The control against its original, paired by the rounds that both took. */
static void report_control(struct race_state *c)
{
	struct control *out = c->race->control;
	const struct call_state *control = &c->call_state[c->race->n],
				*original = &c->call_state[out->of];
	double us[MAX_SAMPLES], ratio[MAX_SAMPLES];
	int noisy, n = collect(control, c->rounds, us, &noisy);
	for (int k = 0; k < c->rounds; k++)
		if (!isnan(control->by_round[k]) && !isnan(original->by_round[k]))
			ratio[out->rounds++] =
			    (double)control->by_round[k] / (double)original->by_round[k];
	out->median_us = median(us, n);
	out->ratio = median(ratio, out->rounds);
	out->device_us = c->control_m.device_us;
}

/* The leader of the comparison, unless its recheck failed. */
static int find_winner(const struct race_state *c, const double *level)
{
	int winner = c->comparison.leader;
	if (winner >= 0 && c->race->v[winner].m.outcome == OUTCOME_OK)
		return winner;
	winner = -1;
	for (int i = 0; i < c->race->n; i++)
		if (c->call_state[i].in && c->race->v[i].m.outcome == OUTCOME_OK &&
		    (winner < 0 || level[i] < level[winner]))
			winner = i;
	return winner;
}

/* A survivor keeps its lead from the comparison. The others share few or no rounds with the
 * winner, where one outlier would misplace them, so their lead follows from their level. */
static void fill_ratios(struct race_state *c)
{
	const int n = c->contenders;
	double *level = c->scratch, *screen = level + n, *rest = screen + n;
	for (int i = 0; i < n; i++) {
		double *x = c->log_us + i * COLUMNS;
		(void)race_counted_times(&c->call_state[i], c->rounds, x);
		for (int k = 0; k < c->rounds; k++)
			x[k] = log(x[k]);
		screen[i] = log(known(c->call_state[i].probe_us));
	}
	levels(level, c->log_us, screen, n, c->rounds, rest);
	const int winner = find_winner(c, level);
	for (int i = 0; i < n; i++) {
		struct measurement *m = c->call_state[i].m;
		const double lead = m->lead;
		if (winner != c->comparison.leader || !c->call_state[i].in || isnan(lead))
			m->lead = winner < 0 ? NAN : exp(level[i] - level[winner]);
		m->lead_low *= m->lead / lead;
	}
	for (int i = 0; i < n; i++)
		c->call_state[i].m->ratio = c->call_state[i].m->lead / c->race->v[0].m.lead;
}

/* The reference is reported last; race->after may take that as the end of the race. */
void race_report(struct race_state *c)
{
	const struct race *race = c->race;
	if (race->n)
		fill_ratios(c);
	if (c->contenders > race->n)
		report_control(c);
	for (int i = race->n - 1; i >= 0; i--) {
		if (!c->call_state[i].unreported)
			continue;
		fill_measurement(c, i);
		if (race->control && has_times(c))
			noise_mark_race(&race->v[i].m, race->control);
		if (race->after)
			race->after(race->arg, i);
	}
}
