/* SPDX-License-Identifier: Apache-2.0 */
/* writing.h - shared by the files that write a forest, emit*.c. */
#ifndef TUNER_EMIT_WRITING_H
#define TUNER_EMIT_WRITING_H

#include "kernels/spec/device_info.h"
#include "tuner/forest/forest.h"
#include <stdio.h>
#include <string.h>

struct data;
struct node;

struct emitter {
	FILE *out;
	const struct forest *f;
	const struct data *d;
	char upper[GPU_NAME]; /* H200 */
	char name[MAX_IDS][CHOICE_NAME];
};

/* emit_names.c: a unique identifier for each choice, [n]. */
void name_choices(const struct forest *, char (*name)[CHOICE_NAME]);
/* emit_facts.c: whether the texts of the database may stand in a header. 0 + complain. */
int texts_fit(const struct forest *, const struct data *);
void emit_top(const struct emitter *);     /* emit_legend.c */
void emit_example(const struct emitter *); /* emit_example.c */
void emit_kernels(const struct emitter *); /* emit_lists.c */
/* Iterates over the kernels of choices and the helpers that these or the defaults may need, in the
 * order of attune_kernels: the one after `last` (NULL: the first); NULL at the end. */
const struct kernel *forest_next_kernel(const struct forest *, const struct kernel *last);
void emit_shapes(const struct emitter *); /* emit_lists.c */
/* emit_rows.c: the enum of ids and answers, the rows of choices and their function. */
void emit_rows(const struct emitter *);
/* Blanks behind a word, so that the next column is aligned. */
static inline int padding(int widest, const char *word)
{
	return widest - (int)strlen(word);
}
/* exp of the mean cost of a unit of weight. */
double mean_slowdown(long long cost, long long weight);

/* emit_facts.c: facts about leaves and choices. */
int has_figures(const struct node *);
/* The axis that is worked out for each batch; -1: none. */
int worked_out_axis(const struct choice *);
const struct formula *formula_of(const struct choice *); /* NULL: worked out by costs, or none */

#endif
