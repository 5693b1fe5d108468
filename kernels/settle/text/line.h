/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - reads one line of a text, item by item. */
#ifndef KERNELS_SETTLE_TEXT_LINE_H
#define KERNELS_SETTLE_TEXT_LINE_H

#include <stddef.h>
#include <stdint.h>

struct line {
	const char *at; /* ends with a 0, in the place of the line's end */
	int number;
	/* What was expected where the line has something else; empty: it is as expected so far.
	 * After that nothing is taken. */
	char expected[160];
};

/* Each takes an item that is expected; where the line has another one it takes nothing, sets
 * `expected` and returns 0. */
int line_word(struct line *, const char *word);
/* A decimal number without a sign or leading zeros. */
long long line_number(struct line *, long long least, long long most, const char *what);
/* As many hexadecimal digits, of lower case. */
uint64_t line_hex(struct line *, int digits, const char *what);
/* Whether the word is next; takes it. */
int line_has(struct line *, const char *word);
/* The place of the next word in a list that ends with NULL. A word of it must not be followed by
 * another letter or digit. */
int line_one_of(struct line *, const char *const *words, const char *what);
/* All up to a blank, 1 to size - 1 characters. */
int line_token(struct line *, char *text, size_t size, const char *what);
/* The same between quotation marks, with them. */
int line_quoted(struct line *, char *text, size_t size, const char *what);
int line_end(struct line *);
int line_expected(struct line *, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
