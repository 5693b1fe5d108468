/* utf8.c - finds the characters of UTF-8 and control characters among them, writes these as
 * escapes, and makes any text valid UTF-8. */
#include "base.h"
#include "text_rule.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
