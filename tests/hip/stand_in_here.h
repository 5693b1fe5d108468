/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in_here.h - opens devices of the stand-in, for t_hip and t_hip_runs. A row fails if it
 * leaves an object alive. */
#ifndef TESTS_HIP_STAND_IN_HERE_H
#define TESTS_HIP_STAND_IN_HERE_H

#include "lines.h"
#include <stdio.h>
#include <stdlib.h>

static int (*live)(void);
static const char *(*misuse)(void);
static int (*now_on)(int *), (*go_to)(int), (*last_error)(void);

static inline enum attune_status open_as(struct device *dev, const char *chip, const char *fault,
					 const char *which)
{
	setenv("STAND_IN_CHIP", chip, 1);
	setenv("STAND_IN_FAULT", fault, 1);
	return device_open(dev, which);
}

static inline int begin(void **state)
{
	(void)state;
	go_to(0);
	return 0;
}

static inline int nothing_is_left(void **state)
{
	const char *wrong = misuse();
	(void)state;
	if (*wrong)
		print_error("%s\n", wrong);
	if (live())
		print_error("%d objects were not destroyed\n", live());
	const int error = last_error();
	if (error)
		print_error("error %d is left to the caller\n", error);
	return *wrong || live() || error;
}

static inline int find_stand_in(void)
{
	void *library = take_runtime("/hip/libamdhip64.so");
	if (!library)
		return 0;
	*(void **)(void *)&live = dlsym(library, "stand_in_live");
	*(void **)(void *)&misuse = dlsym(library, "stand_in_misuse");
	*(void **)(void *)&now_on = dlsym(library, "hipGetDevice");
	*(void **)(void *)&last_error = dlsym(library, "hipGetLastError");
	*(void **)(void *)&go_to = dlsym(library, "hipSetDevice");
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return 1;
}

/* Runs the rows; 1: there is no stand-in. */
#define HIP_ROW(test) cmocka_unit_test_setup_teardown(test, begin, nothing_is_left)
#define HIP_ROWS(name, tests) \
	(find_stand_in() ? cmocka_run_group_tests_name(name, tests, NULL, NULL) : 1)

#endif
