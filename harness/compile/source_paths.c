/* source_paths.c - finds the sources of kernels and the cache of binaries. */
#include "compile.h"
#include "harness/base/base.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef ATTUNE_SOURCE_DIR
#define ATTUNE_SOURCE_DIR "kernels" /* below the working directory */
#endif

static char root[PATH_MAX], cache[PATH_MAX];
static pthread_once_t root_once = PTHREAD_ONCE_INIT, cache_once = PTHREAD_ONCE_INIT;

/* Sets the root to `folder``below` if that is the kernels folder. */
static int try_root(const char *folder, const char *below)
{
	char probe[PATH_MAX], path[PATH_MAX - 16];
	if (!folder || snprintf(path, sizeof path, "%s%s", folder, below) >= (int)sizeof path)
		return 0;
	snprintf(probe, sizeof probe, "%s/kernels.def", path);
	return access(probe, R_OK) == 0 && realpath(path, root) != NULL;
}

static void find_root(void)
{
	const char *given = getenv("ATTUNE_SOURCE");
	if (given && *given ? !try_root(given, "")
			    : !try_root(executable_dir(), "/../kernels") &&
				  !try_root(executable_dir(), "/../share/attune/kernels") &&
				  !try_root(ATTUNE_SOURCE_DIR, ""))
		root[0] = '\0';
}

const char *source_root(void)
{
	pthread_once(&root_once, find_root);
	return *root ? root : NULL;
}

int kernel_source_below(char *path, size_t size, const struct kernel *k, const char *folder)
{
	char flat[PATH_MAX + 256];
	if (!kernel_path(path, size, k, folder))
		return 0;
	if (k->plugin || k->source[0] == '/') /* lies elsewhere */
		return 1;
	const int n = snprintf(flat, sizeof flat, "%s/%.*s%s", folder, (int)strcspn(k->source, "/"),
			       k->source, strrchr(k->source, '/'));
	if (access(path, R_OK) && (size_t)n < size && (size_t)n < sizeof flat &&
	    access(flat, R_OK) == 0)
		strcpy(path, flat);
	return 1;
}

/* Creates the folders above it, too. Sets errno. */
static int make_folder(const char *path)
{
	char part[PATH_MAX];
	snprintf(part, sizeof part, "%s", path);
	for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(part, 0777);
	}
	return (mkdir(part, 0777) == 0 || errno == EEXIST) && access(part, W_OK | X_OK) == 0;
}

static int try_cache(const char *folder, const char *below)
{
	return folder && *folder &&
	       snprintf(cache, sizeof cache, "%s%s", folder, below) < (int)sizeof cache - 64 &&
	       make_folder(cache);
}

static void find_cache(void)
{
	const char *given = getenv("ATTUNE_CACHE");
	if (given && *given ? try_cache(given, "")
			    : try_cache(executable_dir(), "/cache") ||
				  try_cache(getenv("HOME"), "/.cache/attune"))
		return;
	complain("%s: cannot keep compiled kernels here: %s; name a folder in ATTUNE_CACHE", cache,
		 strerror(errno));
	cache[0] = '\0';
}

const char *cache_root(void)
{
	pthread_once(&cache_once, find_cache);
	return *cache ? cache : NULL;
}

char *source_text(const char *path)
{
	FILE *f = fopen(path, "rbe");
	char *text = NULL;
	size_t size = 0;
	if (f && getdelim(&text, &size, '\0', f) < 0) {
		free(text);
		text = ferror(f) ? NULL : calloc(1, 1);
	}
	if (f)
		fclose(f);
	return text;
}
