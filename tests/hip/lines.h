/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - finds a HIP runtime built with the tests, and checks that a failure's message is one
 * line. */
#ifndef TESTS_HIP_LINES_H
#define TESTS_HIP_LINES_H

#include "kernels/device/hip/hip.h"
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* The message is one line with all of the words. */
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

/* From now on the runtime is that file, named from the folder of the test's own program. NULL,
 * and all is over: it is not there. */
static inline void *take_runtime(const char *file)
{
	char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	snprintf(slash ? slash : path, 40, "%s", file);
	setenv("ATTUNE_HIP_LIBRARY", path, 1);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		printf("Bail out! %s\n", dlerror());
	return library;
}

#endif
