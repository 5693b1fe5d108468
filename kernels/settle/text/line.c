/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - reads the items of a line. */
#include "line.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int line_expected(struct line *l, const char *format, ...)
{
	va_list ap;
	if (*l->expected)
		return 0;
	va_start(ap, format);
	vsnprintf(l->expected, sizeof l->expected, format, ap);
	va_end(ap);
	return 0;
}

static int is_wordy(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

int line_has(struct line *l, const char *word)
{
	const size_t n = strlen(word);
	if (*l->expected || strncmp(l->at, word, n))
		return 0;
	l->at += n;
	return 1;
}

int line_word(struct line *l, const char *word)
{
	return line_has(l, word) || line_expected(l, "\"%s\"", word);
}

long long line_number(struct line *l, long long least, long long most, const char *what)
{
	const char *at = l->at;
	long long n = 0;
	int digits = 0;
	if (*l->expected)
		return 0;
	for (; at[digits] >= '0' && at[digits] <= '9' && digits < 18; digits++)
		n = 10 * n + (at[digits] - '0');
	if (!digits || (digits > 1 && *at == '0') || (at[digits] >= '0' && at[digits] <= '9') ||
	    n < least || n > most)
		return line_expected(l, "%s, a number of %lld to %lld", what, least, most);
	l->at += digits;
	return n;
}

uint64_t line_hex(struct line *l, int digits, const char *what)
{
	uint64_t n = 0;
	if (*l->expected)
		return 0;
	for (int i = 0; i < digits; i++) {
		const char c = l->at[i];
		const int is_digit = c >= '0' && c <= '9';
		if (!is_digit && !(c >= 'a' && c <= 'f')) {
			line_expected(l, "%s, %d hexadecimal digits", what, digits);
			return 0;
		}
		n = n << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
	}
	l->at += digits;
	return n;
}

int line_one_of(struct line *l, const char *const *words, const char *what)
{
	if (*l->expected)
		return 0;
	for (int i = 0; words[i]; i++) {
		const size_t n = strlen(words[i]);
		if (strncmp(l->at, words[i], n) || is_wordy(l->at[n]))
			continue;
		l->at += n;
		return i;
	}
	return line_expected(l, "%s, such as %s", what, words[0]);
}

static int take(struct line *l, size_t n, char *text, size_t size, const char *what)
{
	if (!n || n >= size)
		return line_expected(l, "%s, of 1 to %zu characters", what, size - 1);
	memcpy(text, l->at, n);
	text[n] = '\0';
	l->at += n;
	return 1;
}

int line_token(struct line *l, char *text, size_t size, const char *what)
{
	*text = '\0';
	return !*l->expected && take(l, strcspn(l->at, " "), text, size, what);
}

int line_quoted(struct line *l, char *text, size_t size, const char *what)
{
	const char *end = *l->at == '"' ? strchr(l->at + 1, '"') : NULL;
	*text = '\0';
	if (*l->expected)
		return 0;
	return end ? take(l, (size_t)(end + 1 - l->at), text, size, what)
		   : line_expected(l, "%s between quotation marks", what);
}

int line_end(struct line *l)
{
	return *l->expected ? 0 : !*l->at || line_expected(l, "the end of the line");
}
