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

/* Writes a temporary file and renames it, so that no reader sees half of it. A pipe or a device
 * such as /dev/stdout is written directly. */
int file_put(const char *path, const char *text)
{
	char *temporary;
	struct stat st;
	int done = 0;
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		done = write_to(path, text);
		if (!done)
			complain("%s: %s", path, strerror(errno));
		return done;
	}
	if (asprintf(&temporary, "%s.%ld", path, (long)getpid()) < 0) {
		complain("%s: out of memory", path);
		return 0;
	}
	done = write_to(temporary, text) && !rename(temporary, path);
	if (!done) {
		complain("%s: %s", path, strerror(errno));
		unlink(temporary);
	}
	free(temporary);
	return done;
}
