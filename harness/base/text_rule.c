/* SPDX-License-Identifier: Apache-2.0 */
/* text_rule.c - the table of rules for texts from outside, and the checks by it; UTF-8. */
#include "text_rule.h"
#include "base.h"
#include "kernels/spec/choice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define NAME LETTERS DIGITS "_.-+@:"

static const struct {
	const char *says;
	const char *allowed;  /* the only characters; NULL: the next members say */
	int is_ascii;         /* printable ASCII; else UTF-8 */
	const char *lines;    /* control characters that are allowed */
	const char *never[4]; /* strings that it may not contain */
} rules[NUM_TEXT_RULES] = {
	// clang-format off
	[TEXT_WORD]    = { "letters, digits and '_'", .allowed = LETTERS DIGITS "_" },
	[TEXT_NAME]    = { "letters, digits, '_', '.', '-', '+', '@' and ':'", .allowed = NAME },
	[TEXT_CHOICE]  = { "letters, digits, blanks, '_', '.', '-', '+', '@', ':' and '='", .allowed = NAME "= " },
	[TEXT_BATCH]   = { "vLLM's batch grammar: digits, 'q', 's', 'k' and '_'", .allowed = DIGITS "qsk_" },
	[TEXT_HEX]     = { "the digits of a hash: 0 to 9, a to f", .allowed = DIGITS "abcdef" },
	[TEXT_PRINTED] = { "printable ASCII", .is_ascii = 1 },
	/* a trigraph is a backslash or '#' to old compilers; a backslash joins lines */
	[TEXT_COMMENT] = { "printable ASCII without '*/', '/*', '\?\?' and backslashes", .is_ascii = 1,
			   .never = { "*/", "/*", "\?\?", "\\" } },
	/* gnuplot's eval runs what stands in backquotes */
	[TEXT_DRAWN]   = { "UTF-8 without control characters and backquotes", .never = { "`" } },
	[TEXT_FREE]    = { "UTF-8 without control characters", .is_ascii = 0 },
	[TEXT_LINES]   = { "UTF-8 without control characters but line feeds and tabs", .lines = "\n\t" },
	// clang-format on
};

const char *text_rule_says(enum text_rule rule)
{
	return rules[rule].says;
}

/* The number of bytes of the character at `text`; 0: the rule does not allow it. */
static size_t allowed(enum text_rule rule, const char *text, size_t left)
{
	int code;
	const char *const *never = rules[rule].never;
	if (!*text)
		return 0;
	if (rules[rule].allowed)
		return strchr(rules[rule].allowed, *text) != NULL;
	if (rules[rule].lines && strchr(rules[rule].lines, *text))
		return 1;
	if (control_character(text, &code) || (rules[rule].is_ascii && (unsigned char)*text > 0x7e))
		return 0;
	for (size_t i = 0; i < COUNT(rules->never) && never[i]; i++)
		if (!strncmp(text, never[i], strlen(never[i])))
			return 0;
	return utf8_character(text, left);
}

size_t text_fault(enum text_rule rule, const char *text, size_t n)
{
	size_t at = 0;
	if (rules[rule].allowed)
		at = strspn(text, rules[rule].allowed);
	for (size_t step; at < n && (step = allowed(rule, text + at, n - at)); at += step)
		;
	return at < n ? at : n;
}

int text_keeps(enum text_rule rule, const char *text)
{
	const size_t n = strlen(text);
	return text_fault(rule, text, n) == n;
}

void text_mend(enum text_rule rule, char *text)
{
	const size_t n = strlen(text);
	for (size_t at = 0, step; at < n; at += step ? step : 1)
		if (!(step = allowed(rule, text + at, n - at)))
			text[at] = '_';
}

/* ---- UTF-8 ------------------------------------------------------------------------- */
/* Finds the characters of UTF-8 and control characters among them, writes these as escapes, and makes
 * any text valid UTF-8. */

/* Overlong forms, surrogates and what is above U+10FFFF are invalid (RFC 3629). */
size_t utf8_character(const char *text, size_t left)
{
	static const unsigned long least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	if (!left || s[0] < 0x80)
		return left != 0;
	const size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	unsigned long code = s[0] & (0x7fu >> n);
	if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	return code < least[n] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : n;
}

/* Marks that reverse the direction of text, and line separators. With them a terminal shows another
 * text than the one in the file. */
static int is_layout_mark(int code)
{
	return code == 0x61c || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

size_t control_character(const char *text, int *code)
{
	const unsigned char *s = (const unsigned char *)text;
	const size_t n = s[0] < 0x80 ? 1 : utf8_character(text, strnlen(text, 3));
	*code = s[0];
	if (n == 2)
		*code = (s[0] & 0x1f) << 6 | (s[1] & 0x3f);
	if (n == 3)
		*code = (s[0] & 0xf) << 12 | (s[1] & 0x3f) << 6 | (s[2] & 0x3f);
	if (n == 1)
		return s[0] < 0x20 || s[0] == 0x7f;
	return n && (*code < 0xa0 || is_layout_mark(*code)) ? n : 0;
}

int control_escape(char to[CONTROL_ESCAPE], int code)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */
	if (code >= 7 && code < 14)
		return sprintf(to, "\\%c", letters[code - 7]);
	return sprintf(to, code < 0x80 ? "\\x%02x" : "\\u%04x", code);
}

char *utf8_text(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	const size_t length = strlen(text), most = sizeof replacement - 1;
	char *copy = malloc(most * length + 1), *to = copy;
	for (size_t at = 0; copy && at < length;) {
		const size_t n = utf8_character(text + at, length - at);
		const size_t m = n ? n : most;
		memcpy(to, n ? text + at : replacement, m);
		to += m;
		at += n ? n : 1;
	}
	if (copy)
		*to = '\0';
	return copy;
}
