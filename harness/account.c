/* account.c - what is told of a racer: which of its samples count, and the figures that
 * follow from them. */
#include "course.h"
#include <math.h>
#include <string.h>

enum { ENOUGH = 3 /* clean samples */ };

static const double counter_s = 0.1; /* energy counters tick every few ms */

/* The share that a sample needs to count: where too few are clean, that of the least
 * disturbed ones. */
static float share_needed(const struct runner *r, int rounds, int *noisy)
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

int course_counted(const struct runner *r, int rounds, double *us)
{
	int noisy;
	const float needed = share_needed(r, rounds, &noisy);
	for (int k = 0; k < rounds; k++)
		us[k] = r->share[k] >= needed ? r->by_round[k] : NAN;
	return noisy;
}

/* In order of rounds; the screen's where there is no other. */
static int collect(const struct runner *r, int rounds, double *us, int *noisy)
{
	double by_round[MAX_SAMPLES];
	int n = 0;
	*noisy = course_counted(r, rounds, by_round);
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

double course_ratio(const struct runner *r, const struct runner *other, int rounds)
{
	double ratio[MAX_SAMPLES];
	int n = 0;
	for (int k = 0; k < rounds; k++)
		if (!isnan(r->by_round[k]) && !isnan(other->by_round[k]))
			ratio[n++] = (double)r->by_round[k] / (double)other->by_round[k];
	return n ? median(ratio, n) : known(r->probe_us / other->probe_us);
}

static double mean_power(const struct course *c)
{
	double power[MAX_SAMPLES], seconds = course_now() - c->began;
	memcpy(power, c->power, sizeof power);
	const double centre = c->rounds ? median(power, c->rounds) : 0;
	if (centre > 0)
		return centre;
	if (seconds > counter_s && c->last.joules > c->first.joules)
		return (c->last.joules - c->first.joules) / seconds;
	return NAN;
}

void course_account(struct course *c, int i)
{
	struct runner *r = &c->runner[i];
	const struct racer *racer = &c->race->v[r->of];
	struct measurement *m = r->m;
	double us[MAX_SAMPLES];
	int noisy;
	m->samples = collect(r, c->rounds, us, &noisy);
	m->calls = r->tapes.calls;
	for (int k = 0; k < m->samples; k++)
		m->us[k] = (float)us[k];
	m->median_us = median(us, m->samples);
	m->min_us = m->samples ? us[0] : NAN;
	m->q25_us = quantile(us, m->samples, 0.25);
	m->q75_us = quantile(us, m->samples, 0.75);
	m->ci_us = median_ci(us, m->samples);
	m->ratio = course_ratio(r, &c->runner[0], c->rounds);
	m->gbps = racer->bytes / m->median_us / 1e3;
	m->tflops = racer->flops / m->median_us / 1e6;
	m->sm_mhz_before = known(c->first.sm_mhz);
	m->sm_mhz_after = known(c->last.sm_mhz);
	m->power_w = mean_power(c);
	m->joules = m->power_w * m->median_us * 1e-6;
	if (noisy)
		snprintf(m->stopped, sizeof m->stopped, "noisy");
}

void course_control(struct course *c)
{
	struct control *out = c->race->control;
	const struct runner *twin = &c->runner[c->race->n], *original = &c->runner[out->of];
	double us[MAX_SAMPLES];
	int noisy, n = collect(twin, c->rounds, us, &noisy);
	for (int k = 0; k < c->rounds; k++)
		out->rounds += !isnan(twin->by_round[k]) && !isnan(original->by_round[k]);
	out->median_us = median(us, n);
	out->ratio = course_ratio(twin, original, c->rounds);
	out->device_us = c->twin.device_us;
}
