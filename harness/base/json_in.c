/* SPDX-License-Identifier: Apache-2.0 */
/* json_in.c - reads and checks JSON files. Only this file and json_out.c use jansson. */
#include "base.h"
#include "json_in.h"
#include "text_rule.h"
#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading and refusing ------------------------------------------------------ */
int input_bad(const struct input *r, const char *path, const char *key, const char *format, ...)
{
	char text[512];
	int line, column;
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	json_place(r->text, path, key, &line, &column);
	complain("%s:%d:%d: %s", r->file, r->above + line, column, text);
	return 0;
}

void input_close(struct input *r)
{
	json_decref(r->root);
	free(r->text);
}

/* The byte order mark that some editors begin a text with. */
static void drop_mark(char *text, size_t *size)
{
	static const char mark[] = "\xef\xbb\xbf";
	const size_t n = strlen(mark);
	if (*size < n || memcmp(text, mark, n) != 0)
		return;
	*size -= n;
	memmove(text, text + n, *size + 1);
}

static int parse(struct input *r, size_t size, const char *what)
{
	json_error_t error;
	r->root = json_loadb(r->text, size, JSON_REJECT_DUPLICATES, &error);
	if (!r->root) {
		complain("%s:%d:%d: %s; %s must hold one JSON object", r->file,
			 r->above + error.line, error.column, error.text, what);
		input_close(r);
	}
	return r->root != NULL;
}

int input_line(struct input *r, const char *path, int line, const char *bytes, size_t n)
{
	*r = (struct input){ .file = path, .above = line - 1, .text = malloc(n + 1) };
	if (!r->text) {
		complain("out of memory");
		return 0;
	}
	memcpy(r->text, bytes, n);
	r->text[n] = '\0';
	return parse(r, n, "a line");
}

int input_open(struct input *r, const char *path)
{
	size_t size;
	*r = (struct input){ .file = path, .text = file_bytes(path, &size) };
	if (!r->text) {
		complain("%s: %s", path, strerror(errno));
		return 0;
	}
	drop_mark(r->text, &size);
	return parse(r, size, "the file");
}

/* ---- checking an object against its table of keys ------------------------------ */
static void put_wanted(FILE *f, const struct key *k)
{
	switch (k->kind) {
	case TEXT: fprintf(f, "a text: %s", text_rule_says(TEXT_FREE)); break;
	case NOTES: fputs("a text or a list of texts", f); break;
	case INTEGER: fprintf(f, "an integer from %lld to %lld", k->lo, k->hi); break;
	case POSITIVE: fputs("a number above 0", f); break;
	case NOT_NEGATIVE: fputs("a number of 0 or more", f); break;
	case FLAG: fputs("true or false", f); break;
	case LIST: fputs("a list with at least one element", f); break;
	case OBJECT: fputs("an object", f); break;
	case WORD:
		for (const char *const *w = k->words; *w; w++)
			fprintf(f, "%s\"%s\"", w == k->words ? "" : w[1] ? ", " : " or ", *w);
	}
}

/* jansson keeps no text: 1e1 is shown as 10.0, so that it does not look like an integer. */
static void put_real(FILE *f, double v)
{
	char text[32];
	snprintf(text, sizeof text, "%g", v);
	fprintf(f, "%s%s", text, text[strspn(text, "-0123456789")] ? "" : ".0");
}

static void put_found(FILE *f, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: fputs("an object", f); break;
	case JSON_ARRAY: fputs(json_array_size(v) ? "a list" : "an empty list", f); break;
	case JSON_STRING: fprintf(f, "\"%.*s\"", INPUT_SHOWN, json_string_value(v)); break;
	case JSON_INTEGER: fprintf(f, "%lld", (long long)json_integer_value(v)); break;
	case JSON_REAL: put_real(f, json_real_value(v)); break;
	case JSON_TRUE: fputs("true", f); break;
	case JSON_FALSE: fputs("false", f); break;
	case JSON_NULL: fputs("null", f);
	}
}

static int word_index(const char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -1;
}

static int all_texts(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!json_is_string(json_array_get(list, i)))
			return 0;
	return json_is_array(list);
}

static int fits(const json_t *v, const struct key *k)
{
	long long n = json_integer_value(v);
	switch (k->kind) {
	case TEXT: return json_is_string(v) && text_keeps(TEXT_FREE, json_string_value(v));
	case NOTES: return json_is_string(v) || all_texts(v);
	case WORD: return json_is_string(v) && word_index(k->words, json_string_value(v)) >= 0;
	case INTEGER: return json_is_integer(v) && n >= k->lo && n <= k->hi;
	case POSITIVE: return json_is_number(v) && json_number_value(v) > 0;
	case NOT_NEGATIVE: return json_is_number(v) && json_number_value(v) >= 0;
	case FLAG: return json_is_boolean(v);
	case LIST: return json_is_array(v) && json_array_size(v);
	case OBJECT: return json_is_object(v);
	}
	return 0;
}

static int bad_value(const struct input *r, const char *path, const json_t *v, const struct key *k)
{
	char text[256] = "";
	FILE *f = fmemopen(text, sizeof text, "w");
	if (f) {
		fprintf(f, "%s is ", k->name);
		put_found(f, v);
		fputs("; it must be ", f);
		put_wanted(f, k);
		fclose(f);
	}
	return input_bad(r, path, NULL, "%s", text);
}

static int unknown_key(const struct input *r, const char *path, const char *name,
		       const struct key *keys)
{
	char known[256] = "";
	for (const struct key *k = keys; k->name; k++) {
		size_t n = strlen(known);
		snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", k->name);
	}
	return input_bad(r, path, name, "unknown key \"%.*s\"; known here: %s", INPUT_SHOWN, name,
			 known);
}

static const struct key *find_key(const struct key *keys, const char *name)
{
	for (; keys->name; keys++)
		if (!strcmp(keys->name, name))
			return keys;
	return NULL;
}

int input_check(const struct input *r, const json_t *value, const char *path, const struct key *k)
{
	return fits(value, k) || bad_value(r, path, value, k);
}

int input_check_object(const struct input *r, const json_t *object, const char *path,
		       const struct key *keys)
{
	static const struct key whole = { "this", .kind = OBJECT };
	char below[INPUT_PATH];
	if (!input_check(r, object, path, &whole))
		return 0;
	/* jansson's iterators take a non-const object but do not change it */
	for (void *i = json_object_iter((json_t *)object); i;
	     i = json_object_iter_next((json_t *)object, i)) {
		const char *name = json_object_iter_key(i);
		const struct key *k = find_key(keys, name);
		if (!k)
			return unknown_key(r, path, name, keys);
		snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", name);
		if (!input_check(r, json_object_iter_value(i), below, k))
			return 0;
	}
	for (const struct key *k = keys; k->name; k++)
		if (k->required && !json_object_get(object, k->name))
			return input_bad(r, path, NULL, "%s is missing; it must be given here",
					 k->name);
	return 1;
}

/* ---- values -------------------------------------------------------------------- */
const json_t *input_member(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

const json_t *input_element(const json_t *list, size_t index)
{
	return json_array_get(list, index);
}

long long input_integer(const json_t *v, long long absent)
{
	return v ? json_integer_value(v) : absent;
}

double input_number(const json_t *v, double absent)
{
	return v ? json_number_value(v) : absent;
}

float input_float(double x)
{
	return x > 0 && (float)x <= 0 ? FLT_TRUE_MIN : (float)x;
}

int input_flag(const json_t *v)
{
	return json_is_true(v);
}

int input_is_null(const json_t *v)
{
	return json_is_null(v);
}

const char *input_text(const json_t *v)
{
	return json_string_value(v);
}

int input_word(const json_t *v, const char *const *words, int absent)
{
	return v ? word_index(words, json_string_value(v)) : absent;
}

/* ---- positions --------------------------------------------------------------------- */
/* Finds the line and column of a value in a JSON text, for messages about well-formed but wrong
 * values. jansson knows positions only while it parses.
 *
 * jansson has accepted the text, so this scan checks nothing and only counts brackets outside of
 * strings. */

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
