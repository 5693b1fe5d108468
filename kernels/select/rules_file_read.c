/* rules_file_read.c - reads the file that ATTUNE_HEURISTICS names into memory. */
#include "selector.h"
#include <errno.h>
#include <stdio.h>

enum { MAX_BYTES = 1 << 20 };

enum attune_status override_text(const char *path, char **text, size_t *size)
{
	FILE *in = fopen(path, "rb");
	const int cause = errno;
	*text = malloc(MAX_BYTES + 1);
	if (!in || !*text) {
		if (in)
			fclose(in);
		return in ? fail(ATTUNE_NO_MEMORY, "attune_open: out of memory")
			  : fail(ATTUNE_INVALID, "%s: %s; ATTUNE_HEURISTICS should name a file",
				 path, strerror(cause));
	}
	errno = 0;
	*size = fread(*text, 1, MAX_BYTES + 1, in);
	const int failed = ferror(in) ? errno : 0;
	fclose(in);
	if (failed)
		return fail(ATTUNE_INVALID, "%s: %s; ATTUNE_HEURISTICS should name a file", path,
			    strerror(failed));
	if (*size > MAX_BYTES)
		return fail(ATTUNE_INVALID, "%s: more than %d bytes; no heuristic is that long",
			    path, MAX_BYTES);
	(*text)[*size] = '\0';
	return ATTUNE_OK;
}
