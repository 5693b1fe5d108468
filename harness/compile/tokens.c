/* tokens.c - the lexer behind tokens.h. */
#include "compile.h"
#include "tokens.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
	const char *at;
	char *to;                  /* output; three bytes of room for each byte of the source */
	int line_starts, spaced;   /* since the last token */
	int place;                 /* of the next token in its directive; 0: outside of one */
	int is_define, is_include; /* the directive */
};

static const char *over_splices(const char *p)
{
	while (p[0] == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n')))
		p += p[1] == '\n' ? 2 : 3;
	return p;
}

static char peek(struct lexer *l)
{
	return *(l->at = over_splices(l->at));
}

static char peek_second(struct lexer *l)
{
	return peek(l) ? *over_splices(l->at + 1) : '\0';
}

static void take(struct lexer *l)
{
	*l->to++ = peek(l);
	l->at++;
}

static int is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static void put(struct lexer *l, const char *token)
{
	l->to = stpcpy(l->to, token) + 1;
}

static void end_line(struct lexer *l)
{
	if (l->place)
		put(l, TOKEN_END);
	l->place = l->is_define = l->is_include = 0;
	l->line_starts = 1;
}

static void skip_comment(struct lexer *l)
{
	if (peek_second(l) == '/') {
		while (peek(l) && *l->at != '\n')
			l->at++;
		return;
	}
	l->at = over_splices(l->at + 1) + 1;
	while (peek(l) && !(*l->at == '*' && peek_second(l) == '/'))
		l->at++;
	for (int i = 0; i < 2 && peek(l); i++)
		l->at++;
}

static void skip_blanks(struct lexer *l)
{
	for (l->spaced = 0;; l->spaced = 1) {
		const char c = peek(l), second = peek_second(l);
		if (c == '/' && (second == '/' || second == '*'))
			skip_comment(l);
		else if (!isspace((unsigned char)c))
			return;
		else if (*l->at++ == '\n')
			end_line(l);
	}
}

static void take_number(struct lexer *l)
{
	char last = 0;
	for (char c; (c = peek(l)); last = c)
		if (is_name(c) || c == '.' || (c == '\'' && is_name(peek_second(l))) ||
		    ((c == '+' || c == '-') && last && strchr("eEpP", last)))
			take(l);
		else
			return;
}

static void take_name(struct lexer *l)
{
	while (is_name(peek(l)))
		take(l);
}

/* An unclosed literal ends with its line. */
static void take_quoted(struct lexer *l, char close)
{
	take(l);
	for (char c; (c = peek(l)) && c != '\n';) {
		take(l);
		if (c == close)
			break;
		if (c == '\\' && peek(l) && *l->at != '\n')
			take(l);
	}
	take_name(l);
}

/* A raw string, from its quote on. Line splices inside are kept. */
static void take_raw(struct lexer *l)
{
	const char *open = l->at, *paren = strchr(open, '(');
	const size_t delimiter = paren ? (size_t)(paren - open) - 1 : 0;
	const char *end = paren;
	while (end && (end = strchr(end + 1, ')')))
		if (!strncmp(end + 1, open + 1, delimiter) && end[1 + delimiter] == '"')
			break;
	const size_t length = end ? (size_t)(end - open) + delimiter + 2 : strlen(open);
	l->to = (char *)memcpy(l->to, open, length) + length;
	l->at = open + length;
	take_name(l);
}

/* A name, or a literal with its prefix. */
static void take_word(struct lexer *l)
{
	static const char *const prefixes[] = { "", "L", "u", "U", "u8" };
	const char *start = l->to;
	take_name(l);
	const size_t length = (size_t)(l->to - start);
	const char quote = peek(l);
	const int raw = quote == '"' && l->to[-1] == 'R';
	int is_prefix = raw && length == 1;
	for (size_t i = 0; i < COUNT(prefixes); i++)
		is_prefix |= length - (size_t)raw == strlen(prefixes[i]) &&
			     !strncmp(start, prefixes[i], length - (size_t)raw);
	if (is_prefix && raw)
		take_raw(l);
	else if (is_prefix && (quote == '"' || quote == '\''))
		take_quoted(l, quote);
}

static void take_punctuator(struct lexer *l)
{
	static const char *const longest_first[] = { "<<=", ">>=", "...", "->*", "<=>", "<<", ">>",
						     "<=",  ">=",  "==",  "!=",  "&&",  "||", "++",
						     "--",  "+=",  "-=",  "*=",  "/=",  "%=", "&=",
						     "|=",  "^=",  "->",  ".*",  "::",  "##" };
	char ahead[3] = { peek(l), peek_second(l) };
	ahead[2] = ahead[1] ? *over_splices(over_splices(l->at + 1) + 1) : '\0';
	size_t length = 1;
	for (size_t i = 0; length == 1 && i < COUNT(longest_first); i++)
		if (*ahead == *longest_first[i] &&
		    !strncmp(ahead, longest_first[i], strlen(longest_first[i])))
			length = strlen(longest_first[i]);
	while (length--)
		take(l);
}

static void take_token(struct lexer *l)
{
	const char c = peek(l), second = peek_second(l);
	if (l->is_include && l->place == 2 && c == '<')
		take_quoted(l, '>');
	else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)second)))
		take_number(l);
	else if (is_name(c))
		take_word(l);
	else if (c == '"' || c == '\'')
		take_quoted(l, c);
	else
		take_punctuator(l);
	*l->to++ = '\0';
}

static void next_token(struct lexer *l)
{
	const char c = peek(l);
	const char *start = l->to;
	if (c == '#' && l->line_starts) {
		l->at++;
		put(l, TOKEN_DIRECTIVE);
		l->place = 1;
	} else if (c == '(' && l->is_define && l->place == 3 && !l->spaced) {
		l->at++;
		put(l, TOKEN_ARGUMENTS);
		l->place++;
	} else {
		take_token(l);
		l->is_define |= l->place == 1 && !strcmp(start, "define");
		l->is_include |= l->place == 1 && !strcmp(start, "include");
		l->place += l->place > 0;
	}
	l->line_starts = 0;
}

int directive_depth(const char *name)
{
	return !strncmp(name, "if", 2) ? 1 : strcmp(name, "endif") ? 0 : -1;
}

/* Leaves out `#ifndef X #define X` at the beginning and the matching `#endif` at the end. */
static void leave_guard_out(struct token_file *f)
{
	const char *at = f->begin, *name = NULL;
	const char *const opens[] = { TOKEN_DIRECTIVE, "ifndef", NULL, TOKEN_END,
				      TOKEN_DIRECTIVE, "define", NULL, TOKEN_END };
	for (size_t i = 0; i < COUNT(opens); at = token_after(at), i++) {
		if (at == f->end || (opens[i] ? strcmp(at, opens[i]) : name && strcmp(at, name)))
			return;
		name = opens[i] ? name : at;
	}
	const char *begin = at;
	for (int depth = 1; at < f->end; at = token_after(at)) {
		if (strcmp(at, TOKEN_DIRECTIVE))
			continue;
		depth += directive_depth(token_after(at));
		if (depth == 1 && !strncmp(token_after(at), "el", 2))
			return;
		if (depth == 0) {
			f->guarded = token_after(token_after(token_after(at))) == f->end;
			break;
		}
	}
	if (f->guarded) {
		f->begin = begin;
		f->end = at;
	}
}

int file_tokens(struct token_file *f, const char *path)
{
	char *source = source_text(path);
	f->text = source ? malloc(3 * strlen(source) + 4) : NULL;
	if (f->text) {
		struct lexer l = { .at = source, .to = f->text, .line_starts = 1 };
		for (skip_blanks(&l); *l.at; skip_blanks(&l))
			next_token(&l);
		end_line(&l);
		*f = (struct token_file){ .text = f->text, .begin = f->text, .end = l.to };
		leave_guard_out(f);
	}
	free(source);
	return f->text != NULL;
}
