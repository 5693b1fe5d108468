/* attune_torch.h - the operators of torch's namespace `attune`, for a process that has loaded torch
 * 2.7.1 or newer. The package libattune of kernels/python calls these; a C++ program may do so, too.
 *
 *   attune::paged_attention(Tensor(a!) out, Tensor q, Tensor k_cache, Tensor v_cache,
 *       Tensor block_table, Tensor query_start_loc, Tensor seq_lens, Tensor plan,
 *       Tensor(b!) lse, Tensor k_scale, Tensor v_scale, Tensor sinks, Tensor alibi_slopes,
 *       Tensor k_new, Tensor v_new) -> ()
 *
 * It is attune_run for tensors: it takes pointers and strides from them, compares shapes and types
 * with those of the op, runs on torch's current stream, and takes the workspace from torch's
 * allocator. A tensor without elements is one that is not given. A failure is torch's error with the
 * line of attune_last_error, in Python a RuntimeError.
 *
 * `plan` is a uint8 tensor on the CPU that attune_torch_plan has filled. So a step's plan is data: a
 * compiled graph takes the next step's without being compiled again, and a CUDA graph keeps the one
 * that it was captured with. */
#ifndef ATTUNE_TORCH_H
#define ATTUNE_TORCH_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the operators, once a process; further calls do nothing. ATTUNE_UNSUPPORTED: torch is not
 * loaded, or lacks a function that the operators need. */
enum attune_status attune_torch_register(void);

/* Writes the bytes of the operators' `plan` for a plan of the op, which must outlive their use. *size:
 * how many there are. `bytes` has room for `room`; NULL: only *size is set. */
enum attune_status attune_torch_plan(const attune_op *op, const attune_plan *plan, void *bytes,
				     size_t room, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
