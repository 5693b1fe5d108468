/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - other lengths for a captured graph, and one replay of it. Include after gpu_here.h. */
#ifndef TESTS_SUPPORT_REPLAY_H
#define TESTS_SUPPORT_REPLAY_H

#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/check/workload.h"
#include "harness/scenario/scenario.h"

/* Gives the device the lengths of the batch, for which other outputs are expected from then on. */
static inline enum attune_status put_lengths(struct device *gpu, struct workload *w,
					     const struct batch *b)
{
	expected_free(w->expected);
	w->expected = NULL;
	const enum attune_status status =
	    gpu->ops->put(gpu, (void *)(uintptr_t)w->tensors.query_start, b->query_start,
			  ((size_t)b->view.num_seqs + 1) * sizeof *b->query_start);
	return status ? status
		      : gpu->ops->put(gpu, (void *)(uintptr_t)w->tensors.seq_lens, b->seq_lens,
				      (size_t)b->view.num_seqs * sizeof *b->seq_lens);
}

/* order: of the emulated GPU's turns */
static inline enum attune_status replay_graph(struct device *gpu, struct graph *graph,
					      struct workload *w, char *out, size_t bytes,
					      unsigned order)
{
	double ns;
	if (is_emulated(gpu))
		simt_set(gpu, EMULATED_UNITS, order);
	enum attune_status status = workload_poison(w);
	if (!status)
		status = gpu->ops->graph_play(gpu, graph, &ns);
	return status ? status : gpu->ops->get(gpu, out, w->tensors.out, bytes);
}

#endif
