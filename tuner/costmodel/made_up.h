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
};
struct made_up *made_up_new(const struct data *, const struct matrix *);
void made_up_free(struct made_up *);
/* Draws from the sequences of `like`, of one phase or of both; a drawn shape is that of another row
 * in half of the draws. *part: of the phase. 0: nothing legal was drawn. */
int made_up_draw(struct made_up *, const struct data *, const struct matrix *, int row, enum phase,
		 unsigned long long *state, attune_batch *, const attune_shape **, struct part *);
/* Row `row` of `to` becomes like row `of`, but for its costs. */
void made_up_row_like(struct matrix *to, int row, const struct matrix *from, int of);
/* Rounds features to few levels. */
void made_up_round(struct attune_features *);
/* The same for the row of a made-up batch, with its features and a small weight. */
void made_up_describe(struct matrix *to, int row, const struct matrix *from, int of,
		      const struct attune_features *);

/* made_up_mixed.c: mixed batches, whose costs an ensemble learns from the measured rows. The first
 * rows are the measured ones. NULL without memory. */
struct matrix *made_up_mixed(const struct data *, const struct matrix *measured);

#endif
