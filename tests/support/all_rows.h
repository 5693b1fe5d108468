/* SPDX-License-Identifier: Apache-2.0 */
/* all_rows.h - whether a test runs all of its rows (ATTUNE_SIMT=full) or every second or third,
 * to keep make test short. */
#ifndef TESTS_SUPPORT_ALL_ROWS_H
#define TESTS_SUPPORT_ALL_ROWS_H

#include <stdlib.h>
#include <string.h>

static int all_rows_asked(void)
{
	const char *how = getenv("ATTUNE_SIMT");
	return how && !strcmp(how, "full");
}

#endif
