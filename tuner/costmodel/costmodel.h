/* SPDX-License-Identifier: Apache-2.0 */
/* costmodel.h - a linear model of a choice's time, fitted to measurements, and the few choices that
 * are best by it. Trees also learn from its estimates of batches that nobody measured. For decodes
 * the header contains the model's terms that depend on SEGMENTS. Includes matrix and forest. */
#ifndef TUNER_COSTMODEL_COSTMODEL_H
#define TUNER_COSTMODEL_COSTMODEL_H

#include "kernels/select/selector.h"
#include "tuner/matrix/matrix.h"
#include "tuner/forest/forest.h"

/* The time of a part is the sum over terms of a coefficient, in fs, times an amount. A new term
 * needs its amount in cost_model_amounts() and its largest coefficient in most_fs
 * (least_squares.c); `make heuristics` fits again. A term that depends on the number of segments
 * also becomes a member of struct segment_costs (kernels/segments.h) and so part of headers, rules
 * files and JSON, which t_languages and t_languages_segments compare. */
enum cost_term {
	TERM_LAUNCH,   /* 1 */
	TERM_PATH,     /* keys of the slot that finishes last (kernels/segments.h) */
	TERM_TOTAL,    /* keys of all blocks / units */
	TERM_KIB,      /* KiB of live K and V */
	TERM_ROWS,     /* query tokens x query heads */
	TERM_SPLIT,    /* 1 with more than one segment */
	TERM_SEGMENTS, /* segments, with more than one */
	TERM_MERGE,    /* rows x segments, with more than one */
	NUM_COST_TERMS
};
struct cost_model {
	struct block_shape block;
	int slots, start; /* as in struct segment_costs */
	long long fs[NUM_COST_TERMS];
	struct segment_costs segments; /* what chooses SEGMENTS */
};
void cost_model_amounts(long long amount[NUM_COST_TERMS], const struct cost_model *,
			const struct attune_features *, int segments);
/* Time in fs. */
long long cost_model_estimate(const struct cost_model *, const struct attune_features *,
			      int segments);
/* The model's own coefficients of terms that depend on SEGMENTS. */
struct segment_costs cost_model_segments(const struct cost_model *);

enum { MAX_CHEAPEST = MAX_PORTFOLIO /* choices */ };
struct cheapest_set {
	struct choice
	    choice[MAX_CHEAPEST];     /* for decodes with SEGMENTS=fitted, if it has the axis */
	char stands_in[MAX_CHEAPEST]; /* the choice was added for rows: no leaf may name it */
	int num_choices;
	struct selector_costs costs[MAX_COSTS]; /* for decodes; ids are indices of choice */
	int num_costs;
	/* Mean slowdown of the choice with the least estimate, by models fitted without the row
	 * (five folds), over rows where it may run; INFINITY if it may not run in over 1 of 8
	 * rows. */
	double held_out;
	struct matrix *training; /* what the tree learns from: made_up_batches.c */
	int num_measured;        /* the first rows are scenarios, the others made-up batches */
	int num_similar;         /* rows before the probes (probes.h) */
};

/* least_squares.c: one measured time and its weight. */
struct cell_fit {
	const struct attune_features *f;
	int segments;
	double us, weight;
};
/* Fits everything but block and segments, with at most most_slots slots. 0 without memory. */
int cost_model_fit(struct cost_model *, const struct cell_fit *, int n, int most_slots);
/* Rounds to four digits. */
long long rounded_fs(double fs, long long limit);

/* segment_fit.c: the legal numbers of segments of a part, and their times. */
struct segment_row {
	const struct attune_features *f;
	int n, segments[MAX_MEMBERS]; /* in ascending order */
	double us[MAX_MEMBERS];       /* INFINITY: not measured */
	double least_us, weight;
};
/* Fits the costs, from costs to begin with. Each row has a time. 0 without memory. */
int segment_costs_fit(struct segment_costs *, const struct block_shape *,
		      const struct segment_row *, int n, int most_slots);
/* mixed_fit.c: rates that divide mixed batches, fitted to the training scenarios. unit_flops 0: no
 * better than mixed_by_hand, or too few times. 0 without memory. */
int mixed_fit(const struct data *, struct mixed_rates *);

/* cheapest_set.c */
void cheapest_set_free(struct cheapest_set *);
/* Finds at most `most` choices of the prefill or the decode decision, with models fitted to the
 * rows of `all`, which has all concrete choices of d. few: for prefills, columns of `all`; only
 * choices of their families are found. NULL: decodes. given: choices that must be among them,
 * where they have a model. 0 without memory. */
int cheapest_set_find(struct cheapest_set *, const struct data *, const struct matrix *all,
		      const struct matrix *few, int most, const struct choice *given,
		      int num_given);

#endif
