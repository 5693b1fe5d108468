/* SPDX-License-Identifier: Apache-2.0 */
/* header_text.c - reads words, numbers and decision trees of a generated header. */
#include "header_text.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const decision_names[NUM_DECISIONS] = { "prefill", "decode", "overlap", "early" };

enum { MOST_DEPTH = 64 };

int header_line(const struct header_text *r)
{
	int line = 1;
	for (const char *p = r->start; p < r->at; p++)
		line += *p == '\n';
	return line;
}

int header_wrong(struct header_text *r, const char *wanted, ...)
{
	va_list ap;
	if (!*r->wanted) {
		va_start(ap, wanted);
		vsnprintf(r->wanted, sizeof r->wanted, wanted, ap);
		va_end(ap);
	}
	return 0;
}

void header_error(const struct header_text *r, const char *path, char *text, size_t size)
{
	enum { MOST = 60 };
	char found[MOST + 1];
	int n = 0;
	for (; n < MOST && r->at[n] && r->at[n] != '\n'; n++)
		found[n] = (char)(isprint((unsigned char)r->at[n]) ? r->at[n] : '?');
	found[n] = '\0';
	snprintf(text, size, "%s:%d: \"%s\"; %s expected", path, header_line(r), found, r->wanted);
}

/* The length of the comment at p; 0: none, or it has no end. */
static size_t comment_length(const char *p)
{
	const char *end = !strncmp(p, "/*", 2) ? strstr(p + 2, "*/") : NULL;
	return end ? (size_t)(end + 2 - p) : !strncmp(p, "//", 2) ? strcspn(p, "\n") : 0;
}

static size_t blank_length(const char *p)
{
	const size_t line_end = *p == '\\' ? 1 + (p[1] == '\r') : 0;
	if (line_end && p[line_end] == '\n')
		return line_end + 1;
	return isspace((unsigned char)*p) ? 1 : comment_length(p);
}

static void skip_blank(struct header_text *r)
{
	size_t n;
	while ((n = blank_length(r->at)) > 0)
		r->at += n;
}

int header_next_is(struct header_text *r, const char *word)
{
	const size_t n = strlen(word);
	skip_blank(r);
	if (strncmp(r->at, word, n))
		return 0;
	r->at += n;
	return 1;
}

int header_expect(struct header_text *r, const char *word)
{
	return header_next_is(r, word) || header_wrong(r, "'%s' is", word);
}

int header_seek(struct header_text *r, const char *text)
{
	const char *found = strstr(r->at, text);
	if (!found)
		return header_wrong(r, "'%s' is", text);
	r->at = found + strlen(text);
	return 1;
}

int header_number_in(struct header_text *r, const char *what, long long least, long long most,
		     long long *value)
{
	char *end;
	skip_blank(r);
	errno = 0;
	*value = strtoll(r->at, &end, 10);
	if (end == r->at || isalnum((unsigned char)*end) || *end == '.' || errno ||
	    *value < least || *value > most)
		return header_wrong(r, "%s of %lld to %lld is", what, least, most);
	r->at = end;
	return 1;
}

int header_number(struct header_text *r, long long *value)
{
	return header_number_in(r, "a number", -(1ll << 62), 1ll << 62, value);
}

int header_word(struct header_text *r, const char *stops, char *word, size_t size)
{
	skip_blank(r);
	const size_t n = strcspn(r->at, stops);
	if (!n || n >= size)
		return header_wrong(r, "a name is");
	memcpy(word, r->at, n);
	word[n] = '\0';
	r->at += n;
	return 1;
}

/* ---- trees ------------------------------------------------------------------------------ */

/* The index of a new leaf; -1: no memory. */
static int new_node(struct header_text *r, struct header_tree *t)
{
	if (t->n == t->room) {
		const int room = 2 * t->room + 64;
		struct header_node *more = realloc(t->v, (size_t)room * sizeof *more);
		if (!more) {
			header_wrong(r, "more memory is");
			return -1;
		}
		t->v = more;
		t->room = room;
	}
	t->v[t->n] = (struct header_node){ .below = -1, .above = -1 };
	return t->n++;
}

/* "ANSWER;" and its comment */
static int read_answer(struct header_text *r, struct header_node *leaf)
{
	skip_blank(r);
	leaf->at = r->at;
	if (!header_word(r, "; \t\n", leaf->word, sizeof leaf->word) || !header_expect(r, ";"))
		return 0;
	const char *at = r->at + strspn(r->at, " \t\n");
	if (!strncmp(at, "/*", 2) && strstr(at, "*/")) {
		leaf->comment = at + 2;
		r->at = strstr(at, "*/") + 2;
	}
	return 1;
}

static int read_statement(struct header_text *r, struct header_tree *t, int depth);

/* A branch, in braces or not; `else` may stand before what follows. */
static int read_branch(struct header_text *r, struct header_tree *t, int depth)
{
	const int braced = header_next_is(r, "{");
	const int node = read_statement(r, t, depth);
	return node >= 0 && braced && !header_expect(r, "}") ? -1 : node;
}

/* Returns the node; -1: `wanted` says why. */
static int read_statement(struct header_text *r, struct header_tree *t, int depth)
{
	const int at = new_node(r, t);
	if (at < 0)
		return -1;
	if (header_next_is(r, "return"))
		return read_answer(r, &t->v[at]) ? at : -1;
	if (depth == MOST_DEPTH) {
		header_wrong(r, "a tree at most %d deep is", MOST_DEPTH);
		return -1;
	}
	if (!header_expect(r, "if (f->"))
		return -1;
	t->v[at].at = r->at;
	if (!header_word(r, " <>", t->v[at].word, sizeof t->v[at].word))
		return -1;
	const int is_above = header_next_is(r, ">");
	if ((!is_above && !header_expect(r, "<=")) || !header_number(r, &t->v[at].threshold) ||
	    !header_expect(r, ")"))
		return -1;
	const int holds = read_branch(r, t, depth + 1);
	header_next_is(r, "else");
	const int other = holds < 0 ? -1 : read_branch(r, t, depth + 1);
	t->v[at].below = is_above ? other : holds;
	t->v[at].above = is_above ? holds : other;
	return other < 0 ? -1 : at;
}

int header_tree(struct header_text *r, const char *gpu, enum decision decision,
		struct header_tree *t)
{
	char head[256];
	*t = (struct header_tree){ .v = NULL };
	snprintf(head, sizeof head, "ATTUNE_SELECT int attune_%s_%s(", gpu,
		 decision_names[decision]);
	if (!header_next_is(r, head))
		return 1;
	if (header_expect(r, "const struct attune_features *f)") && header_expect(r, "{")) {
		header_next_is(r, "(void)f;");
		if (read_statement(r, t, 0) == 0 && header_expect(r, "}"))
			return 1;
	}
	free(t->v);
	*t = (struct header_tree){ .v = NULL };
	return 0;
}

int header_list(struct header_text *r, char word[ATTUNE_LIST_MEMBERS][HEADER_NAME])
{
	int done = 1;
	for (int i = 0; done && i < ATTUNE_LIST_MEMBERS; i++)
		done = header_word(r, ",) \t\n", word[i], HEADER_NAME) &&
		       header_expect(r, i + 1 < ATTUNE_LIST_MEMBERS ? "," : ")");
	return done;
}

void header_device(const char *text, char device[HEADER_DEVICE])
{
	static const char key[] = "\n *   device    ";
	const char *at = strstr(text, key);
	int n = 0;
	for (at = at ? at + strlen(key) : ""; *at && *at != '\n' && n < HEADER_DEVICE - 1; at++)
		device[n++] = (char)(*at < ' ' || *at > '~' || strchr("\"\\", *at) ? '?' : *at);
	device[n] = '\0';
}

int header_mixed(struct header_text *r, struct mixed_rates *rates)
{
	int *const v[] = { &rates->unit_flops, &rates->unit_reads, &rates->stream_ns,
			   &rates->half_reads, &rates->all_reads,  &rates->start_ns,
			   &rates->leave_ns,   &rates->segment_ns };
	if (!header_expect(r, "MIXED("))
		return 0;
	for (size_t i = 0; i < COUNT(v); i++) {
		long long number;
		if ((i && !header_expect(r, ",")) ||
		    !header_number_in(r, "a rate", 1, MOST_RATE, &number))
			return 0;
		*v[i] = (int)number;
	}
	return header_expect(r, ")");
}
