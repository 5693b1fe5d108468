/* data_files.c - finds the files that come with the tool: scenarios, headers, databases. */
#include "base.h"
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static char beside[PATH_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_beside(void)
{
	const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 1);
	char *slash = n > 0 ? strrchr(beside, '/') : NULL;
	strcpy(slash ? slash : beside, slash ? "" : ".");
}

const char *executable_dir(void)
{
	pthread_once(&once, find_beside);
	return beside;
}

static int try_code(char path[PATH_TEXT], const char *folder, const char *between, const char *name)
{
	return snprintf(path, PATH_TEXT, "%s%s%s", folder, between, name) < PATH_TEXT &&
	       !access(path, R_OK);
}

const char *code_path(char path[PATH_TEXT], const char *name)
{
	const char *beside_it = executable_dir();
	return try_code(path, beside_it, "/../", name) ||
		       try_code(path, beside_it, "/../share/attune/", name) ||
		       try_code(path, SOURCE_TREE, "/", name)
		   ? path
		   : NULL;
}

const char *data_path(char path[PATH_TEXT], const char *name)
{
	if (access(name, F_OK)) {
		const int n =
		    snprintf(path, PATH_TEXT, "%s/../share/attune/%s", executable_dir(), name);
		if (n < PATH_TEXT && !access(path, F_OK))
			return path;
	}
	snprintf(path, PATH_TEXT, "%s", name);
	return path;
}
