/* tokens.h - splits a source file of C, C++ or CUDA into tokens. A token is its spelling, ended by
 * '\0'; comments, blanks, line breaks and line splices are dropped. A directive begins with
 * TOKEN_DIRECTIVE and ends with TOKEN_END. The opening parenthesis of a macro's parameters is
 * TOKEN_ARGUMENTS. No other token begins with a newline. A digraph is read as two punctuators. */
#ifndef HARNESS_COMPILE_TOKENS_H
#define HARNESS_COMPILE_TOKENS_H
#include <string.h>

#define TOKEN_DIRECTIVE "\n#"
#define TOKEN_END "\n"
#define TOKEN_ARGUMENTS "\n("

/* guarded: an include guard encloses the whole file; its tokens are left out. */
struct token_file {
	char *text; /* the caller frees it */
	const char *begin, *end;
	int guarded;
};

/* 0: the file cannot be read. */
int file_tokens(struct token_file *, const char *path);

static inline const char *token_after(const char *token)
{
	return token + strlen(token) + 1;
}

/* Change of the conditional depth by a directive of this name: 1, 0 or -1. */
int directive_depth(const char *name);

#endif
