/* noise.c - which times are not data. A time is noisy, and neither learned from nor judged by,
 *
 *   where fewer than LEAST_SAMPLES samples are kept, unless its candidate was beaten or slow:
 *     such a candidate ends after one to six rounds, and its time only says that it is behind
 *   where few samples are clean and the time may be off by more than `disturbed`. The median's
 *     interval does not see a program that takes the same share of the CPU all the time, so the
 *     share that is missing counts as well
 *   where the median's interval is wider than `any`, however the samples were taken
 *   where the race's control, one choice under two names, differs by more than
 *     noise_most_control
 *
 * Limits: of 7,112 controls on quiet machines (results/) none differs by more than 10.4 %, and of
 * 27,206 times on an H200 that ran to the end of their race 13 are unsure by more than 20 %. */
#include "measure.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
	double disturbed, any; /* shares of the median */
} most_unsure = { .disturbed = 0.1, .any = 0.2 };
const double noise_most_control = 0.2;

/* Half the width of the median's interval, as a share of it. Below six samples there is no such
 * interval, and the spread of the samples stands for it, of which one may be far out. */
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

void noise_judge_time(struct measurement *m, int kept, double share)
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

void noise_judge_race(struct measurement *m, const struct control *c)
{
	if (m->outcome != OUTCOME_OK || !m->samples || !noise_in_control(c))
		return;
	m->outcome = OUTCOME_NOISY;
	snprintf(m->detail, sizeof m->detail,
		 "in its race the same choice twice differs by %.0f %%", 100 * noise_of_control(c));
}
