/* text_rule.c - the table of rules for texts from outside, and the checks by it. */
#include "text_rule.h"
#include "kernels/spec/choice.h"
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
