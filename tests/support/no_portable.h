/* SPDX-License-Identifier: Apache-2.0 */
/* no_portable.h - takes the portable rules out of a test program that makes up its choices and times:
 * behind its rows, and of its defaults, the kernels' defaults run, whatever the committed rules say. */
#ifndef TESTS_NO_PORTABLE_H
#define TESTS_NO_PORTABLE_H

#include "kernels/select/selector.h"
#include <stddef.h>

const struct selector *selector_portable(void)
{
	return NULL;
}

#endif
