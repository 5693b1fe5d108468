/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - where attune_settle runs what it times: on the caller's layers in turn, with metadata
 * of its own at the begin of the caller's workspace.
 *
 *   query_start | seq_lens | block_table | workspace of calls, also written between calls */
#ifndef KERNELS_SETTLE_STAGE_H
#define KERNELS_SETTLE_STAGE_H

#include "kernels/attune_settle.h"
#include "kernels/launch/op.h"

struct stage {
	const attune_op *op;
	struct device *dev;
	const attune_batch *batch;
	const char *layers; /* attune_tensors of layer_size bytes each */
	size_t layer_size;
	int num_layers, eager;
	/* A set is the pages that one call reads: set_pages of one layer. A layer has `shifts` of
	 * them one behind the other; a call finds its set by the address of page 0. */
	long long set_pages;
	int shifts;
	size_t lens_at, table_at, run_at; /* offsets in the workspace; starts lie at 0 */
	int table_stride;
	size_t flush; /* bytes whose reads or writes leave nothing of older ones in the caches */
	char *workspace;
	size_t bytes; /* of the workspace */
};

/* Sets all that follows from the op, the batch and `how`; reads no tensors. */
void stage_layout(struct stage *, const attune_op *, const attune_batch *,
		  const attune_settle_how *);
/* Different bytes of K and V that a call reads, at least 1. */
double stage_call_bytes(const struct stage *);
/* Refuses tensors that are not sound, and keys that are zeros in more than half of a few pages. */
enum attune_status stage_check(const struct stage *);
/* Writes the metadata. */
enum attune_status stage_fill(const struct stage *);
static inline int stage_sets(const struct stage *s)
{
	return s->num_layers * s->shifts;
}
/* Launches a plan on the device's own stream, over one of the sets. */
enum attune_status stage_run(const struct stage *, const attune_plan *, int set);
/* Writes what is behind the metadata, on the same stream: no keys and values stay in the caches. */
enum attune_status stage_flush(const struct stage *);

#endif
