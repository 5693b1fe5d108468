/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.h - builds JSON documents and prints them. */
#ifndef HARNESS_BASE_JSON_OUT_H
#define HARNESS_BASE_JSON_OUT_H

#include <stdio.h>

/* A document, in the order of the calls. All functions accept NULL. After a failure they do
 * nothing, and out_print reports it. The key is NULL for an element of a list and for the whole
 * document. */
struct json_out;
struct json_out *out_new(void);
void out_object(struct json_out *, const char *key);
void out_list(struct json_out *, const char *key);
void out_end(struct json_out *);                                     /* of the innermost */
void out_text(struct json_out *, const char *key, const char *text); /* NULL: null */
void out_integer(struct json_out *, const char *key, long long value);
/* Rounded to `decimals`, an integer for 0; NaN and infinities become null. */
void out_number(struct json_out *, const char *key, double value, int decimals);
/* Writes the document and a newline, and frees it. The outer `broken` levels have one element per
 * line; inner ones are on one line. 0 + complain. */
int out_print(struct json_out *, int broken, FILE *);

/* Writes one text as a JSON string. Invalid UTF-8 becomes U+FFFD, as in documents. */
void out_quoted(FILE *, const char *text);

#endif
