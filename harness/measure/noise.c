/* noise.c - decides which times are too noisy to learn from or to evaluate with. A time is noisy
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
#include "measure.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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

void noise_mark_race(struct measurement *m, const struct control *c)
{
	if (m->outcome != OUTCOME_OK || !m->samples || !noise_in_control(c))
		return;
	m->outcome = OUTCOME_NOISY;
	snprintf(m->detail, sizeof m->detail,
		 "in its race the same choice twice differs by %.0f %%", 100 * noise_of_control(c));
}
