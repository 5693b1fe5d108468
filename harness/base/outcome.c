/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c - the names of outcomes in the database and in tables. */
#include "base.h"
#include "kernels/spec/choice.h"

const char *outcome_name(enum outcome o)
{
	static const char *const names[] = {
		[OUTCOME_OK] = "ok",           [OUTCOME_WRONG] = "wrong",
		[OUTCOME_NAN] = "nan",         [OUTCOME_RESOURCES] = "resources",
		[OUTCOME_COMPILE] = "compile", [OUTCOME_TIMEOUT] = "timeout",
		[OUTCOME_CRASH] = "crash",     [OUTCOME_ILLEGAL] = "illegal",
		[OUTCOME_NOISY] = "noisy",
	};
	_Static_assert(COUNT(names) == NUM_OUTCOMES, "an outcome without a name");
	return (unsigned)o < COUNT(names) ? names[o] : "?";
}
