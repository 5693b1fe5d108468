/* rules_file_words.c - splits an override file into lines and words, and reports what is wrong. */
#include "rules_file_words.h"
#include "kernels/spec/device_info.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FOUND = 60 };

int reader_wrong(struct reader *r, const char *found, const char *format, ...)
{
	char quoted[MAX_FOUND + 1], rest[700];
	size_t n = 0;
	va_list ap;
	for (; found[n] && n < MAX_FOUND; n++)
		quoted[n] = isprint((unsigned char)found[n]) ? found[n] : '?';
	quoted[n] = '\0';
	va_start(ap, format);
	vsnprintf(rest, sizeof rest, format, ap);
	va_end(ap);
	fail(ATTUNE_INVALID, "%s:%d: \"%s\"; %s", r->path, r->line, quoted, rest);
	return 0;
}

/* Removes the comment and the blanks at both ends; other blanks become ' '. */
static char *trim(char *line)
{
	char *end;
	line[strcspn(line, "#")] = '\0';
	for (end = line; *end; end++)
		if (isspace((unsigned char)*end))
			*end = ' ';
	while (end > line && end[-1] == ' ')
		*--end = '\0';
	return line + strspn(line, " ");
}

int reader_next_line(struct reader *r)
{
	while (r->next < r->end) {
		char *line = r->next, *stop = memchr(line, '\n', (size_t)(r->end - line));
		if (!stop)
			stop = r->end;
		r->next = stop + 1;
		*stop = '\0';
		r->line++;
		r->at = trim(line);
		if (*r->at)
			return 1;
	}
	r->at = r->end;
	return 0;
}

const char *reader_word(struct reader *r)
{
	char *start = r->at;
	r->at += strcspn(r->at, " ");
	if (*r->at)
		*r->at++ = '\0';
	r->at += strspn(r->at, " ");
	return start;
}

int reader_line_ends(struct reader *r)
{
	return !*r->at || reader_wrong(r, r->at, "the line should end before it");
}

int reader_expect(struct reader *r, const char *want, const char *line)
{
	const char *found = reader_word(r);
	return !strcmp(found, want) || reader_wrong(r, found, "\"%s\" is expected here", line);
}

int reader_number(struct reader *r, const char *what, long long lo, long long hi, long long *value)
{
	const char *found = reader_word(r);
	char *end;
	errno = 0;
	*value = strtoll(found, &end, 10);
	if (*found && !*end && !errno && *value >= lo && *value <= hi)
		return 1;
	return reader_wrong(r, found, "%s should be a number of %lld to %lld", what, lo, hi);
}
