/* fa2_plan.h - plans and arguments of FlashInfer's fa2 template, for the kernels that use it. */
#ifndef ATTUNE_FLASHINFER_FA2_PLAN_H
#define ATTUNE_FLASHINFER_FA2_PLAN_H

#include "flashinfer.h"
#include "fa2.h"
#include <flashinfer/attention/scheduler.cuh>

namespace adapter
{

struct fa2_plan : plan {
	flashinfer::PrefillPlanInfo info;
};

/* The arguments of a launch over a cache, fa2_bf16 or fa2_e4m3. Where the plan splits, partial results
 * go to tmp_v and tmp_s; else these are NULL. */
template <typename Cache> struct fa2_call_over {
	typename Cache::params a;
	fa2_element *tmp_v;
	float *tmp_s;
};
using fa2_call = fa2_call_over<fa2_bf16>;

/* Plans a batch whose index arrays are made. split_pages: pages of a split, 0: FlashInfer's choice.
 * colocated: blocks of another kernel beside it. *workspace: bytes of partial results. */
int fa2_fill(const op *, fa2_plan *, int split_pages, int64_t colocated, void *stream,
	     size_t *workspace, char *error);

template <typename Cache = fa2_bf16>
fa2_call_over<Cache> fa2_arguments(const op *, const fa2_plan *, const attune_tensors *,
				   void *workspace);

} // namespace adapter
#endif
