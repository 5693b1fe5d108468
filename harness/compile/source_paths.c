/* SPDX-License-Identifier: Apache-2.0 */
/* source_paths.c - finds the sources of kernels. */
#include "compile.h"
#include "harness/base/base.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char root[PATH_MAX];
static pthread_once_t root_once = PTHREAD_ONCE_INIT;

/* Sets the root to `folder` if that is the kernels folder. */
static int try_root(const char *folder)
{
	char probe[PATH_MAX];
	return folder &&
	       snprintf(probe, sizeof probe, "%s/kernels.def", folder) < (int)sizeof probe &&
	       access(probe, R_OK) == 0 && realpath(folder, root) != NULL;
}

static void find_root(void)
{
	char path[PATH_TEXT];
	const char *given = getenv("ATTUNE_SOURCE");
	if (!try_root(given && *given ? given : code_path(path, "kernels", "kernels.def")))
		root[0] = '\0';
}

const char *source_root(void)
{
	pthread_once(&root_once, find_root);
	return *root ? root : NULL;
}

char *source_text(const char *path)
{
	size_t size;
	return file_bytes(path, &size);
}
