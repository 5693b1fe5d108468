/* files.c - reads and writes whole text files. */
#include "base.h"
#include "harness/base/base.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *file_text(const char *path)
{
	FILE *in = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;
	if (!in)
		return NULL;
	if (getdelim(&text, &size, '\0', in) < 0 || ferror(in)) {
		free(text);
		text = NULL;
	}
	fclose(in);
	return text;
}

static int write_to(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");
	const int done = out && fputs(text, out) >= 0;
	return out && !fclose(out) && done;
}

/* A regular file is written aside and moved over, so that no reader sees half of it. A pipe or a
 * device such as /dev/stdout is written to. */
int file_put(const char *path, const char *text)
{
	char *beside;
	struct stat st;
	int done = 0;
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		done = write_to(path, text);
		if (!done)
			complain("%s: %s", path, strerror(errno));
		return done;
	}
	if (asprintf(&beside, "%s.%ld", path, (long)getpid()) < 0)
		return 0;
	done = write_to(beside, text) && !rename(beside, path);
	if (!done) {
		complain("%s: %s", path, strerror(errno));
		unlink(beside);
	}
	free(beside);
	return done;
}
