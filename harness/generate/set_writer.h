/* SPDX-License-Identifier: Apache-2.0 */
/* set_writer.h - makes scenario sets, by rule or from request traces, and writes them as JSON for
 * scenario.c. */
#ifndef HARNESS_GENERATE_SET_WRITER_H
#define HARNESS_GENERATE_SET_WRITER_H

#include "engine_sim.h"
#include <stdio.h>

struct generated {
	char *batch; /* as text, owned */
	char model[64], from[96];
	char settings[96]; /* JSON members, each followed by ", "; or "" */
	const char *split;
	int is_of_model; /* it ran with this model: other models may have the same batch */
	double weight;
	int steps; /* of an engine that it represents; 0: none, and no weight is written */
};

struct generated_set {
	struct generated *v;
	int n;
};

/* set_writer.c */
/* Adds a scenario and owns its batch. Skips a batch that is already in the set, with a line on
 * stderr. 0: out of memory. */
int generated_add(struct generated_set *, struct generated);
void generated_print(const struct generated_set *, FILE *); /* the member "scenarios" */
void generated_free(struct generated_set *);
/* The batch as text in canonical form; the caller frees it. NULL: out of memory. */
char *rows_text(const struct row *, int n);
/* 1: the rows have a batch size or length that is held out of training in the shipped sets. */
int rows_are_blocked(const struct row *, int n);

/* families.c: tables of made-up batches. */
struct range {
	double lo, hi;
};

enum { ROUND = 0, ODD = 1, BLOCKED = 2, CACHED = 4, LATER = 8 }; /* explained in space_filling.c */

struct family { /* a kind of batch */
	const char *name, *split;
	int rows, flags;
	struct range decodes, query, kv; /* number, query length, mean sequence length */
	double sigma, long_share; /* largest spread; share of rows with a few long sequences */
	double least;             /* smallest spread; 0: some rows have none */
	const char *settings;     /* as above; or NULL */
	struct range prefills, tokens, context; /* number, tokens of each, context of each;
						 * context.lo 0: a third have none */
	const char *const *models;              /* its own, ends with NULL; or NULL: the grid's */
};
/* coverage_families.c */
extern const struct family coverage_families[], coverage_gate_families[],
    coverage_unseen_families[];

struct grid {
	/* beside: names of other sets. This set leaves out a batch that one of them has. "a,b:20":
	 * all batches of a and the first 20 of b. later: the same for families with the flag LATER. */
	const char *name, *beside, *later;
	const struct family *families; /* ends with a NULL name */
	/* Assigned to rows in turn. others: for heldout_shape; usual: for families with settings.
	 * Each ends with NULL. */
	const char *const *models, *const *others, *const *usual;
	double max_kv_bytes, max_gflop; /* of a batch */
	double longest;                 /* sequence in a spread of lengths */
	int keeps_all;                  /* 0: one of ten training rows is held out */
};
extern const struct grid grids[]; /* ends with a NULL name */

/* space_filling.c: adds the grid's rows. The sets of `beside` are in `dir`. 0 after a complaint. */
int grid_add(struct generated_set *, const char *name, const char *dir, struct models *);

#endif
