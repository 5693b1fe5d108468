/* SPDX-License-Identifier: Apache-2.0 */
/* text_rule.h - which characters texts from outside may have: those of databases, scenarios,
 * models, headers, captured files and plug-ins' names. Each kind of text has one rule. A text that
 * breaks it is refused where it is read, and so never reaches generated C, gnuplot, a shell or a
 * terminal. */
#ifndef HARNESS_BASE_TEXT_RULE_H
#define HARNESS_BASE_TEXT_RULE_H

#include <stddef.h>

enum text_rule {
	TEXT_WORD,    /* a name that becomes an identifier of C: letters, digits and '_' */
	TEXT_NAME,    /* of a model, an architecture, a protocol: also '.', '-', '+', '@' and ':' */
	TEXT_CHOICE,  /* names and values: also '=' and blanks */
	TEXT_BATCH,   /* vLLM's batch grammar */
	TEXT_HEX,     /* a hash */
	TEXT_PRINTED, /* printable ASCII */
	TEXT_COMMENT, /* printable ASCII that can stand in a comment or string of C */
	TEXT_DRAWN,   /* UTF-8 that can stand between two "'" of gnuplot */
	TEXT_FREE,    /* UTF-8 without control characters */
	TEXT_LINES,   /* the same, in lines, with tabs */
	NUM_TEXT_RULES
};

/* The rule in words: "letters, digits and '_'". */
const char *text_rule_says(enum text_rule);
/* The offset of the first byte that breaks the rule in a text of n bytes; n: none does. An empty
 * text keeps all rules. */
size_t text_fault(enum text_rule, const char *text, size_t n);
int text_keeps(enum text_rule, const char *text);
/* Replaces what breaks the rule by '_': for texts of other programs that attune stores, such as a
 * compiler's message. */
void text_mend(enum text_rule, char *text);

/* ---- UTF-8 ------------------------------------------------------------------ */
/* Bytes of the UTF-8 character at the text, at most `left`; 0: none. */
size_t utf8_character(const char *text, size_t left);
/* Bytes of the control character at the text, 0: it is none. U+0080 to U+009F, line separators and
 * marks of direction such as U+202E are control characters, too. *code: its code. */
size_t control_character(const char *text, int *code);
/* How it is shown, as in C: "\\n", "\\x1b", "\\u009b". Returns the length. */
enum { CONTROL_ESCAPE = 8 };
int control_escape(char to[CONTROL_ESCAPE], int code);

#endif
