/* stand_in_here.h - devices of the stand-in, for t_hip and t_hip_runs. A row fails that leaves
 * anything behind. */
#ifndef STAND_IN_HERE_H
#define STAND_IN_HERE_H

#include "../../kernels/hip.h"
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

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

/* It says in one line all of the words. */
static inline void assert_line(const char *words)
{
	const char *line = attune_last_error();
	if (!strstr(line, words) || strchr(line, '\n'))
		fail_msg("\"%s\" is not in one line: %s", words, line);
}

static inline void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
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

/* Beside the test's own program. */
static inline int find_stand_in(void)
{
	char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	strcpy(slash ? slash : path, "/hip/libamdhip64.so");
	setenv("ATTUNE_HIP_LIBRARY", path, 1);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("Bail out! %s\n", dlerror());
		return 0;
	}
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
