/* header_text.c - reads the text of a generated header. */
#include "header_text.h"
#include <ctype.h>
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

int header_wrong(struct header_text *r, const char *wanted)
{
	if (!*r->wanted)
		snprintf(r->wanted, sizeof r->wanted, "%s", wanted);
	return 0;
}

static void skip_blank(struct header_text *r)
{
	while (isspace((unsigned char)*r->at) || *r->at == '\\')
		r->at++;
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
	char quoted[80];
	if (header_next_is(r, word))
		return 1;
	snprintf(quoted, sizeof quoted, "'%s'", word);
	return header_wrong(r, quoted);
}

int header_seek(struct header_text *r, const char *text)
{
	const char *found = strstr(r->at, text);
	if (!found)
		return header_wrong(r, text);
	r->at = found + strlen(text);
	return 1;
}

int header_number(struct header_text *r, long long *value)
{
	char *end;
	skip_blank(r);
	*value = strtoll(r->at, &end, 10);
	if (end == r->at)
		return header_wrong(r, "a number");
	r->at = end;
	return 1;
}

int header_word(struct header_text *r, const char *stops, char *word, size_t size)
{
	skip_blank(r);
	const size_t n = strcspn(r->at, stops);
	if (!n || n >= size)
		return header_wrong(r, "a name");
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
			header_wrong(r, "more memory");
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

/* A branch, in braces or not; `else` and braces behind it are of older headers. */
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
		header_wrong(r, "a shallower tree");
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
	if (!strstr(r->at, head))
		return 1;
	if (header_seek(r, head) && header_seek(r, "{")) {
		header_next_is(r, "(void)f;");
		if (read_statement(r, t, 0) == 0 && header_expect(r, "}"))
			return 1;
	}
	free(t->v);
	*t = (struct header_tree){ .v = NULL };
	return 0;
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
