/* explain_rows.c - for `attune show --why`: adds rows to its table, and finds their times, measured
 * or estimated. */
#include "explain.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>

void why_row(const struct why *w, const char *decision, const char *kind, const char *what,
	     double us, double best, const char *pass)
{
	table_add(w->t, "%s %s %s %.3f %.3f %s\n", decision, kind, what, us,
		  isfinite(best) ? us / best : NAN, pass);
}

double why_time(const struct why *w, enum phase phase, const struct choice *c)
{
	if (w->scenario < 0)
		return estimate_part(w->around, phase, c);
	return c->kernel ? data_part_time(w->d, w->scenario, phase, data_find(w->d, c)) : INFINITY;
}

double why_best(const struct why *w, enum phase phase)
{
	double best = INFINITY, far;
	int choice;
	if (w->scenario >= 0)
		return data_best(w->d, w->scenario, phase, &choice);
	const int at = around_nearest(w->around, phase, &far);
	if (at >= 0 && isfinite(data_best(w->d, at, phase, &choice)))
		best = estimate_part(w->around, phase, &w->d->choice[choice]);
	return best;
}
