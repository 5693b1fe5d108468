/* writing.h - what the files that write a header share; for emit*.c only. */
#ifndef TUNER_EMIT_WRITING_H
#define TUNER_EMIT_WRITING_H

#include "kernels/spec/device_info.h"
#include "tuner/forest/forest.h"
#include <stdio.h>

struct data;
struct node;

struct emitter {
	FILE *out;
	const struct forest *f;
	const struct data *d;
	char upper[GPU_NAME]; /* H200 */
	char name[MAX_IDS][CHOICE_NAME];
};

/* emit_names.c: a name for each choice, [num_choices], an identifier that no other has. */
void name_choices(const struct forest *, char (*name)[CHOICE_NAME]);

void emit_top(const struct emitter *);     /* emit_legend.c */
void emit_kernels(const struct emitter *); /* emit_kernels.c */
/* The kernels of choices, and the helpers that these or the defaults may take, in the order of
 * attune_kernels: the one behind `last`, the first for NULL; NULL behind the last. */
const struct kernel *forest_next_kernel(const struct forest *, const struct kernel *last);
int emit_binaries(const struct emitter *); /* emit_binaries.c; 0 without memory */
/* exp of what a unit of weight costs on average. */
double mean_slowdown(long long cost, long long weight);

/* emit_facts.c: what is said of leaves and choices in any language. */
int has_figures(const struct node *);
/* The axis whose value is worked out for each batch; -1: none is. */
int worked_out_axis(const struct choice *);
const struct formula *formula_of(const struct choice *); /* NULL: it is by costs, or none is */
/* emit_json.c; 0 + complain. */
int emit_json(FILE *, const struct forest *, const struct data *);

#endif
