/* header_text.h - reads the text of a generated header, attune_<gpu>.h. list_trees reads the trees
 * of all headers for the library; the tuner also reads choices and comments
 * (tuner/forest/parse.c). */
#ifndef KERNELS_SELECT_HEADER_TEXT_H
#define KERNELS_SELECT_HEADER_TEXT_H

#include "selector.h"

struct header_text {
	const char *start, *at;
	char wanted[80]; /* what was expected at `at`; empty: nothing was wrong so far */
};

int header_line(const struct header_text *);
/* The device that a header's comment names: "AMD EPYC, avx512, 2 threads". "": it names none. A
 * character that a C string literal cannot hold as it is becomes '?'. */
enum { HEADER_DEVICE = 160 };
void header_device(const char *text, char device[HEADER_DEVICE]);

/* Each returns 1, or 0 and sets `wanted`; only next_is may be 0 without that. Blanks and
 * backslashes are skipped first. */
int header_next_is(struct header_text *, const char *word); /* steps over the word if it is next */
int header_expect(struct header_text *, const char *word);
int header_seek(struct header_text *, const char *text); /* moves past its next occurrence */
int header_number(struct header_text *, long long *);
int header_word(struct header_text *, const char *stops, char *word, size_t size);
int header_wrong(struct header_text *, const char *wanted); /* 0 */

/* A function of a header is
 *
 *   STATEMENT:  return ANSWER;
 *               if (f->FEATURE <= NUMBER) BRANCH STATEMENT      BRANCH is where the condition holds;
 *               if (f->FEATURE > NUMBER) BRANCH STATEMENT       it always returns
 *   BRANCH:     return ANSWER; | STATEMENT | { STATEMENT } */
struct header_node {
	char word[256];      /* FEATURE; of a leaf ANSWER */
	long long threshold; /* of a node with branches */
	int below, above;    /* indices of other nodes; -1: a leaf */
	const char *at;      /* the word in the text */
	const char *comment; /* of a leaf: the one behind its ';'; NULL: none */
};
struct header_tree {
	struct header_node *v; /* the root first; for the caller to free */
	int n, room;
};
/* Reads the function attune_<gpu>_<decision>. Without that function the tree is empty. 0: `wanted`
 * says why. */
int header_tree(struct header_text *, const char *gpu, enum decision, struct header_tree *);

#endif
