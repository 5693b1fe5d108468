/* cache_folder.c - chooses the folder of compiled binaries. Processes load code from it, so it is
 * taken only if it belongs to the user and no other user may write in it:
 *
 *   ATTUNE_CACHE
 *   attune/ in XDG_CACHE_HOME, else in .cache/ of HOME, else of the home folder that the system
 *   knows; such a folder must belong to the user: root may have another user's HOME
 *   a new folder in TMPDIR, which is removed when the process ends */
#include "compile.h"
#include "harness/base/base.h"
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char cache[PATH_MAX], why[PATH_MAX + 100]; /* why the last folder was not taken */
static pid_t owner_of_temporary;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__attribute__((format(printf, 1, 2))) static int refuse(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(why, sizeof why, format, ap);
	va_end(ap);
	return 0;
}

/* Whether a folder, or the one that a link leads to, is the user's. others: permissions that other
 * users must not have. */
static int is_own(const char *path, mode_t others)
{
	struct stat s;
	if (stat(path, &s))
		return refuse("%s: %s", path, strerror(errno));
	if (!S_ISDIR(s.st_mode))
		return refuse("%s: not a folder", path);
	if (s.st_uid != geteuid())
		return refuse("%s: belongs to user %d, not to user %d", path, (int)s.st_uid,
			      (int)geteuid());
	if (s.st_mode & others)
		return refuse("%s: other users may write there (chmod go-w)", path);
	return 1;
}

/* Creates the folder and those above it. */
static int make_folder(const char *path)
{
	char part[PATH_MAX];
	snprintf(part, sizeof part, "%s", path);
	for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(part, 0700); /* if it fails, the last mkdir says why */
	}
	return mkdir(part, 0700) == 0 || errno == EEXIST || refuse("%s: %s", path, strerror(errno));
}

static int take(const char *folder, const char *below)
{
	if (snprintf(cache, sizeof cache, "%s%s", folder, below) >= (int)sizeof cache - 64)
		return refuse("%.40s...: its name is too long", folder);
	if (!make_folder(cache) || !is_own(cache, S_IWGRP | S_IWOTH))
		return 0;
	return access(cache, W_OK | X_OK) == 0 || refuse("%s: %s", cache, strerror(errno));
}

/* `base` must be the user's, too: its owner could replace the folders below it at any time. */
static int take_below(const char *base, const char *below)
{
	if (!base || *base != '/')
		return 0;
	return (access(base, F_OK) || is_own(base, S_IWOTH)) && take(base, below);
}

static const char *known_home(void)
{
	const struct passwd *user = getpwuid(geteuid());
	return user ? user->pw_dir : NULL;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_temporary(void)
{
	if (getpid() == owner_of_temporary)
		nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int take_temporary(void)
{
	const char *given = getenv("TMPDIR"), *folder = given && *given ? given : "/tmp";
	if (snprintf(cache, sizeof cache, "%s/attune-cache.XXXXXX", folder) >=
	    (int)sizeof cache - 64)
		return refuse("%.40s...: its name is too long", folder);
	if (!mkdtemp(cache))
		return refuse("%s: %s", cache, strerror(errno));
	owner_of_temporary = getpid();
	if (*why)
		complain("%s; compiled kernels are kept only until the end of this command: name a "
			 "folder of your own in ATTUNE_CACHE",
			 why);
	return !atexit(remove_temporary) || refuse("out of memory");
}

static void find_cache(void)
{
	const char *given = getenv("ATTUNE_CACHE");
	if (given && *given ? take(given, "")
			    : take_below(getenv("XDG_CACHE_HOME"), "/attune") ||
				  take_below(getenv("HOME"), "/.cache/attune") ||
				  take_below(known_home(), "/.cache/attune") || take_temporary())
		return;
	complain("compiled kernels cannot be kept: %s; name a folder of your own in ATTUNE_CACHE",
		 why);
	cache[0] = '\0';
}

const char *cache_root(void)
{
	pthread_once(&once, find_cache);
	return *cache ? cache : NULL;
}
