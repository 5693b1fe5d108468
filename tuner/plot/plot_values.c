/* plot_values.c - what the pictures share: the time of a policy's plan, the noise of the
 * database, and gnuplot settings for axis ranges, names and block sizes. */
#include "plot.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>

double plotted_time(const struct plotted *p, enum policy policy, int scenario)
{
	if (policy == POLICY_ORACLE)
		return data_oracle(p->data, scenario);
	return p->pick[policy] ? data_plan_time(p->data, scenario, &p->pick[policy][scenario])
			       : INFINITY;
}

double plotted_noise(const struct plotted *p, char text[160])
{
	const struct noise *n = &p->data->noise;
	const int pairs = n->pairs[0] + n->pairs[1] + n->pairs[2];
	if (pairs)
		snprintf(text, 160, "A/A noise %.1f, %.1f, %.1f %% (<20 us, <200 us, above)",
			 100 * n->floor[0], 100 * n->floor[1], 100 * n->floor[2]);
	else
		snprintf(text, 160, "noise taken as %.1f %%: no A/A pairs", 100 * n->floor[0]);
	return fmax(n->floor[0], fmax(n->floor[1], n->floor[2]));
}

void range_stretch(struct range *r, double v)
{
	if (!isfinite(v))
		return;
	r->lo = fmin(r->lo, v);
	r->hi = fmax(r->hi, v);
}

void range_print(FILE *settings, const char *name, struct range r)
{
	fprintf(settings, "%s_lo = %g\n%s_hi = %g\n", name, r.hi > 0 ? r.lo : 1, name,
		r.hi > 0 ? r.hi : 10);
}

void words_print(FILE *settings, const char *name, char text[][24], int n)
{
	fprintf(settings, "%s = \"", name);
	for (int i = 0; i < n; i++)
		fprintf(settings, "%s%s", i ? " " : "", text[i]);
	fputs("\"\n", settings);
}

void filled_print(FILE *settings, const int *filled, int n)
{
	fputs("filled = \"", settings);
	for (int i = 0; i < n; i++)
		fprintf(settings, "%s%d", i ? " " : "", filled[i]);
	fputs("\"\n", settings);
}

void length_text(char text[24], int length)
{
	if (length % 1024)
		snprintf(text, 24, "%d", length);
	else
		snprintf(text, 24, "%dk", length / 1024);
}
