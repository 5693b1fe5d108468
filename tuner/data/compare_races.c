/* compare_races.c - compares two times of a scenario, if they can be compared. Contenders of one
 * race are timed in the same rounds. Times of pass A from several races are comparable where
 * race_clock.c has put them on one clock. A time of pass A and one of pass B never are. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>

double cells_ratio(const struct cell *a, const struct cell *b)
{
	if (a->outcome != OUTCOME_OK || b->outcome != OUTCOME_OK)
		return NAN;
	if (a->race == b->race)
		return a->ratio > 0 && b->ratio > 0 ? a->ratio / b->ratio
						    : a->median_us / b->median_us;
	return a->on_clock && b->on_clock ? a->us / b->us : NAN;
}

const char *ratio_words(const struct data *d, double ratio, double us)
{
	if (isnan(ratio))
		return "other race";
	if (fabs(log(ratio)) <= log1p(data_noise(d, us)))
		return "tie";
	return ratio > 1 ? "slower" : "faster";
}
