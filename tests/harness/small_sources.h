/* SPDX-License-Identifier: Apache-2.0 */
/* small_sources.h - small sources in a folder, compiled through a cache in that folder. */
#ifndef TESTS_HARNESS_SMALL_SOURCES_H
#define TESTS_HARNESS_SMALL_SOURCES_H

#include "harness/compile/compile.h"
#include "harness/compile/compilers.h"
#include "harness/store/handle.h"
#include "tests/support/folder.h"
#include <stdio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static void source(const char *name, const char *text)
{
	FILE *f = fopen(in_folder(name), "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int compile(const char *name, const char *flags, const char *arch, int *cached)
{
	struct binary b;
	const int status = jit_compile_source(&b, in_folder(name), flags, arch);
	*cached = b.cached;
	jit_free(&b);
	return status;
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	return setenv("ATTUNE_CACHE", in_folder("cache"), 1) || !cache_root();
}

#endif
