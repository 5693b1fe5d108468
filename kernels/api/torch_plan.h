/* SPDX-License-Identifier: Apache-2.0 */
/* torch_plan.h - a plan as a tensor of torch: the bytes that attune_torch_plan writes. */
#ifndef KERNELS_API_TORCH_PLAN_H
#define KERNELS_API_TORCH_PLAN_H

#include "torch_tensor.h"

struct planned {
	uint64_t mark;
	const attune_op *op;
	attune_plan plan;
};

/* What a tensor holds; ATTUNE_INVALID: no plan. */
enum attune_status planned_of(const struct tensor *, const struct planned **);

#endif
