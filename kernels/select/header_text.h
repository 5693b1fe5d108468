/* SPDX-License-Identifier: Apache-2.0 */
/* header_text.h - reads the text of a generated header, attune_<gpu>.h: the only form of rules.
 *
 *   header_text.c   words, numbers and trees. The build tool list_trees needs no more; it runs before
 *                   the library is compiled
 *   header_read.c   a whole header, for rules_file.c (the one that ATTUNE_HEURISTICS names) and
 *                   the tuner (tuner/forest/parse.c)
 *
 * Blanks and comments may stand anywhere; everything else must be what attune induce writes, in
 * that order. A header that a person changes stays one that a compiler takes. */
#ifndef KERNELS_SELECT_HEADER_TEXT_H
#define KERNELS_SELECT_HEADER_TEXT_H

#include "selector.h"

struct header_text {
	const char *start, *at;
	char wanted[700]; /* what was expected at `at`; empty: nothing was wrong so far */
};

int header_line(const struct header_text *);
/* The device that a header's comment names: "AMD EPYC, avx512, 2 threads". "": it names none. A
 * character that a C string literal cannot hold as it is becomes '?'. */
enum { HEADER_DEVICE = 160 };
void header_device(const char *text, char device[HEADER_DEVICE]);

/* Each returns 1, or 0 and sets `wanted`; only next_is may be 0 without that. Blanks, comments and
 * backslashes at the end of a line are skipped first. */
int header_next_is(struct header_text *, const char *word); /* steps over the word if it is next */
int header_expect(struct header_text *, const char *word);
int header_seek(struct header_text *, const char *text); /* moves past its next occurrence */
int header_number(struct header_text *, long long *);    /* up to 2^62 either way */
int header_number_in(struct header_text *, const char *what, long long least, long long most,
		     long long *);
int header_word(struct header_text *, const char *stops, char *word, size_t size);
__attribute__((format(printf, 2, 3))) int header_wrong(struct header_text *, const char *wanted,
						       ...); /* 0 */
/* "FILE:LINE: "found"; X is expected", where `wanted` is set. */
void header_error(const struct header_text *, const char *path, char *text, size_t size);

/* A function of a header is
 *
 *   STATEMENT:  return ANSWER;
 *               if (f->FEATURE <= NUMBER) BRANCH STATEMENT     BRANCH is where the condition holds;
 *               if (f->FEATURE > NUMBER) BRANCH STATEMENT      it always returns
 *   BRANCH:     return ANSWER; | STATEMENT | { STATEMENT } */
struct header_node {
	char word[256];      /* FEATURE; of a leaf ANSWER */
	long long threshold; /* of a node with branches */
	int says;            /* of a leaf, set by header_read: an id or enum says */
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

/* The words of a row "LIST(first, rival, rival, stand_in)" behind its "LIST(". */
enum { HEADER_NAME = 96 };
int header_list(struct header_text *, char word[ATTUNE_LIST_MEMBERS][HEADER_NAME]);
/* The row "MIXED(flops of a unit, ...)", all members of struct mixed_rates. */
int header_mixed(struct header_text *, struct mixed_rates *);

/* ---- header_read.c: a whole header ------------------------------------------------------ */
enum { HEADER_KERNELS = 64, HEADER_CHOICES = 256, HEADER_COSTS = 4096 };
struct header_kernel {
	char where[8], name[32]; /* "gpu", "cpu"; "rules" for features and segment costs */
	unsigned long long hash;
	const char *at;
};
struct header_choice {
	char name[HEADER_NAME], kernel[32], text[MAX_CHOICE_TEXT];
	const char *at;
};
struct header {
	char gpu[GPU_NAME], upper[GPU_NAME], arch[32];
	const char *gpu_at;
	int is_emulated;
	struct header_kernel kernel[HEADER_KERNELS];
	struct header_choice choice[HEADER_CHOICES];
	struct attune_list list[HEADER_CHOICES];
	const char *list_at[HEADER_CHOICES];
	struct selector_costs costs[HEADER_COSTS];
	int num_kernels, num_choices, num_lists, num_costs;
	struct mixed_rates mixed; /* unit_flops 0: no row MIXED */
	struct header_tree tree[NUM_DECISIONS]; /* the early one may be empty */
};
/* Reads a text; free the header either way. 0: `wanted` says why. */
int header_read(struct header *, struct header_text *);
void header_free(struct header *);
/* *says: the answer that a word of a leaf stands for. The word is a number, a choice's name or a name
 * of enum says; a name may begin with the GPU's. 0: the decision has no such answer. */
int header_says(const struct header *, enum decision, const char *word, int *says);
/* The name of an answer that is no choice, such as "streams"; NULL: it has none. */
const char *header_answer(enum decision, int says);
/* Code that differs between headers only in the GPU's name ("h200", "H200"): the enum of answers, of
 * which headers of older tools have the first part alone; and attune_<gpu>_list(). */
enum { HEADER_CODE = 36 * GPU_NAME + 1500 };
void header_enum(char text[2][HEADER_CODE], const char *gpu, const char *upper);
void header_list_function(char text[HEADER_CODE], const char *gpu, const char *upper);

#endif
