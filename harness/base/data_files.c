/* SPDX-License-Identifier: Apache-2.0 */
/* data_files.c - finds the files that come with the tool: scenarios, headers, databases; reads files. */
#include "base.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The way to the sources from the folder that make puts the tool into. */
static const char source_tree[] =
#include "source_tree.inc"
    ;

static char beside[PATH_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_beside(void)
{
	const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 1);
	char *slash = n > 0 ? strrchr(beside, '/') : NULL;
	strcpy(slash ? slash : beside, slash ? "" : ".");
}

/* The folder of the running program. */
static const char *executable_dir(void)
{
	pthread_once(&once, find_beside);
	return beside;
}

static int try_code(char path[PATH_TEXT], const char *folder, const char *name, const char *has)
{
	char probe[PATH_TEXT];
	return snprintf(path, PATH_TEXT, "%s/%s", folder, name) < PATH_TEXT &&
	       snprintf(probe, sizeof probe, "%s/%s", path, has) < PATH_TEXT &&
	       !access(probe, R_OK);
}

const char *code_path(char path[PATH_TEXT], const char *name, const char *has)
{
	static const struct {
		const char *up, *way;
	} from[] = {
		{ "", "../share/attune" }, /* where make install put it */
		{ "", source_tree },
		{ "../", source_tree }, /* of a tool in a folder below, such as build/bare */
	};
	char folder[PATH_TEXT];
	for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
		snprintf(folder, sizeof folder, "%.2000s/%s%.2000s", executable_dir(), from[i].up,
			 from[i].way);
		if (try_code(path, folder, name, has))
			return path;
	}
	return NULL;
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

char *file_bytes(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rbe");
	char *bytes = NULL, *more;
	size_t room = 0, got = 1;
	for (*size = 0; f && got && (more = realloc(bytes, room = 2 * room + 4096)); *size += got) {
		bytes = more;
		got = fread(bytes + *size, 1, room - *size - 1, f);
	}
	const int whole = f && !got && !ferror(f);
	const int error = errno;
	if (f)
		fclose(f);
	if (whole) {
		bytes[*size] = '\0';
		return bytes;
	}
	free(bytes);
	*size = 0;
	errno = error;
	return NULL;
}
