/* extra_trees.h - an ensemble of trees that estimates the costs of batches which nobody measured. */
#ifndef TUNER_COSTMODEL_EXTRA_TREES_H
#define TUNER_COSTMODEL_EXTRA_TREES_H

#include "tuner/matrix/matrix.h"

struct extra_trees;
enum { MAX_COLUMNS = 64 };

/* Learns the costs of a matrix of at most MAX_COLUMNS columns. COST_FORBIDDEN counts as not known. NULL
 * without memory. */
struct extra_trees *extra_trees_grow(const struct matrix *);
void extra_trees_free(struct extra_trees *);
/* Sets cost[cols] to the mean over all trees. */
void extra_trees_estimate(const struct extra_trees *, const struct attune_features *,
			  int32_t *cost);

#endif
