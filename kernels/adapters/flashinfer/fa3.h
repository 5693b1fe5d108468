/* fa3.h - FlashInfer's fa3 template (warp-specialised, wgmma; sm_90a) as this adapter uses it:
 * bf16, head size 128, causal, neither window nor soft cap. fa3_kernels.cu instantiates what
 * fa3.cu launches. Its names clash with those of fa2: a file includes one of the two. */
#ifndef ATTUNE_FLASHINFER_FA3_H
#define ATTUNE_FLASHINFER_FA3_H

#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <cstdint>

/* Declared here, since their headers bring all of CUTLASS. */
namespace cutlass
{
struct bfloat16_t;
}

namespace flashinfer
{

struct StandardAttention;

template <uint32_t HEAD_DIM_QK, uint32_t HEAD_DIM_VO, MaskMode MASK, bool WINDOW,
	  bool SAME_SCHEDULE, typename Variant, typename Params>
cudaError_t BatchPrefillWithPagedKVCacheDispatched(Params &params, bool enable_pdl,
						   cudaStream_t stream);

} // namespace flashinfer

namespace adapter
{

using fa3_element = cutlass::bfloat16_t;
using fa3_params =
    flashinfer::BatchPrefillPagedParams<fa3_element, fa3_element, fa3_element, int32_t>;
constexpr uint32_t fa3_head_size = 128;

} // namespace adapter

/* `same`: all heads have one schedule, which its plan decides for batches of many tiles. */
#define FA3_LAUNCH(same)                                                                   \
	flashinfer::BatchPrefillWithPagedKVCacheDispatched<                                \
	    adapter::fa3_head_size, adapter::fa3_head_size, flashinfer::MaskMode::kCausal, \
	    /*window*/ false, same, flashinfer::StandardAttention, adapter::fa3_params>
#endif
