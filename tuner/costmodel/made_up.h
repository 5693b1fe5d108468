/* SPDX-License-Identifier: Apache-2.0 */
/* made_up.h - random batches similar to measured ones, and rows of matrices for them. */
#ifndef TUNER_COSTMODEL_MADE_UP_H
#define TUNER_COSTMODEL_MADE_UP_H

#include "tuner/matrix/matrix.h"

enum { MOST_MADE = 1024 /* sequences of a batch */ };

/* A batch that is being drawn. */
struct made_up {
	int32_t query_start[MOST_MADE + 1], seq_lens[MOST_MADE];
	int n;   /* sequences */
	int *of; /* scratch: as many as the longest batch to draw from has sequences */
	attune_shape probe;
	int least_page, most_page, most_head, has_groups_of_one; /* of the rows */
};
struct made_up *made_up_new(const struct data *, const struct matrix *);
void made_up_free(struct made_up *);
/* Draws a batch from the sequences of the row's scenario, of one phase or (PHASE_ALL) of both, and a
 * shape: in half of the draws that of another row. *part becomes the drawn batch's part of the phase.
 * Batch and shape are valid until the next draw. 0: the drawn batch is not legal. */
int made_up_draw(struct made_up *, const struct data *, const struct matrix *, int row, enum phase,
		 unsigned long long *state, attune_batch *, const attune_shape **, struct part *);
/* Rounds features to few levels, so that thresholds are few. */
void made_up_round(struct attune_features *);
/* Gives row `row` of `to` all that row `of` of `from` has, except its costs. */
void made_up_row_like(struct matrix *to, int row, const struct matrix *from, int of);
/* The same, with the features and the small weight of a made-up batch. */
void made_up_describe(struct matrix *to, int row, const struct matrix *from, int of,
		      const struct attune_features *);

/* made_up_mixed.c: mixed batches, with costs of the nearest measured rows. The first rows are the
 * measured ones. NULL without memory. */
struct matrix *made_up_mixed(const struct data *, const struct matrix *measured);

#endif
