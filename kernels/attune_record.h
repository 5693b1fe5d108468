/* attune_record.h - calls that plan on the device. A graph that is captured with them plans anew at
 * each replay, for the lengths that device memory then holds. A captured attune_run does the same
 * by itself where plan.lengths is ATTUNE_LENGTHS_VARY, in a workspace of attune_max_workspace
 * bytes; with these calls a step of many layers plans once:
 *
 *   attune_record_plan(op, &bounds, query_start, seq_lens, plan, bytes, stream);
 *   every layer: attune_record_run(op, &bounds, plan, &tensors, ws, ws_bytes, stream); */
#ifndef ATTUNE_RECORD_H
#define ATTUNE_RECORD_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What holds for all replays of a captured graph, on CUDA: exactly num_seqs sequences (a step
 * with fewer gives the others query and sequence length 0), no query longer than max_query, no
 * more than num_tokens query tokens in all. */
typedef struct attune_bounds {
	uint32_t size; /* sizeof(attune_bounds) */
	int num_seqs, max_query, num_tokens;
} attune_bounds;

/* Bytes of the plan and of the workspace, both in device memory, 16-byte aligned. */
enum attune_status attune_record_sizes(const attune_op *op, const attune_bounds *bounds,
				       size_t *plan_bytes, size_t *workspace_bytes);

/* One small kernel, once a step: makes a plan in device memory from lengths in device memory, by
 * the op's own heuristic. The prefill part runs first, then the decode part. It picks only what
 * the recorded kernels have:
 *
 *   prefills   warpgroup, in one segment, where it takes the shape and the library carries it
 *   decodes    ring_list, where it takes the shape and the longest query fits one of its Q blocks
 *   else       what the op's heuristic may name of qblock and segmented, for BF16 on measured
 *              GPUs; elsewhere the defaults of these */
enum attune_status attune_record_plan(const attune_op *op, const attune_bounds *bounds,
				      const int32_t *query_start, const int32_t *seq_lens,
				      void *plan, size_t plan_bytes, void *stream);

/* Once a layer of the step: runs what the plan holds by then. The plan must be of this op and these
 * bounds, which cannot be checked, since it lies in device memory. One launch after another may use
 * a plan, not two at a time. */
enum attune_status attune_record_run(const attune_op *op, const attune_bounds *bounds, void *plan,
				     const attune_tensors *tensors, void *workspace,
				     size_t workspace_bytes, void *stream);

/* What attune_record_plan picks for these lengths, computed on the host. */
enum attune_status attune_plan_recorded(const attune_op *op, const attune_bounds *bounds,
					const attune_batch *batch, attune_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
