/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - computes the identity of a source: a hash of its tokens and of the tokens of our
 * files that it includes, in preprocessor order. Sources with the same identity compile to the
 * same code except for line numbers and file names.
 *
 *   - `#include "x"` is replaced by the tokens of x. If x is not found, or includes itself
 *     without a guard, the directive itself is hashed.
 *   - `#include <x>` is skipped: the cache key holds the toolkit's version.
 *   - Conditionals are not evaluated. They are hashed with all their branches.
 *   - A file is read again unless it was certainly read before: always without a guard; with
 *     a guard, if the branch of the earlier include does not enclose this one.
 *   - Blanks are skipped, even between tokens that a macro turns into a string. */
#include "compile.h"
#include "harness/base/base.h"
#include "kernels/attune_plugin.h"
#include "kernels/spec/kernel.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- tokens ------------------------------------------------------------------------ */
/* Splits a source file of C, C++ or CUDA into tokens. A token is its spelling, ended by
 * '\0'; comments, blanks, line breaks and line splices are dropped. A directive begins with
 * TOKEN_DIRECTIVE and ends with TOKEN_END. The opening parenthesis of a macro's parameters is
 * TOKEN_ARGUMENTS. No other token begins with a newline. A digraph is read as two punctuators. */

#define TOKEN_DIRECTIVE "\n#"
#define TOKEN_END "\n"
#define TOKEN_ARGUMENTS "\n("

/* guarded: an include guard encloses the whole file; its tokens are left out. */
struct token_file {
	char *text; /* the caller frees it */
	const char *begin, *end;
	int guarded;
};

static const char *token_after(const char *token)
{
	return token + strlen(token) + 1;
}

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

static int directive_depth(const char *name)
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

static int file_tokens(struct token_file *f, const char *path)
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

/* ---- identities -------------------------------------------------------------------- */

enum { MAX_BRANCHES = 256 };

/* The state of one hash. */
struct stream {
	const char *root;
	XXH3_state_t *hash;
	int failed;
	/* Numbers of the branches that enclose the next token; branch 0 is the whole source. */
	int branch[MAX_BRANCHES], depth, last_branch;
	/* Guarded files and the branches that included them. */
	struct entered {
		char *path;
		int branch;
	} * entered;
	size_t num_entered;
};

/* The chain of including files, innermost first. */
struct above {
	const char *path;
	const struct above *up;
};

static void emit(struct stream *s, const char *token)
{
	s->failed |= XXH3_128bits_update(s->hash, token, strlen(token) + 1) != XXH_OK;
}

static void follow_branch(struct stream *s, const char *directive)
{
	const int step = directive_depth(directive);
	s->depth += step > 0 || s->depth > 0 ? step : 0;
	if (s->depth == MAX_BRANCHES) {
		s->failed = 1;
		s->depth = 0;
	}
	if (s->depth && (step > 0 || !strncmp(directive, "el", 2)))
		s->branch[s->depth] = ++s->last_branch;
}

static int was_read(const struct stream *s, const char *path)
{
	for (size_t i = 0; i < s->num_entered; i++)
		for (int b = 0; b <= s->depth; b++)
			if (s->branch[b] == s->entered[i].branch &&
			    !strcmp(s->entered[i].path, path))
				return 1;
	return 0;
}

static void note_read(struct stream *s, const char *path)
{
	struct entered *more = realloc(s->entered, (s->num_entered + 1) * sizeof *more);
	char *copy = strdup(path);
	s->entered = more ? more : s->entered;
	if (!more || !copy) {
		free(copy);
		s->failed = 1;
		return;
	}
	s->entered[s->num_entered++] =
	    (struct entered){ .path = copy, .branch = s->branch[s->depth] };
}

static int enter(struct stream *s, const char *path, const struct above *up);

/* Searches as compilers do: the folder of the including file, then the root. */
static int enter_included(struct stream *s, const char *quoted, const struct above *up)
{
	char path[2 * PATH_MAX];
	const int length = (int)strcspn(quoted + 1, "\"");
	const int is_absolute = quoted[1] == '/';
	const int folder = is_absolute ? 0 : (int)(strrchr(up->path, '/') + 1 - up->path);
	snprintf(path, sizeof path, "%.*s%.*s", folder, up->path, length, quoted + 1);
	const int read = enter(s, path, up);
	if (read || is_absolute || !s->root)
		return read > 0;
	snprintf(path, sizeof path, "%s/%.*s", s->root, length, quoted + 1);
	return enter(s, path, up) > 0;
}

static const char *behind_directive(const char *at)
{
	while (strcmp(at, TOKEN_END))
		at = token_after(at);
	return token_after(at);
}

/* Returns the next token to read. */
static const char *read_directive(struct stream *s, const char *at, const struct above *here)
{
	const char *name = token_after(at);
	if (!strcmp(name, "include")) {
		const char *what = token_after(name);
		if (*what == '<' || (*what == '"' && enter_included(s, what, here)))
			return behind_directive(at);
	}
	if (!strcmp(name, "pragma") && !strcmp(token_after(name), "once")) {
		note_read(s, here->path);
		return behind_directive(at);
	}
	follow_branch(s, name);
	emit(s, at);
	return name;
}

/* 0: the file cannot be read; -1: it includes itself. */
static int enter(struct stream *s, const char *path, const struct above *up)
{
	char real[PATH_MAX];
	const struct above here = { real, up };
	struct token_file f;
	const int depth = s->depth;
	errno = 0;
	if (!realpath(path, real)) {
		s->failed |= errno == ENOMEM;
		return 0;
	}
	if (was_read(s, real))
		return 1;
	for (const struct above *a = up; a; a = a->up)
		if (!strcmp(a->path, real))
			return -1;
	if (!file_tokens(&f, real)) {
		s->failed |= errno == ENOMEM;
		return 0;
	}
	if (f.guarded)
		note_read(s, real);
	for (const char *at = f.begin; at < f.end;)
		if (strcmp(at, TOKEN_DIRECTIVE)) {
			emit(s, at);
			at = token_after(at);
		} else {
			at = read_directive(s, at, &here);
		}
	s->depth = depth;
	free(f.text);
	return 1;
}

static void print_hash(char hex[33], XXH128_hash_t h)
{
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}

void hash_text(char hex[33], const struct XXH3_state_s *state)
{
	print_hash(hex, XXH3_128bits_digest(state));
}

void hash_of_bytes(char hex[33], const void *bytes, size_t n)
{
	print_hash(hex, XXH3_128bits(bytes, n));
}

int source_identity_of(const char *path, const char *root, char hex[33])
{
	struct stream s = { .root = root, .hash = XXH3_createState() };
	const int ok = s.hash && XXH3_128bits_reset(s.hash) == XXH_OK &&
		       enter(&s, path, NULL) > 0 && !s.failed;
	if (ok)
		hash_text(hex, s.hash);
	if (s.failed) /* with a wrong identity its rows would be taken for those of another source */
		output_lost();
	for (size_t i = 0; i < s.num_entered; i++)
		free(s.entered[i].path);
	free(s.entered);
	XXH3_freeState(s.hash);
	return ok;
}

/* A plug-in says itself when its code is another: it has no source here. */
static int identity_of_plugin(const attune_plugin *p, char hex[33])
{
	char text[PATH_MAX];
	const int n = snprintf(text, sizeof text, "plug-in %s %s", p->name, p->version);
	hash_of_bytes(hex, text, n < (int)sizeof text ? (size_t)n : sizeof text);
	return 1;
}

static int identity_of_kernel(const struct kernel *k, char hex[33])
{
	char path[PATH_MAX + 256];
	if (k->plugin)
		return identity_of_plugin(k->plugin, hex);
	if (!source_root() || !kernel_path(path, sizeof path, k, source_root()))
		return 0;
	return source_identity_of(path, source_root(), hex);
}

/* Cached: sources do not change while the program runs, and many rows need the same one. */
int source_identity(const struct kernel *k, char hex[33])
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		const struct kernel *kernel;
		char hex[33];
	} known[64];
	size_t i = 0;
	if (k != kernel_find(k->backend, k->name))
		return identity_of_kernel(k, hex);
	pthread_mutex_lock(&lock);
	while (i < COUNT(known) - 1 && known[i].kernel && known[i].kernel != k)
		i++;
	const int ok = known[i].kernel == k || identity_of_kernel(k, known[i].hex);
	known[i].kernel = ok ? k : NULL;
	memcpy(hex, known[i].hex, ok ? 33 : 0);
	pthread_mutex_unlock(&lock);
	return ok;
}
