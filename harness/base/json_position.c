/* json_position.c - finds the line and column of a value in a JSON text, for messages about
 * well-formed but wrong values. jansson knows positions only while it parses.
 *
 * jansson has accepted the text, so this scan checks nothing and only counts brackets outside of
 * strings. */
#include "json_in.h"
#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* p: the opening quote; returns the position after the closing one. */
static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

static const char *skip_value(const char *p)
{
	int depth = 0;
	do {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		else if (!depth)
			return p + strcspn(p, ",]} \t\r\n");
		p++;
	} while (*p && depth > 0);
	return p;
}

/* The value of element `index`, or of the member named by the `n` bytes at `key` (NULL: by index).
 * *name: the member's key. NULL: none; a key written with escapes is not found. */
static const char *child(const char *p, const char *key, size_t n, long index, const char **name)
{
	int object = *p == '{';
	if (!object && *p != '[')
		return NULL;
	p = skip_blanks(p + 1);
	for (long i = 0; *p && *p != '}' && *p != ']'; i++) {
		*name = p;
		if (object) {
			p = skip_blanks(skip_string(p));
			p = skip_blanks(p + 1); /* the colon */
		}
		if (object ? !strncmp(*name + 1, key, n) && (*name)[n + 1] == '"' : i == index)
			return p;
		p = skip_blanks(skip_value(p));
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	return NULL;
}

void json_place(const char *text, const char *path, const char *key, int *line, int *column)
{
	const char *p = skip_blanks(text), *name = p, *next, *start = text;
	while (*path) {
		size_t n = strcspn(path, "/");
		next = child(p, path, n, strtol(path, NULL, 10), &name);
		if (!next)
			break;
		p = next;
		path += n + (path[n] == '/');
	}
	if (key && child(p, key, strlen(key), -1, &name))
		p = name;
	*line = 1;
	for (const char *s = text; s < p; s++)
		if (*s == '\n') {
			++*line;
			start = s + 1;
		}
	*column = 1;
	for (; start < p; start++)
		*column += (*start & 0xc0) != 0x80;
}
