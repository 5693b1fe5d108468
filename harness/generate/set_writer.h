/* set_writer.h - scenario sets that are made, by rule or from request traces, and written as
 * JSON that scenario.c reads. */
#ifndef HARNESS_GENERATE_SET_WRITER_H
#define HARNESS_GENERATE_SET_WRITER_H

#include "engine_sim.h"
#include <stdio.h>

struct generated {
	char *batch; /* as text, owned */
	char model[64], from[96];
	const char *split, *settings; /* settings: JSON members, each followed by ", "; or "" */
	double weight;
	int steps; /* of an engine that it stands for; 0: none, and no weight is written */
};

struct generated_set {
	struct generated *v;
	int n;
};

/* set_writer.c */
/* Takes `batch`. One that is there already is not taken again: a line on stderr says so.
 * 0: out of memory. */
int generated_add(struct generated_set *, struct generated);
void generated_print(const struct generated_set *, FILE *); /* the member "scenarios" */
void generated_free(struct generated_set *);
/* The batch as text in canonical form, the caller's to free; NULL: out of memory. */
char *rows_text(const struct row *, int n);
/* 1 when the rows are of a batch size or length that no training row of the shipped
 * sets has. */
int rows_are_blocked(const struct row *, int n);

/* families.c: made-up batches as tables. */
struct range {
	double lo, hi;
};

enum { ROUND = 0, ODD = 1, BLOCKED = 2, CACHED = 4 }; /* space_filling.c says what they mean */

struct family { /* a kind of batch */
	const char *name, *split;
	int rows, flags;
	struct range decodes, query, kv; /* q of each, and their mean sequence length */
	double sigma, long_share;        /* largest spread; share of rows with few long ones */
	double least;                    /* spread; 0: some rows have none */
	const char *settings;            /* as above; or NULL */
	struct range prefills, tokens,
	    context; /* tokens of each; context.lo 0: a third have none */
};

struct grid {
	const char *name, *beside; /* beside: sets whose batches it does not repeat: "a,b"; or "" */
	const struct family *families; /* ends with a NULL name */
	/* Dealt in order; others: heldout_shape; usual: of families with settings. Each ends
	 * with NULL. */
	const char *const *models, *const *others, *const *usual;
	double max_kv_bytes, max_gflop; /* of a batch */
	double longest;                 /* sequence that a spread of lengths may reach */
	int keeps_all;                  /* else one of ten rows for train is held out */
};
extern const struct grid grids[]; /* ends with a NULL name */

/* space_filling.c: adds the grid's rows; `dir` holds the sets that it shall not repeat. 0 after a
 * complaint. */
int grid_add(struct generated_set *, const char *name, const char *dir, const struct models *);

#endif
