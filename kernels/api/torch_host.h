/* SPDX-License-Identifier: Apache-2.0 */
/* torch_host.h - what the operators look at on the CPU: lengths, page lists and slots, which kernels
 * trust. With an op of a GPU these lie on the device, and all is well. */
#ifndef KERNELS_API_TORCH_HOST_H
#define KERNELS_API_TORCH_HOST_H

#include "torch_plan.h"

/* The batch of `a`, whose tokens are rows of `tokens`: every row and every slot that it names is
 * there. a->k_new: it writes slots, so it reads no pages in front of its new tokens. */
enum attune_status host_step_fits(const struct planned *, const attune_tensors *a,
				  const struct tensor *tokens, const struct tensor *table,
				  const struct tensor *k, const struct tensor *v);
enum attune_status host_slots_fit(const struct planned *, const struct tensor *slots,
				  const struct tensor *k, const struct tensor *v);
/* Lists fit into rows of the table, and `indices` has them all. */
enum attune_status host_lists_fit(const attune_op *, int64_t seqs, const struct tensor *table,
				  const struct tensor *indptr, const struct tensor *indices);

#endif
