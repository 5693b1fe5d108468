/* SPDX-License-Identifier: Apache-2.0 */
/* races.h - the races that settle a batch. */
#ifndef KERNELS_SETTLE_RACES_H
#define KERNELS_SETTLE_RACES_H

#include "settled.h"
#include "kernels/spec/part.h"

enum { MOST_ENTRIES = 3 };

/* One call of attune_settle. */
struct job {
	const attune_op *op;
	const attune_settle_how *how;
	const attune_tensors *layers;
	char *workspace;
	size_t bytes;
	double begin, most; /* seconds */
	int num_entries;
	struct settled_entry entry[MOST_ENTRIES];
};

/* The sequences of one phase as a batch of their own. */
struct own_batch {
	attune_batch view;
	int32_t *starts, *lens; /* one block of memory, the caller's to free also after an error */
};

enum attune_status own_batch_make(struct own_batch *, const attune_batch *of, enum phase);

/* Races a batch, and keeps what was settled if no race fails. */
enum attune_status settle_job(struct job *, const attune_batch *);

#endif
