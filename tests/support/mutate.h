/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h - splits C text into spans with a scanner of its own, and edits it: some edits keep
 * all tokens, others change one. A span is a word, a number, a literal or a run of punctuators.
 * Include after cmocka.h. */
#ifndef TESTS_SUPPORT_MUTATE_H
#define TESTS_SUPPORT_MUTATE_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SPANS = 12000, MOST_TEXT = 200000 };

struct span {
	int at, len, gap;                     /* gap: blanks before it */
	int place;                            /* in its directive, '#' being 1; 0: in none */
	int is_include, is_system, is_define; /* what the directive is */
};

struct spans {
	struct span v[MOST_SPANS];
	int n;
};

static unsigned long long seed = 1;

static inline int below(int n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((seed >> 33) % (unsigned)n);
}

static inline int is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static inline int is_comment(const char *t)
{
	return t[0] == '/' && (t[1] == '/' || t[1] == '*');
}

static inline int literal_length(const char *t)
{
	int n = 1;
	while (t[n] && t[n] != t[0])
		n += t[n] == '\\' ? 2 : 1;
	return n + 1;
}

static inline int span_length(const char *t)
{
	int n = 0;
	if (*t == '"' || *t == '\'')
		return literal_length(t);
	if (isdigit((unsigned char)*t))
		while (is_word(t[n]) || t[n] == '.' ||
		       (n && strchr("+-", t[n]) && strchr("eEpP", t[n - 1]) && t[n]))
			n++;
	else if (is_word(*t))
		while (is_word(t[n]))
			n++;
	else
		while (ispunct((unsigned char)t[n]) && !strchr("\"'\\_", t[n]) &&
		       !is_comment(t + n))
			n++;
	return n;
}

/* The text between spans; *lines: line ends that are not spliced. */
static inline int gap_length(const char *t, int *lines)
{
	int n = 0;
	for (;;) {
		if (t[n] == '\\' && t[n + 1] == '\n')
			n += 2;
		else if (t[n] == '/' && t[n + 1] == '/')
			n += (int)strcspn(t + n, "\n");
		else if (t[n] == '/' && t[n + 1] == '*')
			n += (int)(strstr(t + n + 2, "*/") + 2 - (t + n));
		else if (t[n] && isspace((unsigned char)t[n]))
			*lines += t[n++] == '\n';
		else
			return n;
	}
}

static inline int span_is(const char *t, const struct span *s, const char *word)
{
	return s->len == (int)strlen(word) && !strncmp(t + s->at, word, (size_t)s->len);
}

static inline void scan(struct spans *s, const char *t)
{
	int at = 0, lines = 1;
	struct span last = { 0 };
	s->n = 0;
	for (;;) {
		const int gap = gap_length(t + at, &lines);
		at += gap;
		if (!t[at])
			return;
		assert_true(s->n < MOST_SPANS);
		struct span now = { .at = at, .gap = gap };
		if (t[at] == '#' && lines) {
			now.len = now.place = 1;
		} else {
			now.len = span_length(t + at);
			assert_true(now.len > 0);
			if (last.place && !lines) {
				now = (struct span){ at,
						     now.len,
						     gap,
						     last.place + 1,
						     last.is_include,
						     last.is_system,
						     last.is_define };
				now.is_include |= now.place == 2 && span_is(t, &now, "include");
				now.is_define |= now.place == 2 && span_is(t, &now, "define");
				now.is_system |= now.is_include && now.place == 3 && t[at] == '<';
			}
		}
		s->v[s->n++] = last = now;
		at += now.len;
		lines = 0;
	}
}

/* Replaces `len` bytes at `at`. */
static inline void splice_text(char *t, int at, int len, const char *by)
{
	const size_t n = strlen(by);
	assert_true(strlen(t) + n < MOST_TEXT);
	memmove(t + at + n, t + at + len, strlen(t + at + len) + 1);
	memcpy(t + at, by, n);
}

/* ---- edits that change no token ------------------------------------------------------------ */

static inline const char *some_blank(int in_directive)
{
	static const char *const anywhere[] = { " ",     "\t ",     " /* it's \"one // \\ */",
						"/**/",  " \\\n\t", "/* of two\n# lines */ ",
						"/*/ */" };
	static const char *const outside[] = { "\n\n", "\r\n", " // don't \"stop\n",
					       "// a /* comment \\\n goes on\n" };
	const int all = (int)(sizeof anywhere / sizeof *anywhere);
	const int more = (int)(sizeof outside / sizeof *outside);
	const int pick = below(in_directive ? all : all + more);
	return pick < all ? anywhere[pick] : outside[pick - all];
}

/* Before span i one may write blanks, which separate nothing that belongs together. */
static inline int may_add_blank(const char *t, const struct spans *s, int i)
{
	const struct span *v = &s->v[i];
	if (!i)
		return 1;
	if (!v->gap && (strchr(".\"'", t[v->at - 1]) || strchr(".\"'", t[v->at])))
		return 0;
	if (v->is_include && v->place > 2)
		return 0;
	return !(v->is_define && v->place == 4 && !v->gap); /* the parenthesis of a macro */
}

/* The blanks before span i may go. */
static inline int may_drop_blank(const char *t, const struct spans *s, int i)
{
	const struct span *v = &s->v[i];
	if (!i || !v->gap || v->place || s->v[i - 1].place)
		return 0;
	const char last = t[v->at - v->gap - 1], first = t[v->at];
	if (strchr("\"'.#\\/", first) || strchr("\"'.\\/", last))
		return 0;
	return is_word(last) != is_word(first) && !(strchr("eEpP", last) && strchr("+-", first));
}

/* Adds or drops blanks at about one boundary in `every`. */
static inline void change_layout(char *t, int every)
{
	static struct spans s;
	scan(&s, t);
	for (int i = s.n - 1; i >= 0; i--) {
		const struct span *v = &s.v[i];
		if (below(every))
			continue;
		if (below(2) && may_drop_blank(t, &s, i))
			splice_text(t, v->at - v->gap, v->gap, "");
		else if (may_add_blank(t, &s, i))
			splice_text(t, v->at, 0, some_blank(v->place > 1));
	}
}

/* ---- edits of one token -------------------------------------------------------------------- */
enum change { CHANGE, INSERT, DELETE, SWAP, NUM_CHANGES };

/* A literal or a word grows by a letter; of a run one punctuator becomes another. */
static inline void change_span(char *t, const struct span *v)
{
	static const char others[] = "+-<>=!&|^?";
	if (is_word(t[v->at])) {
		splice_text(t, v->at + v->len, 0, isdigit((unsigned char)t[v->at]) ? "1" : "x");
		return;
	}
	if (strchr("\"'", t[v->at])) {
		splice_text(t, v->at + 1, 0, "x");
		return;
	}
	char *c = &t[v->at + below(v->len)];
	const char was = *c;
	while (*c == was)
		*c = others[below(sizeof others - 1)];
}

static inline void swap_spans(char *t, const struct span *a, const struct span *b)
{
	char *text = malloc((size_t)(a->len + b->len + b->gap) + 4);
	assert_non_null(text);
	sprintf(text, "%.*s %.*s %.*s", b->len, t + b->at, b->gap, t + b->at - b->gap, a->len,
		t + a->at);
	splice_text(t, a->at, b->at + b->len - a->at, text);
	free(text);
}

/* 0 when that change of a random span would leave the tokens as they are, or begin a comment. */
static inline int change_token(char *t, enum change how)
{
	static struct spans s;
	char text[2000];
	scan(&s, t);
	const int i = below(s.n - 1);
	const struct span *v = &s.v[i], *next = &s.v[i + 1];
	if (v->is_system || next->is_system || v->len + 3 > (int)sizeof text)
		return 0;
	if (v->is_include && (t[next->at] == '<' || (how == INSERT && v->place == 3)))
		return 0; /* words after the name mean nothing */
	if (memchr(t + v->at, '/', (size_t)v->len) || memchr(t + next->at, '/', (size_t)next->len))
		return 0;
	snprintf(text, sizeof text, " %.*s ", v->len, t + v->at);
	switch (how) {
	case CHANGE: change_span(t, v); return 1;
	case INSERT: splice_text(t, v->at + v->len, 0, text); return 1;
	case DELETE: splice_text(t, v->at, v->len, " "); return 1;
	default:
		if (v->len == next->len && !strncmp(t + v->at, t + next->at, (size_t)v->len))
			return 0;
		swap_spans(t, v, next);
		return 1;
	}
}

#endif
