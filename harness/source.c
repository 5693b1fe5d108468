/* source.c - where the kernels' sources and the cached binaries lie, and what tells one
 * version of a source from the next: its text and that of all it includes. */
#include "harness.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef ATTUNE_SOURCE_DIR
#define ATTUNE_SOURCE_DIR "kernels" /* below the working directory */
#endif

static char root[PATH_MAX], cache[PATH_MAX], beside[PATH_MAX];
static pthread_once_t root_once = PTHREAD_ONCE_INIT, cache_once = PTHREAD_ONCE_INIT,
		      beside_once = PTHREAD_ONCE_INIT;

static void find_beside(void)
{
	const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 1);
	char *slash = n > 0 ? strrchr(beside, '/') : NULL;
	strcpy(slash ? slash : beside, slash ? "" : ".");
}

/* The folder of the executable. */
static const char *executable_dir(void)
{
	pthread_once(&beside_once, find_beside);
	return beside;
}

/* Whether `folder`/`below` is the kernels folder; then it becomes the root. */
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

/* With the folders above it. Leaves errno. */
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

/* The files above the one being read: a file among them is not entered again. */
struct above {
	const char *path;
	const struct above *up;
};

/* What the compiler makes of it, no more: without comments, a run of blanks as one and
 * no empty lines, so that prose can be edited without measuring again. In place. */
static void strip(char *text)
{
	char *to = text, quote = 0;
	for (const char *at = text; *at; at++) {
		const char last = to > text ? to[-1] : '\n';
		if (quote) {
			quote = *at == quote || *at == '\n' ? 0 : quote;
			*to++ = *at;
			if (*at == '\\' && at[1])
				*to++ = *++at;
		} else if (at[0] == '/' && at[1] == '/') {
			at += strcspn(at, "\n") - 1;
		} else if (at[0] == '/' && at[1] == '*') {
			const char *close = strstr(at + 2, "*/");
			at = close ? close + 1 : at + strlen(at) - 1;
			if (last != ' ' && last != '\n')
				*to++ = ' ';
		} else if (*at == '\n') {
			to -= last == ' ';
			if (to > text && to[-1] != '\n')
				*to++ = '\n';
		} else if (*at == ' ' || *at == '\t' || *at == '\r') {
			if (last != ' ' && last != '\n')
				*to++ = ' ';
		} else {
			quote = *at == '"' || *at == '\'' ? *at : 0;
			*to++ = *at;
		}
	}
	*to = '\0';
}

/* NAME of a stripped line `#include "NAME"`, or 0. */
static int included(const char *line, char name[256])
{
	if (*line++ != '#')
		return 0;
	line += *line == ' ';
	return !strncmp(line, "include", 7) && sscanf(line + 7, " \"%255[^\"\n]\"", name) == 1;
}

static int feed(XXH3_state_t *hash, const char *path, const struct above *up);

/* As compilers look: beside the including file, then in the root. What is nowhere is
 * known by its name alone. */
static void feed_included(XXH3_state_t *hash, const char *name, const struct above *up)
{
	char path[PATH_MAX + 256];
	const char *slash = strrchr(up->path, '/');
	const int dir = slash ? (int)(slash + 1 - up->path) : 0;
	XXH3_128bits_update(hash, name, strlen(name) + 1);
	snprintf(path, sizeof path, "%.*s%s", dir, up->path, name);
	if (feed(hash, path, up) || *name == '/' || !source_root())
		return;
	snprintf(path, sizeof path, "%s/%s", source_root(), name);
	feed(hash, path, up);
}

static int feed(XXH3_state_t *hash, const char *path, const struct above *up)
{
	char real[PATH_MAX], name[256];
	const struct above here = { real, up };
	if (!realpath(path, real))
		return 0;
	for (const struct above *a = up; a; a = a->up)
		if (!strcmp(a->path, real))
			return 1;
	char *text = source_text(real);
	if (!text)
		return 0;
	strip(text);
	XXH3_128bits_update(hash, text, strlen(text) + 1);
	for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
		if (included(line, name))
			feed_included(hash, name, &here);
	free(text);
	return 1;
}

int source_feed(void *hash, const char *path)
{
	return feed(hash, path, NULL);
}

static int feed_kernel(XXH3_state_t *hash, const struct kernel *k)
{
	char path[PATH_MAX + 256];
	if (!k || !source_root())
		return 0;
	snprintf(path, sizeof path, "%s/%s", source_root(), k->source);
	return feed(hash, path, NULL);
}

int source_hash(const struct kernel *k, const struct config *c, char hex[33])
{
	XXH3_state_t *hash = XXH3_createState();
	int ok = hash && XXH3_128bits_reset(hash) == XXH_OK && feed_kernel(hash, k);
	for (enum helper h = 0; ok && h < NUM_HELPERS; h++)
		if (kernel_may_take(k, c, h))
			ok = feed_kernel(hash, kernel_helper(k->backend, h));
	if (ok) {
		const XXH128_hash_t h = XXH3_128bits_digest(hash);
		snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
			 (unsigned long long)h.low64);
	}
	XXH3_freeState(hash);
	return ok;
}
