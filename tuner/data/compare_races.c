/* compare_races.c - compares two times of a scenario, if they can be compared. Contenders of one
 * race are timed in the same rounds. Times of pass A from several races are comparable where
 * race_clock.c has put them on one clock. Times of pass B from two sessions are comparable but for
 * the drift between these. A time of pass A and one of pass B never are. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>

enum basis cells_compare(const struct cell *a, const struct cell *b, enum pass pass, double *ratio)
{
	*ratio = NAN;
	if (a->outcome != OUTCOME_OK || b->outcome != OUTCOME_OK)
		return BASIS_NONE;
	if (a->race == b->race) {
		*ratio = a->ratio > 0 && b->ratio > 0 ? a->ratio / b->ratio
						      : a->median_us / b->median_us;
		return BASIS_RACE;
	}
	if (pass == PASS_B) {
		*ratio = a->median_us / b->median_us;
		return BASIS_SESSIONS;
	}
	if (!a->on_clock || !b->on_clock)
		return BASIS_NONE;
	*ratio = a->us / b->us;
	return BASIS_RACE;
}

const char *basis_words(const struct data *d, enum basis basis, double ratio, double us)
{
	if (basis == BASIS_NONE)
		return "other race";
	if (basis == BASIS_SESSIONS)
		return "other session";
	if (fabs(log(ratio)) <= log1p(data_noise(d, us)))
		return "tie";
	return ratio > 1 ? "slower" : "faster";
}
