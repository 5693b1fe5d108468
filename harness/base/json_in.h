/* SPDX-License-Identifier: Apache-2.0 */
/* json_in.h - reads JSON files and checks them against tables of keys. Every error is one line,
 * "file:line:column: what is wrong; what would be right". A value is an opaque struct json_t of
 * jansson. */
#ifndef HARNESS_BASE_JSON_IN_H
#define HARNESS_BASE_JSON_IN_H

#include <stddef.h>

struct json_t;

enum { INPUT_PATH = 80, INPUT_SHOWN = 40 /* characters of a text quoted in a message */ };

enum kind {
	TEXT,
	NOTES /* a text or a list of texts */,
	WORD,
	INTEGER,
	POSITIVE,
	NOT_NEGATIVE,
	FLAG,
	LIST,
	OBJECT
};

/* A member that an object may have. A table of them ends with a NULL name. */
struct key {
	const char *name;
	enum kind kind;
	int required;
	long long lo, hi;         /* INTEGER */
	const char *const *words; /* WORD; ends with NULL */
};

struct input {
	const char *file; /* not owned */
	int above;        /* lines of the file above this text */
	char *text;
	struct json_t *root;
};

/* Functions that return an int return 0 after a complaint. `path` locates a value in the file:
 * "scenarios/3/batch"; "" is the whole. */
int input_open(struct input *, const char *path);
/* The same of one line of a file of JSON lines, which has the number `line`. The bytes are
 * copied. */
int input_line(struct input *, const char *path, int line, const char *bytes, size_t n);
void input_close(struct input *);
int input_check(const struct input *, const struct json_t *value, const char *path,
		const struct key *);
int input_check_object(const struct input *, const struct json_t *object, const char *path,
		       const struct key *keys);
/* Complains and returns 0. key: points at the name of this member of the object at `path`; or
 * NULL. */
int input_bad(const struct input *, const char *path, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* NULL if absent, or if the object or list is NULL. */
const struct json_t *input_member(const struct json_t *object, const char *key);
const struct json_t *input_element(const struct json_t *list, size_t index);
/* For checked values. Return `absent` if the value is NULL. */
long long input_integer(const struct json_t *, long long absent);
double input_number(const struct json_t *, double absent);
/* As a float, for members where 0 has a meaning of its own: what is above 0 stays above it, as the
 * smallest float, which no shape has. */
float input_float(double);
int input_flag(const struct json_t *);
int input_is_null(const struct json_t *);
const char *input_text(const struct json_t *);
int input_word(const struct json_t *, const char *const *words, int absent);

/* Line and column, from 1, of a value in a valid JSON text, or of a member's name.
 * A missing value has the position of its parent. Columns count characters. */
void json_place(const char *text, const char *path, const char *key, int *line, int *column);

#endif
