/* json_out.h - JSON on its way out. jansson stays inside json_out.c, which escapes texts and writes
 * numbers, and utf8.c, which checks that texts are UTF-8; other files say what is in the
 * document. */
#ifndef HARNESS_BASE_JSON_OUT_H
#define HARNESS_BASE_JSON_OUT_H

#include <stdio.h>

/* A document that is being made, in the order of the calls. All functions accept NULL, and after
 * a failure they do nothing until out_print reports it. The key is NULL for an element of a list
 * and for the whole document. */
struct json_out;
struct json_out *out_new(void);
void out_object(struct json_out *, const char *key);
void out_list(struct json_out *, const char *key);
void out_end(struct json_out *);                                     /* of the innermost */
void out_text(struct json_out *, const char *key, const char *text); /* NULL: null */
void out_integer(struct json_out *, const char *key, long long value);
/* Rounded to so many decimals, an integer for 0; NaN and infinities are null. */
void out_number(struct json_out *, const char *key, double value, int decimals);
/* Writes the document, a newline behind it, and frees it. The outer `broken` levels have one
 * element a line, the others are on one line. 0 + complain. */
int out_print(struct json_out *, int broken, FILE *);

/* One text as a JSON string. What is not UTF-8 in it becomes U+FFFD, here and in
 * documents: utf8.c. */
void out_quoted(FILE *, const char *text);

#endif
