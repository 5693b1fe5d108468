/* utf8.c - makes any text valid UTF-8, with jansson's check of validity. */
#include "base.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at s, at most `left`; 0: invalid. */
static size_t character(const char *s, size_t left)
{
	for (size_t n = 1; n <= 4 && n <= left; n++) {
		json_t *one = json_stringn(s, n);
		json_decref(one);
		if (one)
			return n;
	}
	return 0;
}

char *utf8_text(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	const size_t length = strlen(text);
	json_t *whole = json_stringn(text, length);
	char *copy = malloc((whole ? 1 : strlen(replacement)) * length + 1), *to = copy;
	for (size_t at = 0; copy && at < length;) {
		const size_t n = whole ? length : character(text + at, length - at);
		const size_t m = n ? n : strlen(replacement);
		memcpy(to, n ? text + at : replacement, m);
		to += m;
		at += n ? n : 1;
	}
	json_decref(whole);
	if (copy)
		*to = '\0';
	return copy;
}
