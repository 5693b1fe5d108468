/* tokens.h - a source file as tokens, as C, C++ and CUDA have them. Each is its spelling, ended
 * by '\0', without comments, blanks, line breaks and spliced lines. A directive begins with
 * TOKEN_DIRECTIVE and ends with TOKEN_END; the parenthesis by which a macro takes arguments is
 * TOKEN_ARGUMENTS. No other token begins with a newline. Digraphs are read as two punctuators. */
#ifndef HARNESS_COMPILE_TOKENS_H
#define HARNESS_COMPILE_TOKENS_H
#include <string.h>

#define TOKEN_DIRECTIVE "\n#"
#define TOKEN_END "\n"
#define TOKEN_ARGUMENTS "\n("

/* An include guard around the whole file is not among the tokens. */
struct token_file {
	char *text; /* the caller's to free */
	const char *begin, *end;
	int guarded;
};

/* 0 when the file cannot be read. */
int file_tokens(struct token_file *, const char *path);

static inline const char *token_after(const char *token)
{
	return token + strlen(token) + 1;
}

/* What a directive of this name adds to the depth of conditionals. */
int directive_depth(const char *name);

#endif
